// SPDX-License-Identifier: Apache-2.0
// Properties of the host reference whose exact results are known without a second implementation.
#include <gtest/gtest.h>

#include <algorithm>
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
constexpr xqaDtype_t kBf16 = XQA_DTYPE_BF16;
constexpr xqaDtype_t kE4m3 = XQA_DTYPE_E4M3;
constexpr CacheLayout kLayouts[] = {CacheLayout::kNhd, CacheLayout::kHnd, CacheLayout::kInterleaved,
                                    CacheLayout::kPadded, CacheLayout::kContiguous};

void decode(HostProblem* problem) {
  problem->resetOutputs();
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  ASSERT_EQ(xqaDecodeHost(&problem->key, &problem->shape, &problem->args, &diagnostic),
            XQA_STATUS_SUCCESS)
      << problem->describe() << ": " << diagnostic.message;
  ASSERT_TRUE(problem->outGapsUntouched(problem->out.data())) << problem->describe();
}

HostProblem decoded(const ProblemSpec& spec) {
  HostProblem problem = buildProblem(spec);
  decode(&problem);
  return problem;
}

// Bytes of out without gaps, and of lse: NaN compares as its code.
void expectSameBits(const HostProblem& a, const HostProblem& b) {
  const std::vector<double> a_rows = a.outRows(a.out.data());
  const std::vector<double> b_rows = b.outRows(b.out.data());
  ASSERT_EQ(a_rows.size(), b_rows.size());
  ASSERT_EQ(std::memcmp(a_rows.data(), b_rows.data(), a_rows.size() * sizeof(double)), 0)
      << a.describe() << "\n"
      << b.describe();
  ASSERT_EQ(a.lse.size(), b.lse.size());
  ASSERT_EQ(std::memcmp(a.lse.data(), b.lse.data(), a.lse.size() * sizeof(float)), 0)
      << a.describe() << "\n"
      << b.describe();
}

double rounded(xqaDtype_t dtype, double value) {
  uint16_t code = 0;
  storeElement(dtype, &code, 0, value);
  return loadElement(dtype, &code, 0);
}

// All logits equal: every row is the plain mean of the values it sees.
void makeUniform(HostProblem* problem) {
  for (int32_t b = 0; b < problem->batch(); ++b) {
    for (int32_t i = 0; i < problem->rowsOf(b); ++i) {
      for (int32_t h = 0; h < problem->shape.num_q_heads; ++h) problem->setQuery(b, i, h, 0.0);
    }
  }
}

// Calls set(request, token, kv_head) for every token that some row sees.
template <typename Set>
void forEachUsedToken(const HostProblem& problem, Set set) {
  for (int32_t b = 0; b < problem.batch(); ++b) {
    for (int32_t t = 0; t < problem.lengthOf(b); ++t) {
      if (!problem.visibleToAny(b, t)) continue;
      for (int32_t g = 0; g < problem.shape.num_kv_heads; ++g) set(b, t, g);
    }
  }
}

TEST(Poison, InUnusedSlotsChangesNothing) {
  for (const xqaDtype_t kv_dtype : {kF16, kBf16, kE4m3}) {
    for (const CacheLayout layout : kLayouts) {
      for (const int32_t window : {0, 5}) {
        ProblemSpec spec;
        spec.head_dim = 64;
        spec.num_kv_heads = 2;
        spec.q_dtype = kv_dtype == kE4m3 ? kF16 : kv_dtype;
        spec.kv_dtype = kv_dtype;
        spec.seq_lens = {1, 17, 40, 0, 16};
        spec.q_tokens = 2;
        spec.page_tokens = 16;
        spec.layout = layout;
        spec.window = window;
        spec.strided_rows = true;
        spec.unused_slots = UnusedSlots::kNan;
        HostProblem poisoned = decoded(spec);
        spec.unused_slots = UnusedSlots::kZero;
        HostProblem clean = decoded(spec);
        expectSameBits(poisoned, clean);
        for (const double value : poisoned.outRows(poisoned.out.data())) {
          ASSERT_TRUE(std::isfinite(value)) << poisoned.describe();
        }
      }
    }
  }
}

TEST(Layout, ChangesNothing) {
  for (const xqaDtype_t kv_dtype : {kF16, kE4m3}) {
    ProblemSpec spec;
    spec.head_dim = 80;
    spec.group_size = 5;
    spec.num_kv_heads = 3;
    spec.kv_dtype = kv_dtype;
    spec.seq_lens = {130, 7, 64, 65};
    spec.q_tokens = 3;
    spec.shuffled_pages = false;
    const HostProblem plain = decoded(spec);
    spec.shuffled_pages = true;
    for (const CacheLayout layout : kLayouts) {
      for (const int32_t page_tokens : {1, 7, 16, 64}) {
        spec.layout = layout;
        spec.page_tokens = page_tokens;
        spec.strided_rows = page_tokens == 7;
        expectSameBits(plain, decoded(spec));
      }
    }
  }
}

