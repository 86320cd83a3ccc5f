// SPDX-License-Identifier: Apache-2.0
#include "core/problem.h"

#include <cmath>

#include "core/check.h"

namespace xqa {
namespace {

constexpr int64_t kMaxRows = INT32_MAX;    // query rows of a call: kernels index them with 32 bits
constexpr int64_t kMaxTokens = INT32_MAX;  // capacity of a request: seq_lens has 32 bits
constexpr uintptr_t kWorkspaceAlignment = 256;
constexpr int64_t kRowUnitElems = 8;  // q and out: what one vector access of a 16-bit row takes

// Adds the bytes from a dimension's first index to its last. False on overflow of 63 bits.
bool addSpan(int64_t extent, int64_t stride, int64_t element_bytes, int64_t* span_bytes) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(extent - 1, stride, &bytes)) return false;
  if (__builtin_mul_overflow(bytes, element_bytes, &bytes)) return false;
  if (bytes < 0 && __builtin_sub_overflow(int64_t{0}, bytes, &bytes)) return false;
  return !__builtin_add_overflow(*span_bytes, bytes, span_bytes);
}

// One dimension of a tensor: its number of indices and the elements from one to the next.
struct Dimension {
  const char* name;
  int64_t extent;
  int64_t stride;
};

// What all strides of a tensor must obey. min_stride keeps the rows of an output apart: a necessary
// condition, not a proof. For inputs it is 0.
struct StrideRules {
  int64_t unit;
  int64_t min_stride;
  int64_t element_bytes;
};

// A stride is judged only where its dimension has a second index.
xqaStatus_t checkDimensions(const char* tensor, const Dimension (&dimensions)[3],
                            const StrideRules& rules, Diagnostic& diagnostic) {
  int64_t span_bytes = 0;
  for (const Dimension& dimension : dimensions) {
    const int64_t stride = dimension.stride;
    if (dimension.extent <= 1) continue;
    if (stride % rules.unit != 0) {
      return diagnostic.fail(XQA_STATUS_SHAPE_UNSUPPORTED,
                             "%s.%s is %lld: it must be a multiple of %lld elements", tensor,
                             dimension.name, printable(stride), printable(rules.unit));
    }
    if (stride > -rules.min_stride && stride < rules.min_stride) {
      return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                             "%s.%s is %lld: rows of head_dim = %lld elements must not overlap",
                             tensor, dimension.name, printable(stride),
                             printable(rules.min_stride));
    }
    if (!addSpan(dimension.extent, stride, rules.element_bytes, &span_bytes)) {
      return diagnostic.fail(XQA_STATUS_SHAPE_UNSUPPORTED,
                             "%s.%s is %lld: with %lld indices the offsets must fit in 63 bits",
                             tensor, dimension.name, printable(stride),
                             printable(dimension.extent));
    }
  }
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t checkSizes(const xqaDecodeShape_t& shape, Problem* problem, Diagnostic& diagnostic) {
  XQA_RETURN_IF_ERROR(checkAtLeast("batch", shape.batch, 0, diagnostic));
  XQA_RETURN_IF_ERROR(checkAtLeast("q_tokens", shape.q_tokens, 0, diagnostic));
  XQA_RETURN_IF_ERROR(checkAtLeast("num_kv_heads", shape.num_kv_heads, 1, diagnostic));
  XQA_RETURN_IF_ERROR(checkAtLeast("num_q_heads", shape.num_q_heads, 1, diagnostic));
  XQA_RETURN_IF_ERROR(checkAtLeast("page_tokens", shape.page_tokens, 1, diagnostic));
  XQA_RETURN_IF_ERROR(checkAtLeast("max_pages", shape.max_pages, 0, diagnostic));
  problem->batch = shape.batch;
  problem->q_tokens = shape.q_tokens == 0 ? 1 : shape.q_tokens;
  problem->num_q_heads = shape.num_q_heads;
  problem->num_kv_heads = shape.num_kv_heads;
  problem->page_tokens = shape.page_tokens;
  problem->max_pages = shape.max_pages == 0 ? 1 : shape.max_pages;

  const int64_t expected_heads = int64_t{shape.num_kv_heads} * problem->key.group_size;
  if (shape.num_q_heads != expected_heads) {
    return diagnostic.fail(XQA_STATUS_SHAPE_UNSUPPORTED,
                           "num_q_heads is %d: it must be num_kv_heads * group_size = %lld",
                           shape.num_q_heads, printable(expected_heads));
  }
  // The rows of one request are bounded too when there is none: products of sizes stay in 32 bits.
  int64_t rows = int64_t{problem->q_tokens} * shape.num_q_heads;
  if (__builtin_mul_overflow(rows, int64_t{shape.batch > 1 ? shape.batch : 1}, &rows) ||
      rows > kMaxRows) {
    return diagnostic.fail(
        XQA_STATUS_SHAPE_UNSUPPORTED,
        "batch is %d, q_tokens is %d and num_q_heads is %d: their product must be at most %lld",
        shape.batch, problem->q_tokens, shape.num_q_heads, printable(kMaxRows));
  }
  if (problem->capacityTokens() > kMaxTokens) {
    return diagnostic.fail(
        XQA_STATUS_SHAPE_UNSUPPORTED,
        "page_tokens is %d and max_pages is %d: their product must be at most %lld",
        shape.page_tokens, shape.max_pages, printable(kMaxTokens));
  }
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t checkScaleStride(const char* name, int32_t stride, Diagnostic& diagnostic) {
  if (stride == 0 || stride == 1) return XQA_STATUS_SUCCESS;
  return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                         "%s is %d: it must be 0 (one value) or 1 (one value per KV head)", name,
                         stride);
}

