// SPDX-License-Identifier: Apache-2.0
// Numbers of the host reference: scales, sinks, precision, long contexts, NaN, 64-bit addresses.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "reference/dtype.h"
#include "support/problem_builder.h"
#include "xqa/xqa.h"

namespace xqa::testing {
namespace {

constexpr xqaDtype_t kF16 = XQA_DTYPE_F16;
constexpr xqaDtype_t kE4m3 = XQA_DTYPE_E4M3;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Runs the problem and returns its rows, packed [total_rows, num_q_heads, head_dim].
std::vector<double> decode(HostProblem* problem) {
  problem->resetOutputs();
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  EXPECT_EQ(xqaDecodeHost(&problem->key, &problem->shape, &problem->args, &diagnostic),
            XQA_STATUS_SUCCESS)
      << problem->describe() << ": " << diagnostic.message;
  return problem->outRows(problem->out.data());
}

std::vector<double> decode(const ProblemSpec& spec) {
  HostProblem problem = buildProblem(spec);
  return decode(&problem);
}

ProblemSpec smallSpec() {
  ProblemSpec spec;
  spec.head_dim = 64;
  spec.group_size = 4;
  spec.num_kv_heads = 2;
  spec.kv_dtype = kE4m3;
  spec.seq_lens = {50, 9};
  return spec;
}

TEST(Scales, MultiplyLogitsOrValues) {
  ProblemSpec spec = smallSpec();
  spec.softmax_scale = 0.5f;
  const std::vector<double> expected = decode(spec);
  // Powers of two commute with every rounding, so the bits are equal.
  spec.softmax_scale = 0.25f;
  spec.q_scale = 2.0f;
  EXPECT_EQ(decode(spec), expected);
  spec.q_scale = 0.0f;
  spec.k_scale = 2.0f;
  EXPECT_EQ(decode(spec), expected);
  spec.q_scale = 4.0f;
  spec.k_scale = 0.5f;
  EXPECT_EQ(decode(spec), expected);
  spec.v_scale = 8.0f;
  spec.out_scale = 0.125f;
  EXPECT_EQ(decode(spec), expected);
  spec.out_scale = 0.0f;
  EXPECT_NE(decode(spec), expected);
}

TEST(Scales, OfAHeadApplyToThatHead) {
  ProblemSpec spec = smallSpec();
  spec.v_scale = 1.0f;
  spec.per_head_scales = true;
  HostProblem problem = buildProblem(spec);
  problem.v_scale = {1.0f, 1.0f};
  problem.bindArgs();
  const std::vector<double> plain = decode(&problem);
  problem.v_scale[1] = 4.0f;
  const std::vector<double> scaled = decode(&problem);
  for (size_t i = 0; i < plain.size(); ++i) {
    const bool second = i / (4 * 64) % 2 == 1;
    ASSERT_EQ(scaled[i], plain[i] * (second ? 4.0 : 1.0)) << "element " << i;
  }
}

TEST(E4m3, EveryCodePassesThroughALengthOfOne) {
  for (const xqaDtype_t out_dtype : {kF16, XQA_DTYPE_BF16, kE4m3}) {
    ProblemSpec spec;
    spec.head_dim = 256;
    spec.group_size = 2;
    spec.q_dtype = out_dtype == XQA_DTYPE_BF16 ? XQA_DTYPE_BF16 : kF16;
    spec.kv_dtype = kE4m3;
    spec.out_dtype = out_dtype;
    spec.seq_lens = {1};
    HostProblem problem = buildProblem(spec);
    for (size_t code = 0; code < 256; ++code) {
      problem.v_pool[static_cast<size_t>(problem.valueOffset(0, 0, 0)) + code] =
          static_cast<uint8_t>(code);
    }
    const std::vector<double> out = decode(&problem);
    for (size_t i = 0; i < out.size(); ++i) {
      const double value = E4m3::decode(static_cast<uint32_t>(i % 256));
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(out[i])) << "code " << i % 256;
      } else {
        ASSERT_EQ(out[i], value) << "code " << i % 256;
      }
    }
  }
}

