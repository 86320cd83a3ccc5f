// SPDX-License-Identifier: Apache-2.0
// Reading and writing size-first structs of older and newer callers.
#pragma once

#include <cstddef>
#include <cstring>

namespace xqa {

// Copies a caller's struct: a smaller one is filled with zeros, a larger one is accepted while its unknown tail
// is zero. False if it is NULL, shorter than its own size field or has a non-zero unknown tail.
template <typename Struct>
bool readStruct(const Struct* from, Struct* to) {
  if (from == nullptr) return false;
  const size_t size = from->struct_size;
  if (size < sizeof(size_t)) return false;
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

// Fills a caller's struct up to the size it has; struct_size keeps the caller's value, a tail this library does
// not know becomes zero. False if it is NULL or shorter than its own size field.
template <typename Struct>
bool writeStruct(const Struct& from, Struct* to) {
  if (to == nullptr || to->struct_size < sizeof(size_t)) return false;
  const size_t size = to->struct_size;
  const size_t known = size < sizeof(Struct) ? size : sizeof(Struct);
  unsigned char* bytes = reinterpret_cast<unsigned char*>(to);
  std::memcpy(bytes + sizeof(size_t), reinterpret_cast<const unsigned char*>(&from) + sizeof(size_t),
              known - sizeof(size_t));
  std::memset(bytes + known, 0, size - known);
  return true;
}

}  // namespace xqa
