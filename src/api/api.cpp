// SPDX-License-Identifier: Apache-2.0
// The extern "C" boundary: reads the caller's structs, asks core to find, check and plan, and hands
// a checked problem to the reference or to the launch path.
#include <cstddef>

#include "core/check.h"
#include "core/device.h"
#include "core/explain.h"
#include "core/merge_args.h"
#include "core/problem.h"
#include "core/registry.h"
#include "reference/reference.h"
#include "runtime/runtime.h"
#include "xqa/xqa.h"

namespace xqa {
namespace {

#define XQA_TEXT_OF(value) #value
#define XQA_TEXT(macro) XQA_TEXT_OF(macro)
constexpr char kBuildInfo[] =
    "libxqa " XQA_TEXT(XQA_VERSION_MAJOR) "." XQA_TEXT(XQA_VERSION_MINOR) "." XQA_TEXT(
        XQA_VERSION_PATCH) "; " XQA_TOOLKIT_TEXT "; sm " XQA_SM_TEXT "; matrix " XQA_MATRIX_HASH;

constexpr int32_t kMaxHostHeadDim = 1024;
constexpr int32_t kHeadDimUnit = 8;

// Every backend honours every argument: what one cannot do is refused by key or shape.
constexpr uint32_t kAllFeatures =
    XQA_FEATURE_PAGED_CACHE | XQA_FEATURE_CONTIGUOUS_CACHE | XQA_FEATURE_CACHE_STRIDES |
    XQA_FEATURE_MULTI_TOKEN | XQA_FEATURE_DRAFT_MASK | XQA_FEATURE_RAGGED_QUERIES |
    XQA_FEATURE_SLIDING_WINDOW | XQA_FEATURE_SINKS | XQA_FEATURE_SOFTCAP | XQA_FEATURE_SCALES |
    XQA_FEATURE_E4M3_OUTPUT | XQA_FEATURE_LSE;

bool isHost(const Key& key) { return key.backend == XQA_BACKEND_HOST; }

xqaStatus_t checkVariant(xqaVariant_t variant, Diagnostic& diagnostic) {
  if (isVariant(variant)) return XQA_STATUS_SUCCESS;
  return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, variant == nullptr
                                                          ? "variant is NULL: it is required"
                                                          : "variant is not of this library");
}

// Index into kRowTiles of the tile that holds a KV head's rows of one token.
int rowTileIndex(const Key& key) {
  int index = 0;
  while (index + 1 < kRowTileCount && kRowTiles[index] < key.group_size) ++index;
  return index;
}

xqaStatus_t checkSm(const xqaVariant& variant, int32_t sm, Diagnostic& diagnostic) {
  const SmRange range = smRange(unpackKey(variant.packed_key));
  if (sm >= range.min && (range.max == 0 || sm <= range.max)) return XQA_STATUS_SUCCESS;
  return diagnostic.fail(XQA_STATUS_ARCH_UNSUPPORTED,
                         "sm is %d: variant %s needs compute capability %d.%d or more", sm,
                         variant.name, range.min / 10, range.min % 10);
}

// A variant, the device it is to run on (not read for the host backend) and a shape, checked.
xqaStatus_t checkCall(xqaVariant_t variant, const xqaDeviceInfo_t* device,
                      const xqaDecodeShape_t* shape, xqaDeviceInfo_t* known_device,
                      Problem* problem, Diagnostic& diagnostic) {
  XQA_RETURN_IF_ERROR(checkVariant(variant, diagnostic));
  const Key key = unpackKey(variant->packed_key);
  if (!isHost(key)) {
    XQA_RETURN_IF_ERROR(readDevice(device, known_device, diagnostic));
    XQA_RETURN_IF_ERROR(checkSm(*variant, known_device->sm, diagnostic));
  }
  return checkShape(key, shape, problem, diagnostic);
}

xqaStatus_t findFamily(const xqaVariant& variant, const KernelFamily** family,
                       Diagnostic& diagnostic) {
  *family = kernelFamily(variant.family);
  if (*family != nullptr) return XQA_STATUS_SUCCESS;
  return diagnostic.fail(XQA_STATUS_NO_DEVICE,
                         "variant %s has no kernels: this library was built without CUDA",
                         variant.name);
}

xqaStatus_t checkWorkspace(const Problem& problem, size_t needed, Diagnostic& diagnostic) {
  if (needed == 0) return XQA_STATUS_SUCCESS;
  if (problem.workspace == nullptr) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "workspace is NULL: this shape needs %zu bytes", needed);
  }
  if (problem.workspace_bytes < needed) {
    return diagnostic.fail(XQA_STATUS_WORKSPACE_TOO_SMALL,
                           "workspace_bytes is %zu: this shape needs %zu", problem.workspace_bytes,
                           needed);
  }
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t checkKeyDtype(const char* name, int32_t dtype, int32_t q_dtype,
                          Diagnostic& diagnostic) {
  if (dtype == XQA_DTYPE_DEFAULT || dtype == q_dtype || dtype == XQA_DTYPE_E4M3) {
    return XQA_STATUS_SUCCESS;
  }
  return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                         "%s is %d (%s): it must be q_dtype (%s) or E4M3", name, dtype,
                         dtypeName(dtype), dtypeName(q_dtype));
}

