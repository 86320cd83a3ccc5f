// SPDX-License-Identifier: Apache-2.0
// Is an output right? Expected rows, from the library's host reference or from a dense computation
// of the tool's own, and their comparison with what a variant wrote.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inputs.h"

namespace tool {

// Query heads of one KV head of one request: what is computed and compared at a time.
struct Unit {
  int32_t request;
  int32_t kv_head;
  int32_t first_head;  // within the group
  int32_t heads;
};

// All units if they cost no more than budget multiply-adds; else a spread sample that fits, at
// least one head of one request and at most max_units units.
std::vector<Unit> chooseUnits(const Inputs& inputs, double budget, size_t max_units);

// Rows of a unit: out is [rows, heads, head_dim], lse is [rows, heads] or empty.
struct UnitRows {
  std::vector<double> out;
  std::vector<double> lse;
};

// What xqaDecodeHost gives for a unit alone.
UnitRows referenceRows(const Inputs& inputs, const Unit& unit);
// The documented formulas in float64 over a dense copy of the unit's keys, rounded once to the
// output format.
UnitRows denseRows(const Inputs& inputs, const Unit& unit);
// The unit's part of an output in host memory.
UnitRows outputRows(const Inputs& inputs, const Unit& unit, const void* out, const float* lse);

struct Bounds {
  double error;      // relative 2-norm over everything compared
  double row_error;  // the same of any one row, so that no wrong row hides in a mean
  double lse_error;  // absolute, or relative where the log-sum-exp exceeds 1
};
Bounds boundsFor(const ProblemSpec& spec);

class Comparison {
 public:
  explicit Comparison(Bounds bounds) : bounds_(bounds) {}

  // Rows of row_size elements in equal order.
  void add(const UnitRows& expected, const UnitRows& actual, size_t row_size);

  bool passed() const { return failure().empty(); }
  // A sentence on the first bound that is broken, or nothing.
  std::string failure() const;
  double error() const;
  double worstRow() const { return worst_row_; }
  double worstLse() const { return worst_lse_; }
  int64_t comparedRows() const { return rows_; }
  const Bounds& bounds() const { return bounds_; }

 private:
  void addRow(const double* expected, const double* actual, size_t size);
  void addLse(double expected, double actual);

  Bounds bounds_;
  double difference_squares_ = 0;
  double expected_squares_ = 0;
  double worst_row_ = 0;
  double worst_lse_ = 0;
  int64_t special_mismatches_ = 0;  // NaN, Inf or finite where the other is not
  int64_t rows_ = 0;
};

struct CheckResult {
  Comparison comparison;
  const char* against;
  int64_t checked_requests;
  int64_t total_requests;
  int64_t total_rows;  // rows of all query heads
};

enum class Expectation { kLibraryReference, kDense };

// Compares the chosen units of an output in host memory.
CheckResult checkOutput(const Inputs& inputs, const std::vector<Unit>& units,
                        Expectation expectation, const void* out, const float* lse);

}  // namespace tool
