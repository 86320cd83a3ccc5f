// SPDX-License-Identifier: Apache-2.0
#include "judge.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "reference/dtype.h"
#include "support/compare.h"

namespace gpu {
namespace {

constexpr double kLseBound = 1e-3;  // of max(1, |lse|)

std::string line(const char* format, double a, double b) {
  char text[160];
  std::snprintf(text, sizeof(text), format, a, b);
  return text;
}

void runReference(HostProblem* problem, const xqaDecodeShape_t& shape, void* out) {
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  xqaDecodeArgs_t args = problem->args;
  args.out = out;
  if (xqaDecodeHost(&problem->key, &shape, &args, &diagnostic) != XQA_STATUS_SUCCESS) {
    throw std::runtime_error(std::string("xqaDecodeHost: ") + diagnostic.message);
  }
}

// Packed [total_rows, num_q_heads, head_dim] of a buffer laid out as out, in the query's dtype.
std::vector<double> rowsOf(const HostProblem& problem, const void* out) {
  std::vector<double> rows;
  const int64_t dim = problem.spec.head_dim;
  for (int32_t b = 0; b < problem.batch(); ++b) {
    for (int32_t i = 0; i < problem.rowsOf(b); ++i) {
      for (int32_t h = 0; h < problem.shape.num_q_heads; ++h) {
        const int64_t first = problem.outOffset(b, i, h);
        for (int64_t d = 0; d < dim; ++d) {
          rows.push_back(xqa::loadElement(problem.spec.q_dtype, out, first + d));
        }
      }
    }
  }
  return rows;
}

double relativeNorm(const std::vector<double>& expected, const std::vector<double>& actual) {
  double error = 0.0;
  double size = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i])) continue;
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return size == 0.0 ? 0.0 : std::sqrt(error / size);
}

// 16-bit output.
std::string judgeRows(const HostProblem& problem, const std::vector<double>& expected,
                      const std::vector<double>& actual) {
  const double bound = errorBound(problem.spec.q_dtype);
  const double quantum = problem.spec.q_dtype == XQA_DTYPE_F16 ? 0x1p-24 : 0x1p-133;
  const xqa::testing::ErrorBounds row_bounds = {2 * bound, 3 * bound, quantum};
  const xqa::testing::Comparison comparison = xqa::testing::compareRows(
      expected, actual, problem.shape.num_q_heads, problem.spec.head_dim, row_bounds);
  if (!comparison.ok) return comparison.report;
  const double norm = relativeNorm(expected, actual);
  if (norm <= bound) return "";
  return line("norm error of the whole problem is %.3g (bound %.3g)", norm, bound);
}

// E4M3 output: each code must be the rounding of a value within the bound of the exact one.
std::string judgeCodes(const HostProblem& problem, const std::vector<double>& exact,
                       const std::vector<double>& actual) {
  const size_t dim = static_cast<size_t>(problem.spec.head_dim);
  const double bound = errorBound(problem.spec.q_dtype);
  const auto rounded = [](double value) { return xqa::E4m3::decode(xqa::E4m3::encode(value)); };
  for (size_t first = 0; first < exact.size(); first += dim) {
    double largest = 0.0;
    for (size_t i = first; i < first + dim; ++i) {
      if (std::isfinite(exact[i])) largest = std::fmax(largest, std::fabs(exact[i]));
    }
    for (size_t i = first; i < first + dim; ++i) {
      const double tolerance = 3 * bound * largest;
      const bool right = std::isnan(exact[i]) ? std::isnan(actual[i])
                                              : actual[i] >= rounded(exact[i] - tolerance) &&
                                                    actual[i] <= rounded(exact[i] + tolerance);
      if (right) continue;
      const size_t heads = static_cast<size_t>(problem.shape.num_q_heads);
      return "row " + std::to_string(first / dim / heads) + " head " +
             std::to_string(first / dim % heads) + " element " + std::to_string(i - first) +
             line(": expected %g as e4m3, found %g", exact[i], actual[i]);
    }
  }
  return "";
}

}  // namespace

double errorBound(xqaDtype_t q_dtype) { return q_dtype == XQA_DTYPE_F16 ? 1e-3 : 6e-3; }

std::string judgeOutputs(HostProblem* problem, const Outputs& outputs) {
  const std::vector<double> actual = problem->outRows(outputs.out.data());
  problem->resetOutputs();
  std::string fault;
  if (problem->outDtype() == XQA_DTYPE_E4M3) {
    xqaDecodeShape_t shape = problem->shape;
    shape.out_dtype = problem->spec.q_dtype;
    std::vector<uint16_t> exact(static_cast<size_t>(problem->out_elements));
    runReference(problem, shape, exact.data());
    fault = judgeCodes(*problem, rowsOf(*problem, exact.data()), actual);
  } else {
    runReference(problem, problem->shape, problem->out.data());
    fault = judgeRows(*problem, problem->outRows(problem->out.data()), actual);
  }
  if (!fault.empty() || problem->lse.empty()) return fault;

  std::vector<float> lse(problem->lse.size());
  std::memcpy(lse.data(), outputs.lse.data(), outputs.lse.size());
  const xqa::testing::Comparison comparison =
      xqa::testing::compareLse(problem->lse, lse, problem->shape.num_q_heads, kLseBound);
  return comparison.ok ? "" : comparison.report;
}

}  // namespace gpu