// The host backend computes more than is in the registry: its keys are judged by rule, not looked
// up.
xqaStatus_t checkHostKey(const xqaVariantKey_t* key, Key* resolved, Diagnostic& diagnostic) {
  xqaVariantKey_t known;
  XQA_RETURN_IF_ERROR(readChecked("key", key, &known, diagnostic));
  if (known.head_dim < kHeadDimUnit || known.head_dim > kMaxHostHeadDim ||
      known.head_dim % kHeadDimUnit != 0) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "head_dim is %d: it must be a multiple of %d from %d to %d",
                           known.head_dim, kHeadDimUnit, kHeadDimUnit, kMaxHostHeadDim);
  }
  XQA_RETURN_IF_ERROR(checkAtLeast("group_size", known.group_size, 1, diagnostic));
  const int32_t q_dtype = enumValue(known.q_dtype);
  if (q_dtype != XQA_DTYPE_F16 && q_dtype != XQA_DTYPE_BF16) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "q_dtype is %d (%s): it must be F16 or BF16", q_dtype,
                           dtypeName(q_dtype));
  }
  XQA_RETURN_IF_ERROR(checkKeyDtype("kv_dtype", enumValue(known.kv_dtype), q_dtype, diagnostic));
  XQA_RETURN_IF_ERROR(
      checkKeyDtype("math_dtype", enumValue(known.math_dtype), q_dtype, diagnostic));
  resolved->head_dim = known.head_dim;
  resolved->group_size = known.group_size;
  resolved->q_dtype = known.q_dtype;
  resolved->kv_dtype = known.kv_dtype == XQA_DTYPE_DEFAULT ? known.q_dtype : known.kv_dtype;
  resolved->math_dtype = known.math_dtype == XQA_DTYPE_DEFAULT ? known.q_dtype : known.math_dtype;
  resolved->backend = XQA_BACKEND_HOST;
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t decodeOnHost(const xqaDecodeArgs_t* args, Problem* problem, Diagnostic& diagnostic) {
  XQA_RETURN_IF_ERROR(checkArgs(args, problem, diagnostic));
  if (problem->batch > 0) referenceDecode(*problem);
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t decodeOnDevice(const xqaVariant& variant, const xqaDeviceInfo_t& device,
                           const xqaDecodeArgs_t* args, Problem* problem, xqaStream_t stream,
                           Diagnostic& diagnostic) {
  XQA_RETURN_IF_ERROR(checkArgs(args, problem, diagnostic));
  if (problem->batch == 0) return XQA_STATUS_SUCCESS;
  const KernelFamily* family = nullptr;
  XQA_RETURN_IF_ERROR(findFamily(variant, &family, diagnostic));
  const size_t needed = decodeWorkspaceBytes(*family, device, *problem);
  XQA_RETURN_IF_ERROR(checkWorkspace(*problem, needed, diagnostic));
  return launchDecode(*family, device, *problem, stream, diagnostic);
}

}  // namespace
}  // namespace xqa

using namespace xqa;

