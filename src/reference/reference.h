// SPDX-License-Identifier: Apache-2.0
// The specification in executable form: decode attention in float64 on host memory.
#pragma once

#include "core/problem.h"

namespace xqa {

// Computes a checked problem. No allocation: goes twice over the keys of each row, first for the
// maximum, then for the denominator and the weighted sum, with fixed-size buffers on the stack
// (under 256 KiB). Cannot fail.
void referenceDecode(const Problem& problem);

}  // namespace xqa