xqaStatus_t checkOutDtype(const xqaDecodeShape_t& shape, Problem* problem, Diagnostic& diagnostic) {
  const int32_t dtype = enumValue(shape.out_dtype);
  const xqaDtype_t q_dtype = problem->key.q_dtype;
  problem->out_dtype = q_dtype;
  if (dtype == XQA_DTYPE_DEFAULT || dtype == q_dtype) return XQA_STATUS_SUCCESS;
  problem->out_dtype = XQA_DTYPE_E4M3;
  if (dtype == XQA_DTYPE_E4M3) return XQA_STATUS_SUCCESS;
  const bool known = dtypeBytes(dtype) != 0;
  return diagnostic.fail(known ? XQA_STATUS_FEATURE_UNSUPPORTED : XQA_STATUS_INVALID_ARGUMENT,
                         "out_dtype is %d (%s): it must be q_dtype (%s) or E4M3", dtype,
                         dtypeName(dtype), dtypeName(q_dtype));
}

xqaStatus_t checkOptions(const xqaDecodeShape_t& shape, Problem* problem, Diagnostic& diagnostic) {
  XQA_RETURN_IF_ERROR(checkOutDtype(shape, problem, diagnostic));
  XQA_RETURN_IF_ERROR(checkAtLeast("window", shape.window, 0, diagnostic));
  if (!std::isfinite(shape.softmax_scale)) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "softmax_scale is %g: it must be finite",
                           static_cast<double>(shape.softmax_scale));
  }
  if (!std::isfinite(shape.softcap) || shape.softcap < 0.0f) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "softcap is %g: it must be finite and 0 or more",
                           static_cast<double>(shape.softcap));
  }
  XQA_RETURN_IF_ERROR(checkScaleStride("q_scale_stride", shape.q_scale_stride, diagnostic));
  XQA_RETURN_IF_ERROR(checkScaleStride("k_scale_stride", shape.k_scale_stride, diagnostic));
  XQA_RETURN_IF_ERROR(checkScaleStride("v_scale_stride", shape.v_scale_stride, diagnostic));
  XQA_RETURN_IF_ERROR(checkReserved("shape reserved", shape.reserved, diagnostic));
  problem->window = shape.window;
  problem->softmax_scale =
      shape.softmax_scale != 0.0f
          ? shape.softmax_scale
          : static_cast<float>(1.0 / std::sqrt(static_cast<double>(problem->key.head_dim)));
  problem->softcap = shape.softcap;
  problem->q_scale_stride = shape.q_scale_stride;
  problem->k_scale_stride = shape.k_scale_stride;
  problem->v_scale_stride = shape.v_scale_stride;
  return XQA_STATUS_SUCCESS;
}