TEST(DraftMask, CausalMeansAreExact) {
  // q_tokens * group_size on both sides of 32, and more drafts than bits in a mask word.
  const struct {
    int32_t q_tokens, group_size;
  } cases[] = {{2, 8}, {4, 8}, {5, 8}, {11, 3}, {10, 1}, {16, 16}};
  for (const auto& c : cases) {
    ProblemSpec spec;
    spec.head_dim = 64;
    spec.group_size = c.group_size;
    spec.q_tokens = c.q_tokens;
    spec.seq_lens = {c.q_tokens, 70, c.q_tokens + 1};
    HostProblem problem = buildProblem(spec);
    makeUniform(&problem);
    forEachUsedToken(problem, [&](int32_t b, int32_t t, int32_t g) {
      const int32_t draft = t - (problem.lengthOf(b) - c.q_tokens);
      problem.setValue(b, t, g, draft < 0 ? 0.0 : std::ldexp(1.0, draft));
    });
    decode(&problem);
    const std::vector<double> out = problem.outRows(problem.out.data());
    size_t element = 0;
    for (int32_t b = 0; b < problem.batch(); ++b) {
      for (int32_t i = 0; i < c.q_tokens; ++i) {
        const int32_t keys = problem.lengthOf(b) - c.q_tokens + i + 1;
        const double mean = rounded(kF16, (std::ldexp(1.0, i + 1) - 1) / keys);
        for (int32_t n = 0; n < c.group_size * spec.head_dim; ++n) {
          ASSERT_EQ(out[element++], mean) << problem.describe() << " request " << b << " row " << i;
        }
        const float lse = problem.lse[static_cast<size_t>((b * c.q_tokens + i) * c.group_size)];
        ASSERT_EQ(lse, static_cast<float>(std::log(static_cast<double>(keys))));
      }
    }
  }
}

TEST(DraftMask, BitsSelectDraftTokens) {
  // A tree of five, everything, nothing but the prefix, and later tokens than the row's own.
  const std::vector<uint32_t> masks[] = {{0x01, 0x03, 0x05, 0x0B, 0x15},
                                         {0x1F, 0x1F, 0x1F, 0x1F, 0x1F},
                                         {0x00, 0x00, 0x10, 0x00, 0x01},
                                         {0x1E, 0x1C, 0x18, 0x10, 0x08}};
  for (const std::vector<uint32_t>& mask : masks) {
    for (const int32_t prefix : {0, 3, 40}) {
      ProblemSpec spec;
      spec.group_size = 7;
      spec.q_tokens = 5;
      spec.mask = DraftMask::kFull;
      spec.seq_lens = {prefix + 5};
      HostProblem problem = buildProblem(spec);
      problem.mask = mask;
      problem.bindArgs();
      makeUniform(&problem);
      for (int32_t t = 0; t < prefix + 5; ++t) {
        problem.setValue(0, t, 0, t < prefix ? 0.0 : std::ldexp(1.0, t - prefix));
      }
      decode(&problem);
      const std::vector<double> out = problem.outRows(problem.out.data());
      for (size_t i = 0; i < mask.size(); ++i) {
        // The values of the drafts are their bits, so the mask is their sum.
        int32_t keys = prefix;
        for (uint32_t bits = mask[i]; bits != 0; bits >>= 1) keys += static_cast<int32_t>(bits & 1);
        const double mean = keys == 0 ? 0.0 : rounded(kF16, static_cast<double>(mask[i]) / keys);
        for (size_t n = 0; n < 7u * 128u; ++n) ASSERT_EQ(out[i * 7 * 128 + n], mean) << "row " << i;
        const float lse = static_cast<float>(std::log(static_cast<double>(keys)));
        ASSERT_EQ(problem.lse[i * 7], lse) << "row " << i;
      }
    }
  }
}

TEST(DraftMask, ReachesBeyondOneWord) {
  ProblemSpec spec;
  spec.head_dim = 8;
  spec.group_size = 1;
  spec.q_tokens = 70;
  spec.mask = DraftMask::kFull;
  spec.seq_lens = {72};
  HostProblem problem = buildProblem(spec);
  std::fill(problem.mask.begin(), problem.mask.end(), 0u);
  // Row i sees draft 69 - i alone, beside the prefix of two.
  for (uint32_t i = 0; i < 70; ++i) problem.mask[i * 3 + (69 - i) / 32] = 1u << ((69 - i) % 32);
  makeUniform(&problem);
  for (int32_t t = 0; t < 72; ++t) problem.setValue(0, t, 0, t < 2 ? 0.0 : 3.0 * (t - 2));
  decode(&problem);
  const std::vector<double> out = problem.outRows(problem.out.data());
  for (size_t i = 0; i < 70; ++i) ASSERT_EQ(out[i * 8], static_cast<double>(69 - i)) << "row " << i;
}

