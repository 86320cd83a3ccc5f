// SPDX-License-Identifier: Apache-2.0
// The registry: one constant row per variant, sorted by packed key. Rows come from
// generated/registry.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/diagnostic.h"
#include "xqa/xqa.h"

// The public opaque type. No pointers inside: the table needs no relocation.
struct xqaVariant {
  uint64_t packed_key;  // packKey(): orders the table
  int16_t family;       // for kernelFamily(); -1 for the host backend
  char name[46];        // zero-terminated
};

namespace xqa {

struct Key {  // xqaVariantKey_t with its defaults resolved
  int32_t head_dim;
  int32_t group_size;
  xqaDtype_t q_dtype;
  xqaDtype_t kv_dtype;
  xqaDtype_t math_dtype;
  xqaBackend_t backend;
};

// Field order is sort order: backend, head_dim, q_dtype, kv_dtype, math_dtype, group_size. Every
// field must be in its public range (checked by resolveKey).
constexpr uint64_t packKey(const Key& key) {
  return (uint64_t(key.backend) << 48) | (uint64_t(key.head_dim) << 32) |
         (uint64_t(key.q_dtype) << 28) | (uint64_t(key.kv_dtype) << 24) |
         (uint64_t(key.math_dtype) << 20) | uint64_t(key.group_size);
}

constexpr Key unpackKey(uint64_t packed) {
  return Key{int32_t(packed >> 32 & 0xFFFF), int32_t(packed & 0xFFFFF),
             xqaDtype_t(packed >> 28 & 0xF), xqaDtype_t(packed >> 24 & 0xF),
             xqaDtype_t(packed >> 20 & 0xF), xqaBackend_t(packed >> 48)};
}

// generated/registry.cpp
extern const xqaVariant kVariants[];
extern const uint32_t kVariantCount;
extern const char kMatrixHash[];  // first 16 hex digits of the SHA-256 of generated/variants.csv

// A rule of codegen/matrix.py that excludes tuples, for xqaExplainKey. A field of 0 matches every
// value.
struct ExclusionRule {
  Key match;           // group_size: 0 only
  const char* reason;  // a sentence
};
extern const ExclusionRule kExclusionRules[];
extern const uint32_t kExclusionRuleCount;

// Compute capabilities that a key's backend serves, 10 * major + minor. Both 0: needs no GPU; max
// 0: no upper bound.
struct SmRange {
  int32_t min;
  int32_t max;
};
SmRange smRange(const Key& key);

constexpr bool serves(const SmRange& range, int32_t sm) {
  return sm >= range.min && (range.max == 0 || sm <= range.max);
}

constexpr int32_t kMaxKeySize = 65535;  // of head_dim and group_size: packKey holds no more

// Copies a public key and resolves its defaults (backend DEFAULT stays). Refuses a struct_size or
// an enum out of range; head_dim and group_size are not judged beyond 1..kMaxKeySize.
xqaStatus_t readKey(const xqaVariantKey_t* key, Key* out, Diagnostic& diagnostic);

// The same without a sentence; false if the key is refused.
bool resolveKey(const xqaVariantKey_t* key, Key* out);

// Exact lookup; key.backend must not be DEFAULT. NULL if there is none.
const xqaVariant* findExact(const Key& key);

// The backend that DEFAULT stands for: the fastest one for the device; NULL means that there is
// none.
xqaBackend_t defaultBackend(const xqaDeviceInfo_t* device);

// Exact lookup for a device. Without one any compute capability is right. NOT_FOUND or
// ARCH_UNSUPPORTED on failure.
xqaStatus_t findVariant(const Key& key, const xqaDeviceInfo_t* device, const xqaVariant** out);

// True if the pointer is a row of kVariants.
bool isVariant(const xqaVariant* variant);

}  // namespace xqa