TEST(Sinks, WeighInOncePerRow) {
  ProblemSpec spec;
  spec.head_dim = 8;
  spec.group_size = 4;
  spec.q_tokens = 4;
  spec.seq_lens = {4, 70};
  spec.sinks = true;
  HostProblem problem = buildProblem(spec);
  // exp(sink) is 0, 1, 0 and far above all keys.
  problem.sinks = {-std::numeric_limits<float>::infinity(), 0.0f, -2000.0f, 2000.0f};
  problem.bindArgs();
  for (int32_t b = 0; b < 2; ++b) {
    for (int32_t i = 0; i < 4; ++i) {
      for (int32_t h = 0; h < 4; ++h) problem.setQuery(b, i, h, 0.0);
    }
    for (int32_t t = 0; t < problem.lengthOf(b); ++t) problem.setValue(b, t, 0, 1.0);
  }
  const std::vector<double> out = decode(&problem);
  for (size_t row = 0; row < 8; ++row) {
    const double keys =
        static_cast<double>(spec.seq_lens[row / 4] - 3) + static_cast<double>(row % 4);
    for (size_t d = 0; d < 8; ++d) {
      ASSERT_EQ(out[(row * 4 + 0) * 8 + d], 1.0);
      ASSERT_EQ(out[(row * 4 + 1) * 8 + d], F16::decode(F16::encode(keys / (keys + 1))));
      ASSERT_EQ(out[(row * 4 + 2) * 8 + d], 1.0);
      ASSERT_EQ(out[(row * 4 + 3) * 8 + d], 0.0);
    }
    ASSERT_EQ(problem.lse[row * 4 + 0], static_cast<float>(std::log(keys)));
    ASSERT_EQ(problem.lse[row * 4 + 1], static_cast<float>(std::log(keys + 1)));
    ASSERT_EQ(problem.lse[row * 4 + 2], static_cast<float>(std::log(keys)));
    ASSERT_EQ(problem.lse[row * 4 + 3], 2000.0f);
  }
}

TEST(Precision, ShiftedLogitsGiveTheSameOutput) {
  std::vector<double> outputs[3];
  const double shifts[] = {0.0, 100.0, -100.0};
  for (size_t s = 0; s < 3; ++s) {
    ProblemSpec spec;
    spec.head_dim = 64;
    spec.seq_lens = {300};
    spec.softmax_scale = 1.0f;
    HostProblem problem = buildProblem(spec);
    // Small multiples of 1/8: the logits are exact, and so is their shift by +-1e4.
    for (int32_t t = 0; t < 300; ++t) {
      const int64_t offset = problem.keyOffset(0, t, 0);
      for (int32_t d = 1; d < 64; ++d) {
        const double value = static_cast<double>(randomBits(5, uint64_t(t * 64 + d)) % 9) - 4;
        storeElement(kF16, problem.k_pool.data(), offset + d, value / 8);
      }
      storeElement(kF16, problem.k_pool.data(), offset, 100.0);
    }
    for (int32_t h = 0; h < 8; ++h) {
      const int64_t offset = problem.queryOffset(0, 0, h);
      for (int32_t d = 1; d < 64; ++d) {
        const double value = static_cast<double>(randomBits(6, uint64_t(h * 64 + d)) % 9) - 4;
        storeElement(kF16, problem.q.data(), offset + d, value / 8);
      }
      storeElement(kF16, problem.q.data(), offset, shifts[s]);
    }
    outputs[s] = decode(&problem);
  }
  EXPECT_EQ(outputs[0], outputs[1]);
  EXPECT_EQ(outputs[0], outputs[2]);
}

// Keys come in pairs with values +v and -v, so that every mean is 0 but for the errors of the
// weights and sums, which out_scale makes visible.
TEST(Precision, ErrorsAreBelow1e13OfTheValues) {
  constexpr int32_t kPairs = 1000, kDim = 256;
  ProblemSpec spec;
  spec.head_dim = kDim;
  spec.group_size = 4;
  spec.q_dtype = XQA_DTYPE_BF16;
  spec.seq_lens = {2 * kPairs};
  spec.out_scale = 0x1p40f;
  HostProblem problem = buildProblem(spec);
  for (int32_t t = 0; t < kPairs; ++t) {
    const int64_t key = problem.keyOffset(0, t, 0), key_twin = problem.keyOffset(0, t + kPairs, 0);
    const int64_t value = problem.valueOffset(0, t, 0);
    const int64_t value_twin = problem.valueOffset(0, t + kPairs, 0);
    const xqaDtype_t dtype = problem.kvDtype();
    for (int32_t d = 0; d < kDim; ++d) {
      const double k = loadElement(dtype, problem.k_pool.data(), key + d);
      storeElement(dtype, problem.k_pool.data(), key_twin + d, k);
      const double v = loadElement(dtype, problem.v_pool.data(), value + d);
      storeElement(dtype, problem.v_pool.data(), value_twin + d, -v);
    }
  }
  for (const double residue : decode(&problem)) ASSERT_LT(std::fabs(residue), 0x1p40 * 1e-13);
  // The microscope works: a millionth in one of the values shows.
  storeElement(problem.kvDtype(), problem.v_pool.data(), problem.valueOffset(0, 7, 0), 0x1p-20);
  storeElement(problem.kvDtype(), problem.v_pool.data(), problem.valueOffset(0, 7 + kPairs, 0), 0);
  EXPECT_GT(std::fabs(decode(&problem)[0]), 0x1p40 * 1e-12);
}

