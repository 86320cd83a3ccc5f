// SPDX-License-Identifier: Apache-2.0
// Why a key has a variant or has none, in words.
#pragma once

#include <cstddef>

#include "core/registry.h"

namespace xqa {

// Writes what findVariant answers for a caller's key and device (may be NULL), and why. At most
// capacity bytes, zero-terminated; returns the length of the whole text, as snprintf does.
size_t explainKey(const xqaVariantKey_t* key, const xqaDeviceInfo_t* device, char* text,
                  size_t capacity);

}  // namespace xqa