// Strides of q and out. Which indices the batch and token strides take depends on q_offsets:
// checkShape judges what holds either way (batch_extent 1), checkArgs the rest.
xqaStatus_t checkRowStrides(const Problem& problem, int64_t batch_extent, int64_t token_extent,
                            Diagnostic& diagnostic) {
  const xqaQueryStrides_t& q = problem.q_strides;
  const Dimension q_dimensions[] = {{"batch", batch_extent, q.batch},
                                    {"token", token_extent, q.token},
                                    {"head", problem.num_q_heads, q.head}};
  const StrideRules q_rules = {kRowUnitElems, 0, dtypeBytes(problem.key.q_dtype)};
  XQA_RETURN_IF_ERROR(checkDimensions("q_strides", q_dimensions, q_rules, diagnostic));
  const xqaQueryStrides_t& out = problem.out_strides;
  const Dimension out_dimensions[] = {{"batch", batch_extent, out.batch},
                                      {"token", token_extent, out.token},
                                      {"head", problem.num_q_heads, out.head}};
  const StrideRules out_rules = {kRowUnitElems, problem.key.head_dim,
                                 dtypeBytes(problem.out_dtype)};
  return checkDimensions("out_strides", out_dimensions, out_rules, diagnostic);
}

// Strides of k_cache and v_cache. Whether a page index is a request or a page id depends on
// page_table.
xqaStatus_t checkCacheStrides(const Problem& problem, int64_t page_extent, Diagnostic& diagnostic) {
  // 16 bytes, or 8 for the e4m3 heads of 8, 24, 40 ... bytes that only the host backend takes.
  const int64_t element_bytes = dtypeBytes(problem.key.kv_dtype);
  const int64_t unit = problem.key.head_dim % 16 == 0 ? 16 / element_bytes : 8;
  const StrideRules rules = {unit, 0, element_bytes};
  const xqaCacheStrides_t& k = problem.k_strides;
  const Dimension k_dimensions[] = {{"page", page_extent, k.page},
                                    {"token", problem.page_tokens, k.token},
                                    {"head", problem.num_kv_heads, k.head}};
  XQA_RETURN_IF_ERROR(checkDimensions("k_strides", k_dimensions, rules, diagnostic));
  const xqaCacheStrides_t& v = problem.v_strides;
  const Dimension v_dimensions[] = {{"page", page_extent, v.page},
                                    {"token", problem.page_tokens, v.token},
                                    {"head", problem.num_kv_heads, v.head}};
  return checkDimensions("v_strides", v_dimensions, rules, diagnostic);
}

xqaQueryStrides_t resolveRowStrides(const xqaQueryStrides_t& strides, const Problem& problem) {
  if (strides.batch != 0 || strides.token != 0 || strides.head != 0) return strides;
  const int64_t head = problem.key.head_dim;
  const int64_t token = head * problem.num_q_heads;
  return {token * problem.q_tokens, token, head};
}

// False if a packed page is beyond 63 bits.
bool resolveCacheStrides(const xqaCacheStrides_t& strides, const Problem& problem,
                         xqaCacheStrides_t* resolved) {
  *resolved = strides;
  if (strides.page != 0 || strides.token != 0 || strides.head != 0) return true;
  resolved->head = problem.key.head_dim;
  resolved->token = resolved->head * problem.num_kv_heads;
  return !__builtin_mul_overflow(resolved->token, int64_t{problem.page_tokens}, &resolved->page);
}

