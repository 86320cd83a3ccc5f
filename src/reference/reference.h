// SPDX-License-Identifier: Apache-2.0
// The specification in executable form: decode attention in float64 on host memory.
#pragma once

#include "core/problem.h"

namespace xqa {

// Computes a checked problem. No allocation: works in two passes over the keys of each row (maximum and
// denominator, then the weighted sum) with fixed-size buffers. Cannot fail.
void referenceDecode(const Problem& problem);

}  // namespace xqa