TEST(Heads, ReadTheCacheOfTheirGroup) {
  struct Heads {
    int32_t group_size, num_kv_heads;
  };
  std::vector<Heads> cases = {{5, 8}, {6, 4}, {7, 4}, {12, 4}, {3, 3}, {1, 64}};
  for (const int32_t g : {5, 6, 7, 9, 10, 12, 15, 16, 24, 33, 48, 64, 71, 128}) {
    cases.push_back({g, 2});
  }
  for (const Heads& heads : cases) {
    ProblemSpec spec;
    spec.group_size = heads.group_size;
    spec.num_kv_heads = heads.num_kv_heads;
    spec.seq_lens = {9, 3};
    spec.q_tokens = 2;
    HostProblem problem = buildProblem(spec);
    forEachUsedToken(problem, [&](int32_t b, int32_t t, int32_t g) {
      problem.setValue(b, t, g, 1 + g + 100 * b);
    });
    decode(&problem);
    const std::vector<double> out = problem.outRows(problem.out.data());
    size_t element = 0;
    for (int32_t row = 0; row < 4; ++row) {
      for (int32_t h = 0; h < problem.shape.num_q_heads; ++h) {
        for (int32_t d = 0; d < spec.head_dim; ++d) {
          ASSERT_EQ(out[element++], 1 + h / heads.group_size + 100 * (row / 2))
              << problem.describe() << " row " << row << " head " << h;
        }
      }
    }
  }
}

TEST(Window, BeginsAndEndsExactly) {
  constexpr int32_t kPage = 16, kDim = 128;
  for (const int32_t window : {1, 2, kPage - 1, kPage, kPage + 1, 127, 128, 1023, 1024}) {
    ProblemSpec spec;
    spec.group_size = 2;
    spec.head_dim = kDim;
    spec.page_tokens = kPage;
    spec.q_tokens = 2;
    spec.window = window;
    spec.seq_lens = {std::max(1, window - 1), window, window + 1, window + 40};
    HostProblem problem = buildProblem(spec);
    makeUniform(&problem);
    forEachUsedToken(problem, [&](int32_t b, int32_t t, int32_t) {
      problem.setValue(b, t, 0, 0.0);
      storeElement(kF16, problem.v_pool.data(), problem.valueOffset(b, t, 0) + t % kDim, 1.0);
    });
    decode(&problem);
    const std::vector<double> out = problem.outRows(problem.out.data());
    for (int32_t b = 0; b < problem.batch(); ++b) {
      for (int32_t i = 0; i < 2; ++i) {
        const int32_t position = problem.lengthOf(b) - 2 + i;
        const int32_t first = std::max(0, position - window + 1);
        std::vector<int32_t> counts(kDim);
        for (int32_t t = first; t <= position; ++t) ++counts[static_cast<size_t>(t % kDim)];
        const int32_t keys = position + 1 - first;
        for (size_t n = 0; n < 2 * kDim; ++n) {
          const double share = keys <= 0 ? 0.0 : rounded(kF16, 1.0 * counts[n % kDim] / keys);
          const size_t row = static_cast<size_t>(b * 2 + i);
          ASSERT_EQ(out[row * 2 * kDim + n], share) << problem.describe() << " row " << row;
        }
      }
    }
  }
}

TEST(EmptyRequests, AreZeroAndLeaveTheOthersAlone) {
  ProblemSpec spec;
  spec.head_dim = 64;
  spec.group_size = 4;
  spec.sinks = true;
  spec.seq_lens.clear();
  for (int32_t b = 0; b < 112; ++b) spec.seq_lens.push_back(1 + b % 37);
  const HostProblem full = decoded(spec);
  HostProblem problem = buildProblem(spec);
  for (size_t b = 0; b < 112; b += 9) {
    problem.seq_lens[b] = 0;
    const size_t stride = static_cast<size_t>(problem.shape.page_table_stride);
    std::fill_n(problem.page_table.begin() + static_cast<std::ptrdiff_t>(b * stride), stride, -7);
  }
  decode(&problem);
  const std::vector<double> expected = full.outRows(full.out.data());
  const std::vector<double> out = problem.outRows(problem.out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    const bool empty = i / (4 * 64) % 9 == 0;
    ASSERT_EQ(out[i], empty ? 0.0 : expected[i]) << "element " << i;
    ASSERT_FALSE(std::signbit(out[i]) && empty) << "element " << i;
  }
  for (size_t i = 0; i < problem.lse.size(); ++i) {
    const bool empty = i / 4 % 9 == 0;
    ASSERT_EQ(problem.lse[i], empty ? problem.sinks[i % 4] : full.lse[i]) << "value " << i;
  }
}

}  // namespace
}  // namespace xqa::testing
