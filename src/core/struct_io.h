// SPDX-License-Identifier: Apache-2.0
// Reading and writing size-first structs of older and newer callers.
#pragma once

#include <cstddef>
#include <cstring>

namespace xqa {

// Structs that begin with a size_t have sizes that are multiples of it, so an older caller's size
// never ends inside a field. Beyond the bound struct_size was never set, and the tail must be
// neither read nor written.
constexpr size_t kMaxStructBytes = 4096;

constexpr bool plausibleStructSize(size_t size) {
  return size >= sizeof(size_t) && size <= kMaxStructBytes && size % sizeof(size_t) == 0;
}

// Copies a caller's struct: a smaller one is filled with zeros, a larger one is accepted while its
// unknown tail is zero. False if it is NULL, of an implausible size or has a non-zero unknown tail.
template <typename Struct>
bool readStruct(const Struct* from, Struct* to) {
  if (from == nullptr) return false;
  const size_t size = from->struct_size;
  if (size == sizeof(Struct)) {  // the usual case: a copy of constant size is a few instructions
    std::memcpy(to, from, sizeof(Struct));
    return true;
  }
  if (!plausibleStructSize(size)) return false;
  const size_t known = size < sizeof(Struct) ? size : sizeof(Struct);
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = known; i < size; ++i) {
    if (bytes[i] != 0) return false;
  }
  std::memset(to, 0, sizeof(Struct));
  std::memcpy(to, from, known);
  to->struct_size = sizeof(Struct);
  return true;
}

// Fills a caller's struct up to the size it has; struct_size keeps the caller's value, a tail this
// library does not know becomes zero. False if it is NULL or of an implausible size.
template <typename Struct>
bool writeStruct(const Struct& from, Struct* to) {
  if (to == nullptr || !plausibleStructSize(to->struct_size)) return false;
  const size_t size = to->struct_size;
  const size_t known = size < sizeof(Struct) ? size : sizeof(Struct);
  unsigned char* bytes = reinterpret_cast<unsigned char*>(to);
  std::memcpy(bytes + sizeof(size_t),
              reinterpret_cast<const unsigned char*>(&from) + sizeof(size_t),
              known - sizeof(size_t));
  std::memset(bytes + known, 0, size - known);
  return true;
}

}  // namespace xqa
