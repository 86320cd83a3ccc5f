// SPDX-License-Identifier: Apache-2.0
// Which keys a row sees, and that slots which no row sees have no influence. Uniform weights make
// the expected values exact, so that one key too many or too few cannot hide in random data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "dice.h"
#include "reference/dtype.h"

namespace gpu {
namespace {

TEST(Masking, Poison) {
  std::vector<ProblemSpec> specs;
  Dice dice(1);
  for (const ProblemSpec& family : allFamilies()) {
    for (const CacheLayout layout :
         {CacheLayout::kNhd, CacheLayout::kHnd, CacheLayout::kInterleaved, CacheLayout::kPadded,
          CacheLayout::kContiguous}) {
      for (const int32_t window : {0, 40}) {
        ProblemSpec spec = family;
        spec.layout = layout;
        spec.window = window;
        spec.page_tokens = dice.pick({1, 16, 64, 100});
        spec.group_size = dice.pick({1, 8, 12, 40});
        spec.q_tokens = dice.pick({1, 3});
        spec.num_kv_heads = dice.pick({1, 2});
        spec.seq_lens = {1, spec.page_tokens + 1, 37, 0, 63, 515, 2};
        spec.max_pages = 600;
        spec.seed = specs.size();
        specs.push_back(spec);
      }
    }
  }
  forEachCase(specs.size(), [&](size_t i, Worker& worker) {
    specs[i].unused_slots = UnusedSlots::kZero;
    HostProblem zeros = xqa::testing::buildProblem(specs[i]);
    const Outputs expected = DeviceProblem(&zeros, &worker).run();
    specs[i].unused_slots = UnusedSlots::kNan;
    HostProblem poisoned = xqa::testing::buildProblem(specs[i]);
    DeviceProblem on_device(&poisoned, &worker);
    if (on_device.run() != expected) {
      ADD_FAILURE() << "what unused slots hold changes the result: " << on_device.reproduction();
    }
    const std::string fault = on_device.judge();
    if (!fault.empty()) ADD_FAILURE() << fault;
  });
}

// Q = K = 0: every visible key has the same weight. value(token, d) is V.
template <typename Value>
std::string judgeUniform(const ProblemSpec& spec, Worker* worker, Value&& value) {
  HostProblem problem = xqa::testing::buildProblem(spec);
  const int32_t dim = spec.head_dim;
  uint8_t* const v = static_cast<uint8_t*>(const_cast<void*>(problem.args.v_cache));
  for (int32_t b = 0; b < problem.batch(); ++b) {
    for (int32_t i = 0; i < problem.rowsOf(b); ++i) {
      for (int32_t h = 0; h < problem.shape.num_q_heads; ++h) problem.setQuery(b, i, h, 0.0);
    }
    for (int32_t t = 0; t < problem.lengthOf(b); ++t) {
      if (!problem.visibleToAny(b, t)) continue;
      for (int32_t h = 0; h < spec.num_kv_heads; ++h) {
        problem.setKey(b, t, h, 0.0);
        const int64_t row = problem.valueOffset(b, t, h);
        for (int32_t d = 0; d < dim; ++d) {
          xqa::storeElement(problem.kvDtype(), v, row + d, value(problem, b, t, d));
        }
      }
    }
  }
  DeviceProblem on_device(&problem, worker);
  const std::vector<double> found = problem.outRows(on_device.run().out.data());
  // One rounding to the output's dtype, and one unit in the last place for a quotient near a tie.
  const double tolerance = spec.q_dtype == XQA_DTYPE_F16 ? 0x1p-10 : 0x1p-7;
  std::string fault;
  const double* element = found.data();
  for (int32_t b = 0; b < problem.batch(); ++b) {
    for (int32_t i = 0; i < problem.rowsOf(b); ++i) {
      std::vector<double> mean(static_cast<size_t>(dim), 0.0);
      int32_t keys = 0;
      for (int32_t t = 0; t < problem.lengthOf(b); ++t) {
        if (!problem.visible(b, i, t)) continue;
        ++keys;
        for (int32_t d = 0; d < dim; ++d) mean[static_cast<size_t>(d)] += value(problem, b, t, d);
      }
      for (double& m : mean) m = keys == 0 ? 0.0 : m / keys;
      for (int32_t h = 0; h < problem.shape.num_q_heads; ++h) {
        for (int32_t d = 0; d < dim; ++d, ++element) {
          const double expected = mean[static_cast<size_t>(d)];
          if (std::fabs(*element - expected) <= tolerance * std::fabs(expected)) continue;
          if (!fault.empty()) continue;
          fault = "request " + std::to_string(b) + " query token " + std::to_string(i) + " head " +
                  std::to_string(h) + " element " + std::to_string(d) + ": the mean of its " +
                  std::to_string(keys) + " keys is " + std::to_string(expected) + ", found " +
                  std::to_string(*element) + ": " + on_device.reproduction();
        }
      }
    }
  }
  recordCase(on_device.variant(), fault.empty());
  return fault;
}

TEST(Masking, UniformSoftmaxMask) {
  constexpr int32_t kDrafts =
      5;  // with V = 1, 2, 4, 8, 16 every set of visible drafts has its own sum
  std::vector<ProblemSpec> specs;
  for (const ProblemSpec& family : allFamilies()) {
    for (const int32_t group_size :
         {1, 3, 6, 7, 12, 13, 26}) {  // rows on both sides of 8, 16, 32, 64, 128
      for (const DraftMask mask :
           {DraftMask::kCausal, DraftMask::kFull, DraftMask::kTree, DraftMask::kRandom}) {
        ProblemSpec spec = family;
        spec.group_size = group_size;
        spec.num_kv_heads = 2;
        spec.q_tokens = kDrafts;
        spec.mask = mask;
        spec.seq_lens = {3, kDrafts, 32, 33, 64, 66, 69, 131, 520};
        spec.seed = specs.size();
        specs.push_back(spec);
      }
    }
  }
  forEachCase(specs.size(), [&](size_t i, Worker& worker) {
    const auto value = [](const HostProblem& problem, int32_t b, int32_t token, int32_t) {
      const int32_t draft = token - (problem.lengthOf(b) - problem.rowsOf(b));
      return draft < 0 ? 0.0 : std::ldexp(1.0, draft);
    };
    const std::string fault = judgeUniform(specs[i], &worker, value);
    if (!fault.empty()) ADD_FAILURE() << fault;
  });
}

TEST(Masking, MoreDraftsThanAMaskWord) {
  std::vector<ProblemSpec> specs;
  for (const ProblemSpec& family : allFamilies()) {
    for (const int32_t drafts : {31, 32, 33, 64, 65}) {
      for (const DraftMask mask : {DraftMask::kCausal, DraftMask::kTree, DraftMask::kRandom}) {
        ProblemSpec spec = family;
        spec.group_size = 2;
        spec.q_tokens = drafts;
        spec.mask = mask;
        spec.seq_lens = {drafts, drafts + 40, 300, 20};
        spec.seed = specs.size();
        if (drafts == 33) spec.ragged_rows = {33, 1, 32, 0};
        specs.push_back(spec);
      }
    }
  }
  expectLikeReference(specs);
}

TEST(Masking, WindowExactness) {
  std::vector<ProblemSpec> specs;
  constexpr int32_t kPage = 16;
  for (const ProblemSpec& family : allFamilies()) {
    for (const int32_t window : {1, 2, kPage - 1, kPage, kPage + 1, 127, 128, 1023, 1024}) {
      for (const int32_t q_tokens : {1, 3}) {
        ProblemSpec spec = family;
        spec.group_size = 4;
        spec.q_tokens = q_tokens;
        spec.window = window;
        spec.page_tokens = kPage;
        spec.seq_lens = {window - 1, window, window + 1, window + 2, window + 3, window + 130};
        spec.seed = specs.size();
        specs.push_back(spec);
      }
    }
  }
  forEachCase(specs.size(), [&](size_t i, Worker& worker) {
    const auto one_hot = [](const HostProblem& problem, int32_t, int32_t token, int32_t d) {
      return token % problem.spec.head_dim == d ? 1.0 : 0.0;
    };
    const std::string fault = judgeUniform(specs[i], &worker, one_hot);
    if (!fault.empty()) ADD_FAILURE() << fault;
  });
}

TEST(Masking, GqaRatios) {
  struct Heads {
    int32_t group_size;
    int32_t kv_heads;
  };
  std::vector<Heads> heads = {{5, 8}, {6, 4}, {7, 4}, {12, 4}, {3, 3}, {1, 64}};  // 40/8, 24/4 ...
  for (const int32_t group_size : {5, 6, 7, 9, 10, 12, 15, 16, 24, 33, 48, 64, 71, 128}) {
    heads.push_back({group_size, 1});
  }
  std::vector<ProblemSpec> specs;
  for (const ProblemSpec& family : allFamilies()) {
    for (const Heads& head : heads) {
      ProblemSpec spec = family;
      spec.group_size = head.group_size;
      spec.num_kv_heads = head.kv_heads;
      spec.seq_lens = {1, 65, 300, 0};
      spec.seed = specs.size();
      specs.push_back(spec);
    }
  }
  expectLikeReference(specs);
}

// Sinks with several query tokens, a window, split and unsplit requests: the shapes of gpt-oss.
TEST(Masking, GptOssVerify) {
  std::vector<ProblemSpec> specs;
  for (const ProblemSpec& family : allFamilies()) {
    if (family.head_dim != 64) continue;
    for (const int32_t kv_heads : {8, 2}) {
      for (const int32_t q_tokens : {1, 2, 4}) {
        for (const int32_t window : {0, 128}) {
          for (const bool unsplit : {false, true}) {
            ProblemSpec spec = family;
            spec.group_size = 8;
            spec.num_kv_heads = kv_heads;
            spec.q_tokens = q_tokens;
            spec.window = window;
            spec.sinks = true;
            spec.seq_lens = {2100};
            if (unsplit) {
              spec.seq_lens.clear();
              for (int32_t b = 0; b < 66; ++b)
                spec.seq_lens.push_back(b % 3 == 0 ? 1 + b : 126 + b % 9);
            }
            spec.seed = specs.size();
            specs.push_back(spec);
          }
        }
      }
    }
  }
  expectLikeReference(specs);
}

TEST(Masking, ZeroLengthRows) {
  std::vector<ProblemSpec> specs;
  for (const ProblemSpec& family : allFamilies()) {
    Dice dice(specs.size());
    ProblemSpec spec = family;
    spec.group_size = dice.pick({1, 8});
    spec.num_kv_heads = 2;
    spec.page_tokens = 16;
    spec.sinks = dice.oneIn(2);
    spec.seq_lens.assign(112, 0);
    for (size_t b = 0; b < spec.seq_lens.size(); ++b) {
      if (b % 9 != 4) spec.seq_lens[b] = 1 + dice.below(150);
    }
    specs.push_back(spec);
  }
  forEachCase(specs.size(), [&](size_t i, Worker& worker) {
    HostProblem problem = xqa::testing::buildProblem(specs[i]);
    DeviceProblem on_device(&problem, &worker);
    const Outputs garbage_rows = on_device.run();  // the builder's table rows of empty requests
    const std::string fault = on_device.judge();
    if (!fault.empty()) ADD_FAILURE() << fault;
    for (int32_t b = 0; b < problem.batch(); ++b) {
      if (problem.lengthOf(b) > 0) continue;
      std::fill_n(problem.page_table.begin() + b * problem.shape.page_table_stride,
                  problem.shape.max_pages, 0);
      problem.seq_lens[static_cast<size_t>(b)] = -b;
    }
    on_device.refresh(problem.page_table);
    on_device.refresh(problem.seq_lens);
    on_device.reset();
    if (on_device.run() != garbage_rows) {
      ADD_FAILURE() << "table rows of empty requests change the result: "
                    << on_device.reproduction();
    }
  });
}

}  // namespace
}  // namespace gpu