extern "C" {

uint32_t xqaGetVersion(void) { return XQA_VERSION; }

const char* xqaGetBuildInfo(void) { return kBuildInfo; }

const char* xqaGetStatusName(xqaStatus_t status) {
  switch (enumValue(status)) {
    case XQA_STATUS_SUCCESS:
      return "XQA_STATUS_SUCCESS";
    case XQA_STATUS_INVALID_ARGUMENT:
      return "XQA_STATUS_INVALID_ARGUMENT";
    case XQA_STATUS_NOT_FOUND:
      return "XQA_STATUS_NOT_FOUND";
    case XQA_STATUS_ARCH_UNSUPPORTED:
      return "XQA_STATUS_ARCH_UNSUPPORTED";
    case XQA_STATUS_SHAPE_UNSUPPORTED:
      return "XQA_STATUS_SHAPE_UNSUPPORTED";
    case XQA_STATUS_FEATURE_UNSUPPORTED:
      return "XQA_STATUS_FEATURE_UNSUPPORTED";
    case XQA_STATUS_WORKSPACE_TOO_SMALL:
      return "XQA_STATUS_WORKSPACE_TOO_SMALL";
    case XQA_STATUS_NO_DEVICE:
      return "XQA_STATUS_NO_DEVICE";
    case XQA_STATUS_CUDA_ERROR:
      return "XQA_STATUS_CUDA_ERROR";
    default:
      return "XQA_STATUS_UNKNOWN";
  }
}

const char* xqaGetStatusString(xqaStatus_t status) {
  switch (enumValue(status)) {
    case XQA_STATUS_SUCCESS:
      return "The call succeeded.";
    case XQA_STATUS_INVALID_ARGUMENT:
      return "An argument is NULL though it is required, out of its range or misaligned.";
    case XQA_STATUS_NOT_FOUND:
      return "No variant with this key is in the library.";
    case XQA_STATUS_ARCH_UNSUPPORTED:
      return "The variant does not run on a device of this compute capability.";
    case XQA_STATUS_SHAPE_UNSUPPORTED:
      return "The variant cannot honour a size or stride of this shape.";
    case XQA_STATUS_FEATURE_UNSUPPORTED:
      return "The variant cannot honour an argument or combination of arguments.";
    case XQA_STATUS_WORKSPACE_TOO_SMALL:
      return "The workspace is smaller than xqaGetWorkspaceSize() says.";
    case XQA_STATUS_NO_DEVICE:
      return "There is no CUDA driver, no such device, or the library was built without CUDA.";
    case XQA_STATUS_CUDA_ERROR:
      return "The CUDA runtime reported an error.";
    default:
      return "This is no status of libxqa.";
  }
}

xqaStatus_t xqaGetDeviceInfo(int32_t device, xqaDeviceInfo_t* info, xqaDiagnostic_t* diagnostic) {
  Diagnostic report(diagnostic);
  XQA_RETURN_IF_ERROR(checkWritable("info", info, report));
  XQA_RETURN_IF_ERROR(checkAtLeast("device", device, 0, report));
  xqaDeviceInfo_t found = {};
  found.struct_size = sizeof(found);
  XQA_RETURN_IF_ERROR(queryDevice(device, &found, report));
  writeStruct(found, info);
  return XQA_STATUS_SUCCESS;
}

uint32_t xqaVariantCount(void) { return kVariantCount; }

xqaVariant_t xqaVariantAt(uint32_t index) {
  return index < kVariantCount ? &kVariants[index] : nullptr;
}

xqaStatus_t xqaGetVariantInfo(xqaVariant_t variant, xqaVariantInfo_t* info) {
  Diagnostic unheard(nullptr);
  XQA_RETURN_IF_ERROR(checkVariant(variant, unheard));
  const Key key = unpackKey(variant->packed_key);
  const SmRange range = smRange(key);
  xqaVariantInfo_t found = {};
  found.name = variant->name;
  found.head_dim = key.head_dim;
  found.group_size = key.group_size;
  found.q_dtype = key.q_dtype;
  found.kv_dtype = key.kv_dtype;
  found.math_dtype = key.math_dtype;
  found.backend = key.backend;
  found.available = 1;
  found.sm_min = range.min;
  found.sm_max = range.max;
  found.features = kAllFeatures;
  if (!isHost(key)) {
    const int tile = rowTileIndex(key);
    const KernelFamily* family = kernelFamily(variant->family);
    const KernelRecord* record = family != nullptr ? family->by_row_tile[tile] : nullptr;
    found.available = record != nullptr;
    found.row_tile = kRowTiles[tile];
    found.smem_bytes = record != nullptr ? record->smem_bytes : 0;
  }
  return writeStruct(found, info) ? XQA_STATUS_SUCCESS : XQA_STATUS_INVALID_ARGUMENT;
}

xqaStatus_t xqaFindVariant(const xqaVariantKey_t* key, const xqaDeviceInfo_t* device,
                           const xqaDecodeShape_t* shape, xqaVariant_t* variant) {
  Diagnostic unheard(nullptr);
  XQA_RETURN_IF_ERROR(
      checkPointer("variant", variant, alignof(xqaVariant_t), Presence::kRequired, unheard));
  Key resolved;
  if (!resolveKey(key, &resolved)) return XQA_STATUS_INVALID_ARGUMENT;
  xqaDeviceInfo_t known_device;
  if (device != nullptr) XQA_RETURN_IF_ERROR(readDevice(device, &known_device, unheard));
  const xqaVariant* found = nullptr;
  XQA_RETURN_IF_ERROR(findVariant(resolved, device != nullptr ? &known_device : nullptr, &found));
  if (shape != nullptr) {
    Problem problem;
    XQA_RETURN_IF_ERROR(checkShape(unpackKey(found->packed_key), shape, &problem, unheard));
  }
  *variant = found;
  return XQA_STATUS_SUCCESS;
}

size_t xqaExplainKey(const xqaVariantKey_t* key, const xqaDeviceInfo_t* device, char* text,
                     size_t capacity) {
  return explainKey(key, device, text, capacity);
}

xqaStatus_t xqaGetWorkspaceSize(xqaVariant_t variant, const xqaDeviceInfo_t* device,
                                const xqaDecodeShape_t* shape, size_t* bytes,
                                xqaDiagnostic_t* diagnostic) {
  Diagnostic report(diagnostic);
  xqaDeviceInfo_t known_device;
  Problem problem;
  XQA_RETURN_IF_ERROR(checkPointer("bytes", bytes, alignof(size_t), Presence::kRequired, report));
  XQA_RETURN_IF_ERROR(checkCall(variant, device, shape, &known_device, &problem, report));
  if (isHost(problem.key) || problem.batch == 0) {
    *bytes = 0;
    return XQA_STATUS_SUCCESS;
  }
  const KernelFamily* family = nullptr;
  XQA_RETURN_IF_ERROR(findFamily(*variant, &family, report));
  *bytes = decodeWorkspaceBytes(*family, known_device, problem);
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t xqaPrepareVariant(xqaVariant_t variant, int32_t device, xqaDiagnostic_t* diagnostic) {
  Diagnostic report(diagnostic);
  XQA_RETURN_IF_ERROR(checkVariant(variant, report));
  if (isHost(unpackKey(variant->packed_key))) return XQA_STATUS_SUCCESS;
  XQA_RETURN_IF_ERROR(checkAtLeast("device", device, 0, report));
  const KernelFamily* family = nullptr;
  XQA_RETURN_IF_ERROR(findFamily(*variant, &family, report));
  xqaDeviceInfo_t info = {};
  XQA_RETURN_IF_ERROR(queryDevice(device, &info, report));
  XQA_RETURN_IF_ERROR(checkSm(*variant, info.sm, report));
  return prepareFamily(*family, device, report);
}

xqaStatus_t xqaDecode(xqaVariant_t variant, const xqaDeviceInfo_t* device,
                      const xqaDecodeShape_t* shape, const xqaDecodeArgs_t* args,
                      xqaStream_t stream, xqaDiagnostic_t* diagnostic) {
  Diagnostic report(diagnostic);
  xqaDeviceInfo_t known_device;
  Problem problem;
  XQA_RETURN_IF_ERROR(checkCall(variant, device, shape, &known_device, &problem, report));
  if (!isHost(problem.key)) {
    return decodeOnDevice(*variant, known_device, args, &problem, stream, report);
  }
  if (stream != nullptr) {
    return report.fail(XQA_STATUS_INVALID_ARGUMENT,
                       "stream is not NULL: it must be for the host backend");
  }
  return decodeOnHost(args, &problem, report);
}

xqaStatus_t xqaDecodeHost(const xqaVariantKey_t* key, const xqaDecodeShape_t* shape,
                          const xqaDecodeArgs_t* args, xqaDiagnostic_t* diagnostic) {
  Diagnostic report(diagnostic);
  Key resolved;
  Problem problem;
  XQA_RETURN_IF_ERROR(checkHostKey(key, &resolved, report));
  XQA_RETURN_IF_ERROR(checkShape(resolved, shape, &problem, report));
  return decodeOnHost(args, &problem, report);
}

xqaStatus_t xqaMergePartials(const xqaMergeArgs_t* args, xqaStream_t stream,
                             xqaDiagnostic_t* diagnostic) {
  Diagnostic report(diagnostic);
  xqaMergeArgs_t resolved;
  XQA_RETURN_IF_ERROR(checkMerge(args, &resolved, report));
  if (resolved.rows == 0) return XQA_STATUS_SUCCESS;
  return launchMerge(resolved, stream, report);
}

const xqaApi_t* xqaGetApi(uint32_t abi_version) {
  static const xqaApi_t kApi = {sizeof(xqaApi_t),    XQA_ABI_VERSION,   XQA_VERSION,
                                xqaGetBuildInfo,     xqaGetStatusName,  xqaGetStatusString,
                                xqaGetDeviceInfo,    xqaVariantCount,   xqaVariantAt,
                                xqaGetVariantInfo,   xqaFindVariant,    xqaExplainKey,
                                xqaGetWorkspaceSize, xqaPrepareVariant, xqaDecode,
                                xqaDecodeHost,       xqaMergePartials};
  return abi_version == XQA_ABI_VERSION ? &kApi : nullptr;
}

}  // extern "C"