xqaStatus_t checkStrides(const xqaDecodeShape_t& shape, Problem* problem, Diagnostic& diagnostic) {
  problem->q_strides = resolveRowStrides(shape.q_strides, *problem);
  problem->out_strides = resolveRowStrides(shape.out_strides, *problem);
  if (!resolveCacheStrides(shape.k_strides, *problem, &problem->k_strides) ||
      !resolveCacheStrides(shape.v_strides, *problem, &problem->v_strides)) {
    return diagnostic.fail(
        XQA_STATUS_SHAPE_UNSUPPORTED,
        "page_tokens is %d and num_kv_heads is %d: the elements of a packed page "
        "must fit in 63 bits",
        shape.page_tokens, shape.num_kv_heads);
  }
  XQA_RETURN_IF_ERROR(checkRowStrides(*problem, 1, problem->q_tokens, diagnostic));
  const bool one_page = shape.batch <= 1 && shape.max_pages <= 1;
  const int64_t page_extent = one_page ? 1 : shape.batch > 2 ? shape.batch : 2;
  XQA_RETURN_IF_ERROR(checkCacheStrides(*problem, page_extent, diagnostic));

  // Without max_pages there is no table: its stride stays 0, by which checkArgs knows.
  const int64_t stride = shape.page_table_stride;
  problem->page_table_stride = shape.max_pages == 0 || stride == 0 ? shape.max_pages : stride;
  if (shape.batch <= 1) return XQA_STATUS_SUCCESS;
  if (problem->page_table_stride < shape.max_pages) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "page_table_stride is %lld: it must be at least max_pages = %d",
                           printable(stride), shape.max_pages);
  }
  int64_t span_bytes = 0;
  if (!addSpan(shape.batch, problem->page_table_stride, sizeof(int32_t), &span_bytes)) {
    return diagnostic.fail(
        XQA_STATUS_SHAPE_UNSUPPORTED,
        "page_table_stride is %lld: with batch = %d the offsets must fit in 63 bits",
        printable(stride), shape.batch);
  }
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t checkFlags(const xqaDecodeArgs_t& args, const Problem& problem,
                       Diagnostic& diagnostic) {
  const uint32_t known = XQA_DECODE_PDL | XQA_DECODE_PDL_OLD_KV_READY;
  if ((args.flags & ~known) != 0) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "flags is 0x%x: bits 0x%x are none of XQA_DECODE_", args.flags,
                           args.flags & ~known);
  }
  if (args.flags == XQA_DECODE_PDL_OLD_KV_READY) {
    return diagnostic.fail(
        XQA_STATUS_INVALID_ARGUMENT,
        "flags is 0x%x: XQA_DECODE_PDL_OLD_KV_READY must come with XQA_DECODE_PDL", args.flags);
  }
  XQA_RETURN_IF_ERROR(checkReserved("args reserved", args.reserved, diagnostic));
  if (args.mask != nullptr && problem.window != 0) {
    return diagnostic.fail(XQA_STATUS_FEATURE_UNSUPPORTED,
                           "mask is given and window is %d: a draft mask must come with window 0",
                           problem.window);
  }
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t checkPointers(const xqaDecodeArgs_t& args, Diagnostic& diagnostic) {
  const struct {
    const char* name;
    const void* pointer;
    uintptr_t alignment;
    Presence presence;
  } pointers[] = {
      {"q", args.q, kTensorAlignment, Presence::kRequired},
      {"q_offsets", args.q_offsets, alignof(int32_t), Presence::kOptional},
      {"k_cache", args.k_cache, kTensorAlignment, Presence::kRequired},
      {"v_cache", args.v_cache, kTensorAlignment, Presence::kRequired},
      {"page_table", args.page_table, alignof(int32_t), Presence::kOptional},
      {"seq_lens", args.seq_lens, alignof(int32_t), Presence::kRequired},
      {"sinks", args.sinks, alignof(float), Presence::kOptional},
      {"mask", args.mask, alignof(uint32_t), Presence::kOptional},
      {"q_scale", args.q_scale, alignof(float), Presence::kOptional},
      {"k_scale", args.k_scale, alignof(float), Presence::kOptional},
      {"v_scale", args.v_scale, alignof(float), Presence::kOptional},
      {"out", args.out, kTensorAlignment, Presence::kRequired},
      {"out_scale", args.out_scale, alignof(float), Presence::kOptional},
      {"lse", args.lse, alignof(float), Presence::kOptional},
      {"workspace", args.workspace, kWorkspaceAlignment, Presence::kOptional},
  };
  for (const auto& entry : pointers) {
    XQA_RETURN_IF_ERROR(
        checkPointer(entry.name, entry.pointer, entry.alignment, entry.presence, diagnostic));
  }
  return XQA_STATUS_SUCCESS;
}

