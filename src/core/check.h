// SPDX-License-Identifier: Apache-2.0
// Pieces that every argument check is made of.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/diagnostic.h"
#include "core/struct_io.h"

// Returns the status of a check that refuses.
#define XQA_RETURN_IF_ERROR(expression)                \
  do {                                                 \
    const xqaStatus_t status_ = (expression);          \
    if (status_ != XQA_STATUS_SUCCESS) return status_; \
  } while (false)

namespace xqa {

// The number in a caller's enum. C callers may store any int there; C++ may only copy it out as
// bytes.
template <typename Enum>
int32_t enumValue(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int32_t), "enums of the C API are 32-bit");
  int32_t number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

// readStruct with a sentence for each way it can fail.
template <typename Struct>
xqaStatus_t readChecked(const char* name, const Struct* from, Struct* to, Diagnostic& diagnostic) {
  if (from == nullptr) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "%s is NULL: it is required", name);
  }
  if (!plausibleStructSize(from->struct_size)) {
    return diagnostic.fail(
        XQA_STATUS_INVALID_ARGUMENT,
        "%s struct_size is %zu: it must be sizeof the struct (%zu in this version)", name,
        from->struct_size, sizeof(Struct));
  }
  if (!readStruct(from, to)) {
    return diagnostic.fail(
        XQA_STATUS_INVALID_ARGUMENT,
        "%s struct_size is %zu and the tail after the %zu bytes that this library knows is "
        "not zero: it uses a field of a newer version",
        name, from->struct_size, sizeof(Struct));
  }
  return XQA_STATUS_SUCCESS;
}

// A struct that the library fills: nothing is read but its size.
template <typename Struct>
xqaStatus_t checkWritable(const char* name, const Struct* to, Diagnostic& diagnostic) {
  if (to == nullptr) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "%s is NULL: it is required", name);
  }
  if (!plausibleStructSize(to->struct_size)) {
    return diagnostic.fail(
        XQA_STATUS_INVALID_ARGUMENT,
        "%s struct_size is %zu: it must be sizeof the struct (%zu in this version)", name,
        to->struct_size, sizeof(Struct));
  }
  return XQA_STATUS_SUCCESS;
}

// The type that %lld takes.
inline long long printable(int64_t value) { return value; }

constexpr uintptr_t kTensorAlignment = 16;  // of q, out and caches: what one vector access takes

enum class Presence { kOptional, kRequired };

inline xqaStatus_t checkPointer(const char* name, const void* pointer, uintptr_t alignment,
                                Presence presence, Diagnostic& diagnostic) {
  if (pointer == nullptr) {
    if (presence == Presence::kOptional) return XQA_STATUS_SUCCESS;
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "%s is NULL: it is required", name);
  }
  if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "%s must be aligned to %d bytes: it is %p",
                           name, static_cast<int>(alignment), pointer);
  }
  return XQA_STATUS_SUCCESS;
}

inline xqaStatus_t checkAtLeast(const char* name, int32_t value, int32_t minimum,
                                Diagnostic& diagnostic) {
  if (value >= minimum) return XQA_STATUS_SUCCESS;
  return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "%s is %d: it must be %d or more", name,
                         value, minimum);
}

inline xqaStatus_t checkReserved(const char* name, int64_t value, Diagnostic& diagnostic) {
  if (value == 0) return XQA_STATUS_SUCCESS;
  return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT, "%s is %lld: it must be 0", name,
                         static_cast<long long>(value));
}

inline const char* dtypeName(int32_t dtype) {
  switch (dtype) {
    case XQA_DTYPE_DEFAULT:
      return "DEFAULT";
    case XQA_DTYPE_F16:
      return "F16";
    case XQA_DTYPE_BF16:
      return "BF16";
    case XQA_DTYPE_E4M3:
      return "E4M3";
    case XQA_DTYPE_F32:
      return "F32";
    default:
      return "unknown";
  }
}

// 0 for a value that is no dtype.
inline int32_t dtypeBytes(int32_t dtype) {
  switch (dtype) {
    case XQA_DTYPE_F16:
    case XQA_DTYPE_BF16:
      return 2;
    case XQA_DTYPE_E4M3:
      return 1;
    case XQA_DTYPE_F32:
      return 4;
    default:
      return 0;
  }
}

}  // namespace xqa
