// SPDX-License-Identifier: Apache-2.0
// xqaDecodeHost against the results of tests/support/oracle.py: equal codes and equal LSE bits.
// Both sides round a float64 result once, so a difference of a code means an error far beyond
// float64's.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "reference/dtype.h"
#include "support/fixture.h"
#include "xqa/xqa.h"

namespace xqa::testing {
namespace {

const std::vector<Fixture>& fixtures() {
  static const std::vector<Fixture> all = loadFixtures(XQA_FIXTURES);
  return all;
}

class Oracle : public ::testing::TestWithParam<Fixture> {};

// Bytes of a code that no result has: what the call leaves alone keeps them.
constexpr uint8_t kCanary = 0xFD;

struct Output {
  std::vector<uint8_t> out;
  std::vector<float> lse;
};

Output decode(const Fixture& fixture) {
  const size_t element_bytes = fixture.shape.out_dtype == XQA_DTYPE_E4M3 ? 1 : 2;
  const int64_t rows = int64_t{fixture.shape.batch} * fixture.shape.q_tokens;
  Output output;
  output.out.assign(static_cast<size_t>(rows * fixture.shape.out_strides.token) * element_bytes,
                    kCanary);
  output.lse.assign(static_cast<size_t>(rows * fixture.shape.num_q_heads), 12345.0f);
  xqaDecodeArgs_t args = fixture.inputArgs();
  args.out = output.out.data();
  args.lse = fixture.buffers.count("lse") != 0 ? output.lse.data() : nullptr;
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  EXPECT_EQ(xqaDecodeHost(&fixture.key, &fixture.shape, &args, &diagnostic), XQA_STATUS_SUCCESS)
      << diagnostic.message;
  return output;
}

// Element offset of every row of out, in the order of the expected results.
std::vector<int64_t> rowOffsets(const Fixture& fixture) {
  const xqaQueryStrides_t& strides = fixture.shape.out_strides;
  const bool ragged = fixture.buffers.count("q_offsets") != 0;
  const int64_t q_tokens = fixture.shape.q_tokens;
  std::vector<int64_t> offsets;
  for (int64_t row = 0; row < fixture.total_rows; ++row) {
    const int64_t start = ragged ? row * strides.token
                                 : row / q_tokens * strides.batch + row % q_tokens * strides.token;
    for (int64_t head = 0; head < fixture.shape.num_q_heads; ++head) {
      offsets.push_back(start + head * strides.head);
    }
  }
  return offsets;
}

TEST_P(Oracle, OutIsEqual) {
  const Fixture& fixture = GetParam();
  const xqaDtype_t dtype = fixture.shape.out_dtype;
  const size_t element_bytes = dtype == XQA_DTYPE_E4M3 ? 1 : 2;
  Output output = decode(fixture);
  const auto expected = fixture.buffers.find("out");
  const size_t dim = static_cast<size_t>(fixture.key.head_dim);
  const std::vector<int64_t> offsets = rowOffsets(fixture);
  for (size_t row = 0; row < offsets.size(); ++row) {
    for (size_t d = 0; d < dim; ++d) {
      const size_t from = (row * dim + d) * element_bytes;
      const size_t to = (static_cast<size_t>(offsets[row]) + d) * element_bytes;
      ASSERT_LE(from + element_bytes, expected->second.size());
      ASSERT_LE(to + element_bytes, output.out.size());
      const double wanted = loadElement(dtype, expected->second.data() + from, 0);
      const double found = loadElement(dtype, output.out.data() + to, 0);
      const bool equal = std::isnan(wanted)
                             ? std::isnan(found)
                             : std::memcmp(expected->second.data() + from, output.out.data() + to,
                                           element_bytes) == 0;
      ASSERT_TRUE(equal) << "row " << row << " element " << d << ": expected " << wanted
                         << ", found " << found;
      std::memset(output.out.data() + to, kCanary, element_bytes);
    }
  }
  // All rows are canaries again, and so is everything else.
  for (size_t i = 0; i < output.out.size(); ++i) {
    ASSERT_EQ(output.out[i], kCanary) << "byte " << i << " is not of a row";
  }
}

TEST_P(Oracle, LseIsEqual) {
  const Fixture& fixture = GetParam();
  const Output output = decode(fixture);
  const auto expected = fixture.buffers.find("lse");
  size_t values = 0;
  if (expected != fixture.buffers.end()) {
    values = expected->second.size() / sizeof(float);
    ASSERT_EQ(values, static_cast<size_t>(fixture.total_rows * fixture.shape.num_q_heads));
  }
  for (size_t i = 0; i < values; ++i) {
    float wanted;
    std::memcpy(&wanted, expected->second.data() + i * sizeof(float), sizeof(float));
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(output.lse[i])) << "value " << i;
    } else {
      ASSERT_EQ(wanted, output.lse[i]) << "value " << i;
    }
  }
  for (size_t i = values; i < output.lse.size(); ++i) ASSERT_EQ(output.lse[i], 12345.0f);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Oracle, ::testing::ValuesIn(fixtures()),
                         [](const auto& fixture) { return fixture.param.name; });

// The fixtures are what they are meant to be: every axis of the interface occurs.
TEST(OracleFixtures, CoverTheInterface) {
  std::set<int32_t> dims, groups, pages;
  std::set<xqaDtype_t> kv_dtypes, out_dtypes;
  std::set<std::string> buffers;
  for (const Fixture& fixture : fixtures()) {
    dims.insert(fixture.key.head_dim);
    groups.insert(fixture.key.group_size);
    pages.insert(fixture.shape.page_tokens);
    kv_dtypes.insert(fixture.key.kv_dtype);
    out_dtypes.insert(fixture.shape.out_dtype);
    for (const auto& buffer : fixture.buffers) buffers.insert(buffer.first);
  }
  EXPECT_GE(fixtures().size(), 100u);
  for (const int32_t dim : {8, 64, 80, 128, 256, 1024}) EXPECT_EQ(dims.count(dim), 1u) << dim;
  for (const int32_t group : {1, 5, 8, 71}) EXPECT_EQ(groups.count(group), 1u) << group;
  for (const int32_t page : {1, 7, 16, 64}) EXPECT_EQ(pages.count(page), 1u) << page;
  EXPECT_EQ(kv_dtypes.size(), 3u);
  EXPECT_EQ(out_dtypes.size(), 3u);
  const std::set<std::string> all = {"q",        "q_offsets", "k_pool",    "v_pool",  "page_table",
                                     "seq_lens", "sinks",     "mask",      "q_scale", "k_scale",
                                     "v_scale",  "out",       "out_scale", "lse"};
  EXPECT_EQ(buffers, all);
}

}  // namespace
}  // namespace xqa::testing
