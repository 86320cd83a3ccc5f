// SPDX-License-Identifier: Apache-2.0
#include "core/registry.h"

#include "core/check.h"

namespace xqa {
namespace {

xqaStatus_t checkKeySize(const char* name, int32_t value, Diagnostic& diagnostic) {
  if (value >= 1 && value <= kMaxKeySize) return XQA_STATUS_SUCCESS;
  return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "%s is %d: it must be from 1 to %d", name,
                         value, kMaxKeySize);
}

// A dtype that may be left to its default.
xqaStatus_t checkOperandDtype(const char* name, int32_t dtype, Diagnostic& diagnostic) {
  if (dtype >= XQA_DTYPE_DEFAULT && dtype <= XQA_DTYPE_E4M3) return XQA_STATUS_SUCCESS;
  return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "%s is %d (%s): it must be q_dtype or E4M3",
                         name, dtype, dtypeName(dtype));
}

}  // namespace

SmRange smRange(const Key& key) {
  switch (key.backend) {
    case XQA_BACKEND_MMA_SYNC:
      return {80, 0};
    case XQA_BACKEND_SM90:
      return {90, 90};  // wgmma is of this architecture alone
    default:
      return {0, 0};
  }
}

xqaStatus_t readKey(const xqaVariantKey_t* key, Key* out, Diagnostic& diagnostic) {
  xqaVariantKey_t known;
  XQA_RETURN_IF_ERROR(readChecked("key", key, &known, diagnostic));
  XQA_RETURN_IF_ERROR(checkKeySize("head_dim", known.head_dim, diagnostic));
  XQA_RETURN_IF_ERROR(checkKeySize("group_size", known.group_size, diagnostic));
  const int32_t q_dtype = enumValue(known.q_dtype);
  if (q_dtype != XQA_DTYPE_F16 && q_dtype != XQA_DTYPE_BF16) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "q_dtype is %d (%s): it must be F16 or BF16", q_dtype,
                           dtypeName(q_dtype));
  }
  XQA_RETURN_IF_ERROR(checkOperandDtype("kv_dtype", enumValue(known.kv_dtype), diagnostic));
  XQA_RETURN_IF_ERROR(checkOperandDtype("math_dtype", enumValue(known.math_dtype), diagnostic));
  const int32_t backend = enumValue(known.backend);
  if (backend < XQA_BACKEND_DEFAULT || backend > XQA_BACKEND_SM90) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "backend is %d: it must be from %d to %d",
                           backend, XQA_BACKEND_DEFAULT, XQA_BACKEND_SM90);
  }
  out->head_dim = known.head_dim;
  out->group_size = known.group_size;
  out->q_dtype = known.q_dtype;
  out->kv_dtype = known.kv_dtype == XQA_DTYPE_DEFAULT ? known.q_dtype : known.kv_dtype;
  out->math_dtype = known.math_dtype == XQA_DTYPE_DEFAULT ? known.q_dtype : known.math_dtype;
  out->backend = known.backend;
  return XQA_STATUS_SUCCESS;
}

bool resolveKey(const xqaVariantKey_t* key, Key* out) {
  Diagnostic unheard(nullptr);
  return readKey(key, out, unheard) == XQA_STATUS_SUCCESS;
}

// A binary search without branches: they would be mispredicted half of the time. There is always a
// row.
const xqaVariant* findExact(const Key& key) {
  const uint64_t wanted = packKey(key);
  const xqaVariant* row = kVariants;
  for (uint32_t left = kVariantCount; left > 1;) {
    const uint32_t half = left / 2;
    row = row[half].packed_key <= wanted ? row + half : row;
    left -= half;
  }
  return row->packed_key == wanted ? row : nullptr;
}

xqaBackend_t defaultBackend(const xqaDeviceInfo_t* device) {
  return device != nullptr ? XQA_BACKEND_MMA_SYNC : XQA_BACKEND_HOST;
}

xqaStatus_t findVariant(const Key& key, const xqaDeviceInfo_t* device, const xqaVariant** out) {
  Key resolved = key;
  if (key.backend == XQA_BACKEND_DEFAULT) resolved.backend = defaultBackend(device);
  const xqaVariant* found = findExact(resolved);
  if (found == nullptr) return XQA_STATUS_NOT_FOUND;
  if (device != nullptr && !serves(smRange(resolved), device->sm)) {
    return XQA_STATUS_ARCH_UNSUPPORTED;
  }
  *out = found;
  return XQA_STATUS_SUCCESS;
}

bool isVariant(const xqaVariant* variant) {
  const uintptr_t offset =
      reinterpret_cast<uintptr_t>(variant) - reinterpret_cast<uintptr_t>(kVariants);
  return offset < kVariantCount * sizeof(xqaVariant) && offset % sizeof(xqaVariant) == 0;
}

}  // namespace xqa