// What pointers say about the shape: the page table about pages, q_offsets about rows.
xqaStatus_t checkLayout(const xqaDecodeArgs_t& args, Problem* problem, Diagnostic& diagnostic) {
  if (args.page_table == nullptr) {
    if (problem->max_pages > 1) {
      return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                             "max_pages is %d: it must be 0 or 1 when page_table is NULL",
                             problem->max_pages);
    }
    problem->page_table_stride = 0;
  } else if (problem->page_table_stride == 0) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "max_pages is 0: it must be 1 or more with page_table");
  }
  // Any two page ids may follow each other, so a table always needs a legal page stride.
  XQA_RETURN_IF_ERROR(
      checkCacheStrides(*problem, args.page_table == nullptr ? problem->batch : 2, diagnostic));
  if (args.q_offsets == nullptr) {
    return checkRowStrides(*problem, problem->batch, problem->q_tokens, diagnostic);
  }
  return checkRowStrides(*problem, 1, int64_t{problem->batch} * problem->q_tokens, diagnostic);
}

}  // namespace

xqaStatus_t checkShape(const Key& key, const xqaDecodeShape_t* shape, Problem* problem,
                       Diagnostic& diagnostic) {
  xqaDecodeShape_t known;
  XQA_RETURN_IF_ERROR(readChecked("shape", shape, &known, diagnostic));
  *problem = {};
  problem->key = key;
  XQA_RETURN_IF_ERROR(checkSizes(known, problem, diagnostic));
  XQA_RETURN_IF_ERROR(checkOptions(known, problem, diagnostic));
  return checkStrides(known, problem, diagnostic);
}

xqaStatus_t checkArgs(const xqaDecodeArgs_t* args, Problem* problem, Diagnostic& diagnostic) {
  xqaDecodeArgs_t known;
  XQA_RETURN_IF_ERROR(readChecked("args", args, &known, diagnostic));
  XQA_RETURN_IF_ERROR(checkFlags(known, *problem, diagnostic));
  if (problem->batch > 0) {
    XQA_RETURN_IF_ERROR(checkPointers(known, diagnostic));
    XQA_RETURN_IF_ERROR(checkLayout(known, problem, diagnostic));
  }
  problem->q = known.q;
  problem->q_offsets = known.q_offsets;
  problem->k_cache = known.k_cache;
  problem->v_cache = known.v_cache;
  problem->page_table = known.page_table;
  problem->seq_lens = known.seq_lens;
  problem->sinks = known.sinks;
  problem->mask = known.mask;
  problem->q_scale = known.q_scale;
  problem->k_scale = known.k_scale;
  problem->v_scale = known.v_scale;
  problem->out = known.out;
  problem->out_scale = known.out_scale;
  problem->lse = known.lse;
  problem->workspace = known.workspace;
  problem->workspace_bytes = known.workspace_bytes;
  problem->flags = known.flags;
  return XQA_STATUS_SUCCESS;
}

}  // namespace xqa
