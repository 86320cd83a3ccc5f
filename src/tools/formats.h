// SPDX-License-Identifier: Apache-2.0
// The number formats of tensors: encoding, decoding and names. Independent of the library's own, so
// that a check can find a fault there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "xqa/xqa.h"

namespace tool {

// Rounds to nearest even. E4M3 saturates at 448; f16 and bf16 overflow to infinity.
uint32_t encode(xqaDtype_t dtype, double value);
double decode(xqaDtype_t dtype, uint32_t bits);

size_t dtypeBytes(xqaDtype_t dtype);
const char* dtypeName(xqaDtype_t dtype);
// DEFAULT if there is no such tensor format.
xqaDtype_t dtypeFromName(const std::string& name);

// Element index of a packed array of a dtype.
void storeElement(void* array, xqaDtype_t dtype, size_t index, double value);
double loadElement(const void* array, xqaDtype_t dtype, size_t index);

}  // namespace tool
