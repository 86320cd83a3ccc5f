// SPDX-License-Identifier: Apache-2.0
#include "core/merge_args.h"

#include "core/check.h"

namespace xqa {
namespace {

constexpr int32_t kUnitElems = 8;  // head_dim and part strides come in vectors of 8 elements

// True if the last part ends within 63 bits of bytes from the first.
bool partsFit(int32_t parts, int64_t stride, int64_t part_elems, int64_t element_bytes) {
  int64_t bytes = 0;
  return !__builtin_mul_overflow(int64_t{parts} - 1, stride, &bytes) &&
         !__builtin_add_overflow(bytes, part_elems, &bytes) &&
         !__builtin_mul_overflow(bytes, element_bytes, &bytes);
}

xqaStatus_t resolveDtypes(xqaMergeArgs_t* args, Diagnostic& diagnostic) {
  const int32_t partial = enumValue(args->partial_dtype);
  if (partial != XQA_DTYPE_F16 && partial != XQA_DTYPE_BF16 && partial != XQA_DTYPE_F32) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "partial_dtype is %d (%s): it must be F16, BF16 or F32", partial,
                           dtypeName(partial));
  }
  const int32_t out = enumValue(args->out_dtype);
  if (out == XQA_DTYPE_DEFAULT) {
    args->out_dtype = args->partial_dtype;
  } else if (dtypeBytes(out) == 0) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "out_dtype is %d: it must be F16, BF16, F32 or E4M3", out);
  }
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t resolveStrides(xqaMergeArgs_t* args, Diagnostic& diagnostic) {
  int64_t part_elems = 0;
  if (__builtin_mul_overflow(args->rows, int64_t{args->head_dim}, &part_elems) ||
      part_elems > INT64_MAX / dtypeBytes(XQA_DTYPE_F32)) {
    return diagnostic.fail(
        XQA_STATUS_INVALID_ARGUMENT,
        "rows is %lld and head_dim is %d: the bytes of a part must fit in 63 bits",
        printable(args->rows), args->head_dim);
  }
  if (args->partial_out_stride == 0) args->partial_out_stride = part_elems;
  if (args->partial_lse_stride == 0) args->partial_lse_stride = args->rows;
  if (args->num_parts == 1) return XQA_STATUS_SUCCESS;
  if (args->partial_out_stride % kUnitElems != 0) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "partial_out_stride is %lld: it must be a multiple of %d elements",
                           printable(args->partial_out_stride), kUnitElems);
  }
  if (!partsFit(args->num_parts, args->partial_out_stride, part_elems,
                dtypeBytes(args->partial_dtype))) {
    return diagnostic.fail(
        XQA_STATUS_INVALID_ARGUMENT,
        "partial_out_stride is %lld: with num_parts = %d the offsets must fit in "
        "63 bits",
        printable(args->partial_out_stride), args->num_parts);
  }
  if (!partsFit(args->num_parts, args->partial_lse_stride, args->rows, sizeof(float))) {
    return diagnostic.fail(
        XQA_STATUS_INVALID_ARGUMENT,
        "partial_lse_stride is %lld: with num_parts = %d the offsets must fit in "
        "63 bits",
        printable(args->partial_lse_stride), args->num_parts);
  }
  return XQA_STATUS_SUCCESS;
}

}  // namespace

xqaStatus_t checkMerge(const xqaMergeArgs_t* args, xqaMergeArgs_t* resolved,
                       Diagnostic& diagnostic) {
  XQA_RETURN_IF_ERROR(readChecked("merge args", args, resolved, diagnostic));
  if (resolved->num_parts < 1) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "num_parts is %d: it must be 1 or more",
                           resolved->num_parts);
  }
  if (resolved->head_dim < kUnitElems || resolved->head_dim % kUnitElems != 0) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "head_dim is %d: it must be a positive multiple of %d",
                           resolved->head_dim, kUnitElems);
  }
  if (resolved->rows < 0) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "rows is %lld: it must be 0 or more",
                           printable(resolved->rows));
  }
  XQA_RETURN_IF_ERROR(resolveDtypes(resolved, diagnostic));
  XQA_RETURN_IF_ERROR(resolveStrides(resolved, diagnostic));
  if (resolved->rows == 0) return XQA_STATUS_SUCCESS;
  XQA_RETURN_IF_ERROR(checkPointer("partial_out", resolved->partial_out, kTensorAlignment,
                                   Presence::kRequired, diagnostic));
  XQA_RETURN_IF_ERROR(checkPointer("partial_lse", resolved->partial_lse, alignof(float),
                                   Presence::kRequired, diagnostic));
  XQA_RETURN_IF_ERROR(
      checkPointer("out", resolved->out, kTensorAlignment, Presence::kRequired, diagnostic));
  return checkPointer("lse", resolved->lse, alignof(float), Presence::kOptional, diagnostic);
}

}  // namespace xqa
