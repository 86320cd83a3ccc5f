// SPDX-License-Identifier: Apache-2.0
// Comparison of an output with its reference: NaN and infinity must be in the same places, then
// every (row, head) is judged on its own, so that one wrong row cannot hide in a mean.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace xqa::testing {

struct ErrorBounds {
  double relative_norm;  // |actual - expected| / |expected|, 2-norms over a row's head_dim
  double relative_max;   // largest |actual - expected| of a row / its largest |expected|
  // Spacing of the output dtype's subnormal numbers: two roundings of nearly the same value may
  // differ by one such step, however small the row. A row of zeros is still exact.
  double quantum = 0.0;
};

struct Comparison {
  bool ok = true;
  double worst_norm = 0.0;  // of all rows; infinity if expected is all zeros and actual is not
  double worst_max = 0.0;
  int64_t worst_row = 0;  // where worst_norm is, or where the first mismatch of another kind is
  int32_t worst_head = 0;
  std::string report;  // one line
};

namespace internal {

inline char kindOf(double value) {
  return std::isnan(value) ? 'n' : std::isinf(value) ? (value > 0 ? '+' : '-') : 'f';
}

template <typename... Values>
std::string formatLine(const char* format, Values... values) {
  char line[240];
  std::snprintf(line, sizeof(line), format, values...);
  return line;
}

inline double ratio(double error, double size) {
  if (error == 0.0) return 0.0;
  return size > 0.0 ? error / size : std::numeric_limits<double>::infinity();
}

}  // namespace internal

// Packed arrays [rows, heads, dim].
inline Comparison compareRows(const std::vector<double>& expected,
                              const std::vector<double>& actual, int32_t heads, int32_t dim,
                              const ErrorBounds& bounds) {
  Comparison result;
  if (expected.size() != actual.size()) {
    result.ok = false;
    result.report =
        internal::formatLine("%zu elements expected, %zu found", expected.size(), actual.size());
    return result;
  }
  const size_t width = static_cast<size_t>(dim);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (internal::kindOf(expected[i]) == internal::kindOf(actual[i])) continue;
    result.ok = false;
    result.worst_row = static_cast<int64_t>(i / width) / heads;
    result.worst_head = static_cast<int32_t>(static_cast<int64_t>(i / width) % heads);
    result.report = internal::formatLine("row %lld head %d element %zu: expected %g, found %g",
                                         static_cast<long long>(result.worst_row),
                                         result.worst_head, i % width, expected[i], actual[i]);
    return result;
  }
  size_t worst_element = 0;
  for (size_t first = 0; first < expected.size(); first += width) {
    double error_squares = 0.0, squares = 0.0, max_error = 0.0, max_size = 0.0;
    const bool all_zero = std::all_of(expected.begin() + static_cast<std::ptrdiff_t>(first),
                                      expected.begin() + static_cast<std::ptrdiff_t>(first + width),
                                      [](double value) { return value == 0.0; });
    const double step = all_zero ? 0.0 : bounds.quantum;
    size_t max_element = first;
    for (size_t i = first; i < first + width; ++i) {
      if (!std::isfinite(expected[i])) continue;
      const double error = std::max(0.0, std::fabs(actual[i] - expected[i]) - step);
      error_squares += error * error;
      squares += expected[i] * expected[i];
      max_size = std::max(max_size, std::fabs(expected[i]));
      if (error > max_error) {
        max_error = error;
        max_element = i;
      }
    }
    const double norm = internal::ratio(std::sqrt(error_squares), std::sqrt(squares));
    result.worst_max = std::max(result.worst_max, internal::ratio(max_error, max_size));
    if (norm > result.worst_norm) {
      result.worst_norm = norm;
      result.worst_row = static_cast<int64_t>(first / width) / heads;
      result.worst_head = static_cast<int32_t>(static_cast<int64_t>(first / width) % heads);
      worst_element = max_element;
    }
  }
  result.ok = result.worst_norm <= bounds.relative_norm && result.worst_max <= bounds.relative_max;
  result.report = internal::formatLine(
      "norm error %.3g (bound %.3g), max error %.3g (bound %.3g); worst row %lld head %d",
      result.worst_norm, bounds.relative_norm, result.worst_max, bounds.relative_max,
      static_cast<long long>(result.worst_row), result.worst_head);
  if (result.worst_norm > 0.0) {
    result.report +=
        internal::formatLine(" element %zu: expected %g, found %g", worst_element % width,
                             expected[worst_element], actual[worst_element]);
  }
  return result;
}

// Packed arrays [rows, heads] of log-sum-exp values, judged by |actual - expected| / max(1,
// |expected|).
inline Comparison compareLse(const std::vector<float>& expected, const std::vector<float>& actual,
                             int32_t heads, double bound) {
  Comparison result;
  result.ok = expected.size() == actual.size();
  result.report =
      internal::formatLine("%zu values expected, %zu found", expected.size(), actual.size());
  if (!result.ok) return result;
  size_t worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double e = expected[i], a = actual[i];
    double error = std::numeric_limits<double>::infinity();
    if (internal::kindOf(e) == internal::kindOf(a)) {
      error = std::isfinite(e) ? std::fabs(a - e) / std::max(1.0, std::fabs(e)) : 0.0;
    }
    if (error > result.worst_max) {
      result.worst_max = error;
      worst = i;
    }
  }
  result.worst_norm = result.worst_max;
  result.worst_row = static_cast<int64_t>(worst) / heads;
  result.worst_head = static_cast<int32_t>(static_cast<int64_t>(worst) % heads);
  result.ok = result.worst_max <= bound;
  if (expected.empty()) return result;
  result.report = internal::formatLine(
      "lse error %.3g (bound %.3g) at row %lld head %d: expected %.9g, found %.9g",
      result.worst_max, bound, static_cast<long long>(result.worst_row), result.worst_head,
      static_cast<double>(expected[worst]), static_cast<double>(actual[worst]));
  return result;
}

}  // namespace xqa::testing
