// SPDX-License-Identifier: Apache-2.0
// Whether a call's outputs are what the float64 reference says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/problem_builder.h"

namespace gpu {

using xqa::testing::HostProblem;

// out and lse of a call, in the layout of the problem: equal calls must have equal bits.
struct Outputs {
  std::vector<uint8_t> out;
  std::vector<uint8_t> lse;
  bool operator==(const Outputs& other) const { return out == other.out && lse == other.lse; }
  bool operator!=(const Outputs& other) const { return !(*this == other); }
};

// Largest relative 2-norm of the error over a whole problem; a single row may have twice as much.
// The error is that of probabilities and outputs rounded to the query's dtype.
double errorBound(xqaDtype_t q_dtype);

// Runs the reference on the problem as it is now, and compares. Empty: all is right; else a
// sentence.
std::string judgeOutputs(HostProblem* problem, const Outputs& outputs);

}  // namespace gpu
