// SPDX-License-Identifier: Apache-2.0
// The comparison that judges every kernel must itself be able to fail.
#include "support/compare.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace xqa::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr ErrorBounds kBounds = {1e-3, 1e-2, 0.0};
constexpr int32_t kHeads = 2, kDim = 4;

// Three rows of two heads, all different.
std::vector<double> sample() {
  std::vector<double> rows;
  for (int i = 0; i < 3 * kHeads * kDim; ++i) rows.push_back(1.0 + 0.01 * i);
  return rows;
}

Comparison compareWith(size_t element, double expected, double actual) {
  std::vector<double> a = sample(), b = sample();
  a[element] = expected;
  b[element] = actual;
  return compareRows(a, b, kHeads, kDim, kBounds);
}

TEST(CompareRows, AcceptsEqualAndNearlyEqual) {
  EXPECT_TRUE(compareRows(sample(), sample(), kHeads, kDim, kBounds).ok);
  EXPECT_EQ(compareRows(sample(), sample(), kHeads, kDim, kBounds).worst_norm, 0.0);
  EXPECT_TRUE(compareWith(9, 1.0, 1.0005).ok);
  EXPECT_TRUE(compareWith(9, kNan, kNan).ok);
  EXPECT_TRUE(compareWith(9, -kInfinity, -kInfinity).ok);
}

TEST(CompareRows, FindsOneWrongRow) {
  const Comparison result = compareWith(21, 1.0, 1.1);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.worst_row, 2);
  EXPECT_EQ(result.worst_head, 1);
  EXPECT_NEAR(result.worst_max, 0.1 / 1.23, 1e-6);
  EXPECT_NE(result.report.find("worst row 2 head 1 element 1"), std::string::npos) << result.report;
}

TEST(CompareRows, TellsNanAndInfinitiesApart) {
  const double kinds[] = {1.0, kNan, kInfinity, -kInfinity};
  for (const double expected : kinds) {
    for (const double actual : kinds) {
      const Comparison result = compareWith(13, expected, actual);
      const bool same = internal::kindOf(expected) == internal::kindOf(actual);
      EXPECT_EQ(result.ok, same) << expected << " and " << actual;
      if (same) continue;
      EXPECT_EQ(result.worst_row, 1);
      EXPECT_EQ(result.worst_head, 1);
      EXPECT_NE(result.report.find("element 1"), std::string::npos) << result.report;
    }
  }
}

TEST(CompareRows, WantsZerosExactly) {
  const std::vector<double> zeros(4, 0.0);
  std::vector<double> almost = zeros;
  EXPECT_TRUE(compareRows(zeros, almost, 1, 4, kBounds).ok);
  almost[2] = 1e-30;
  EXPECT_FALSE(compareRows(zeros, almost, 1, 4, kBounds).ok);
}

TEST(CompareRows, AllowsOneStepOfSubnormalNumbers) {
  const ErrorBounds bounds = {1e-3, 1e-2, 0x1p-24};
  const std::vector<double> expected = {3 * 0x1p-24, 0.0};
  EXPECT_TRUE(compareRows(expected, {2 * 0x1p-24, 0x1p-24}, 1, 2, bounds).ok);
  EXPECT_FALSE(compareRows(expected, {5 * 0x1p-24, 0.0}, 1, 2, bounds).ok);
  EXPECT_FALSE(compareRows({0.0, 0.0}, {0x1p-24, 0.0}, 1, 2, bounds).ok);
  EXPECT_FALSE(compareRows({1.0, 1.0}, {1.01, 1.0}, 1, 2, bounds).ok);
}

TEST(CompareRows, JudgesTheLargestErrorToo) {
  // Within the bound of the norm, beyond that of one element.
  std::vector<double> expected(1000, 1.0), actual = expected;
  actual[500] = 1.02;
  const Comparison result = compareRows(expected, actual, 1, 1000, kBounds);
  EXPECT_LT(result.worst_norm, kBounds.relative_norm);
  EXPECT_FALSE(result.ok);
}

TEST(CompareRows, RefusesOtherSizes) {
  EXPECT_FALSE(compareRows({1.0, 2.0}, {1.0}, 1, 1, kBounds).ok);
}

TEST(CompareLse, JudgesEveryValue) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(compareLse({1.0f, -inf, nan}, {1.0f, -inf, nan}, 1, 0.0).ok);
  EXPECT_TRUE(compareLse({100.0f, 0.0f}, {100.01f, 0.0001f}, 1, 1e-3).ok);
  EXPECT_FALSE(compareLse({100.0f, 0.0f}, {100.0f, 0.01f}, 1, 1e-3).ok);
  EXPECT_FALSE(compareLse({-inf}, {-1e30f}, 1, 1e-3).ok);
  EXPECT_FALSE(compareLse({1.0f}, {nan}, 1, 1e-3).ok);
  EXPECT_FALSE(compareLse({1.0f, 1.0f}, {1.0f}, 1, 1e-3).ok);
  const Comparison result = compareLse({1.0f, 1.0f, 1.0f, 1.0f}, {1.0f, 1.0f, 1.0f, 3.0f}, 2, 0.5);
  EXPECT_EQ(result.worst_row, 1);
  EXPECT_EQ(result.worst_head, 1);
  EXPECT_FALSE(result.ok);
}

}  // namespace
}  // namespace xqa::testing