TEST(LongContext, KeepsTheMeanAndFindsTheNeedle) {
  ProblemSpec spec;
  spec.head_dim = 8;
  spec.group_size = 2;
  spec.seq_lens = {70001};
  HostProblem problem = buildProblem(spec);
  for (int32_t t = 0; t < 70001; ++t) problem.setValue(0, t, 0, 1.0);
  for (const double mean : decode(&problem)) ASSERT_EQ(mean, 1.0);

  for (int32_t h = 0; h < 2; ++h) problem.setQuery(0, 0, h, 8.0);
  for (int32_t t = 0; t < 70001; ++t) problem.setKey(0, t, 0, -8.0);
  problem.setKey(0, 43210, 0, 8.0);
  problem.setValue(0, 43210, 0, 5.0);
  for (const double needle : decode(&problem)) ASSERT_EQ(needle, 5.0);

  for (int32_t h = 0; h < 2; ++h) problem.setQuery(0, 0, h, 0.0);
  decode(&problem);
  ASSERT_EQ(problem.lse[0], static_cast<float>(std::log(70001.0)));
}

TEST(NotANumber, InADraftKeyReachesOnlyRowsThatSeeIt) {
  ProblemSpec spec = smallSpec();
  spec.q_tokens = 4;
  HostProblem problem = buildProblem(spec);
  const std::vector<double> clean = decode(&problem);
  problem.setKey(0, 48, 1, kNan);   // draft 2 of request 0
  problem.setValue(1, 8, 0, kNan);  // draft 3 of request 1
  const std::vector<double> out = decode(&problem);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t row = i / (8 * 64) % 4, request = i / (4 * 8 * 64);
    const size_t kv_head = i / (4 * 64) % 2;
    const bool sees_key = request == 0 && row >= 2 && kv_head == 1;
    const bool sees_value = request == 1 && row == 3 && kv_head == 0;
    if (sees_key || sees_value) {
      ASSERT_TRUE(std::isnan(out[i])) << "element " << i;
    } else {
      ASSERT_EQ(out[i], clean[i]) << "element " << i;
    }
  }
}

TEST(Addresses, OfOneKvHeadIgnoreItsStride) {
  ProblemSpec spec = smallSpec();
  spec.num_kv_heads = 1;
  HostProblem problem = buildProblem(spec);
  const std::vector<double> expected = decode(&problem);
  for (const int64_t stride : {int64_t{0}, int64_t{64}, int64_t{64 * 64}, int64_t{1} << 40}) {
    problem.shape.k_strides.head = stride;
    problem.shape.v_strides.head = stride;
    EXPECT_EQ(decode(&problem), expected) << stride;
  }
}

TEST(Addresses, Are64Bit) {
  // Two pages of two tokens, 2^33 and 2^32 elements apart, in memory that is reserved but for the
  // few bytes written.
  constexpr int64_t kTokenStride = int64_t{1} << 32, kPageStride = int64_t{1} << 33;
  constexpr int64_t kValueOffset = 1024;
  constexpr size_t kBytes = (kPageStride + kTokenStride + 2 * kValueOffset) * 2;
  void* const pool = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pool == MAP_FAILED) GTEST_SKIP() << "24 GiB of address space are not to be had";
  ProblemSpec spec;
  spec.head_dim = 8;
  spec.group_size = 1;
  spec.page_tokens = 2;
  spec.seq_lens = {4};
  HostProblem problem = buildProblem(spec);
  problem.shape.k_strides = {kPageStride, kTokenStride, 8};
  problem.shape.v_strides = problem.shape.k_strides;
  problem.page_table[0] = 1;
  problem.page_table[1] = 0;
  problem.args.k_cache = pool;
  problem.args.v_cache = static_cast<uint16_t*>(pool) + kValueOffset;
  problem.setQuery(0, 0, 0, 1.0);
  for (int32_t t = 0; t < 4; ++t) {
    for (int32_t d = 0; d < 8; ++d) {
      storeElement(kF16, pool, problem.keyOffset(0, t, 0) + d, t == 1 ? 50.0 : -50.0);
      storeElement(kF16, pool, problem.valueOffset(0, t, 0) + kValueOffset + d, 10.0 + t * t);
    }
  }
  for (const double value : decode(&problem)) EXPECT_EQ(value, 11.0);
  munmap(pool, kBytes);
}

TEST(Batch, MayExceed65535) {
  ProblemSpec spec;
  spec.head_dim = 8;
  spec.group_size = 1;
  spec.page_tokens = 2;
  spec.seq_lens.assign(70000, 1);
  for (size_t b = 0; b < spec.seq_lens.size(); b += 2) spec.seq_lens[b] = 2;
  HostProblem problem = buildProblem(spec);
  for (int32_t b = 0; b < 70000; ++b) {
    for (int32_t t = 0; t < problem.lengthOf(b); ++t) problem.setValue(b, t, 0, b % 1000);
  }
  const std::vector<double> out = decode(&problem);
  ASSERT_EQ(out.size(), 70000u * 8);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], i / 8 % 1000) << "request " << i / 8;
}

}  // namespace
}  // namespace xqa::testing
