// SPDX-License-Identifier: Apache-2.0
// The dense grid: every family x rows on both sides of every tile x lengths around every boundary,
// with layouts, page sizes and features dealt over it.
#include <gtest/gtest.h>

#include <vector>

#include "dice.h"

namespace gpu {
namespace {

const std::vector<int32_t> kLengths = {0,  1,  2,  7,  8,  15,  16,  17, 31,
                                       32, 33, 63, 64, 65, 127, 129, 514};

struct Rows {
  int32_t group_size;
  int32_t q_tokens;
};

// Query rows of a KV head, up to a few above the largest tile times four.
std::vector<Rows> rowGrid() {
  constexpr int32_t kMostRows = 272;
  std::vector<Rows> grid;
  for (const int32_t group_size : {1, 2, 4, 5, 7, 8, 9, 16, 17, 32, 33, 64, 71, 128}) {
    for (const int32_t q_tokens : {1, 2, 3, 4, 8, 16}) {
      if (group_size * q_tokens <= kMostRows) grid.push_back({group_size, q_tokens});
    }
  }
  return grid;
}

// Collects what a function makes of each family.
template <typename Fill>
std::vector<ProblemSpec> overFamilies(uint64_t seed, Fill&& fill) {
  std::vector<ProblemSpec> specs;
  Dice dice(seed);
  for (const ProblemSpec& family : allFamilies()) fill(family, &dice, &specs);
  return specs;
}

TEST(Grid, RowsByLengths) {
  expectLikeReference(
      overFamilies(1, [](const ProblemSpec& family, Dice* dice, std::vector<ProblemSpec>* specs) {
        for (const Rows& rows : rowGrid()) {
          ProblemSpec spec = family;
          spec.group_size = rows.group_size;
          spec.q_tokens = rows.q_tokens;
          spec.seq_lens = kLengths;
          if (dice->oneIn(2)) spec.seq_lens.push_back(4097);
          spec.seed = specs->size();
          chooseLayout(dice, &spec);
          chooseFeatures(dice, &spec);
          specs->push_back(spec);
        }
      }));
}

// Nothing but the shape: an error that features would hide shows here.
TEST(Grid, PagesByLayouts) {
  expectLikeReference(
      overFamilies(2, [](const ProblemSpec& family, Dice* dice, std::vector<ProblemSpec>* specs) {
        for (const int32_t page_tokens : {1, 2, 5, 8, 16, 32, 48, 64, 128, 544}) {
          for (const CacheLayout layout :
               {CacheLayout::kNhd, CacheLayout::kHnd, CacheLayout::kInterleaved,
                CacheLayout::kPadded, CacheLayout::kContiguous}) {
            ProblemSpec spec = family;
            spec.group_size = dice->pick({1, 3, 8, 12});
            spec.num_kv_heads = dice->pick({1, 2, 3, 4, 8});
            spec.page_tokens = page_tokens;
            spec.layout = layout;
            spec.seq_lens = {
                page_tokens - 1, page_tokens, page_tokens + 1, 2 * page_tokens + 1, 65, 1, 130};
            spec.shuffled_pages = !dice->oneIn(4);
            spec.seed = specs->size();
            specs->push_back(spec);
          }
        }
      }));
}

// Few requests of many tokens: every request is split over many blocks.
TEST(Grid, LongSequences) {
  expectLikeReference(
      overFamilies(3, [](const ProblemSpec& family, Dice* dice, std::vector<ProblemSpec>* specs) {
        for (const Rows& rows : {Rows{8, 1}, Rows{3, 4}, Rows{33, 1}, Rows{64, 1}}) {
          ProblemSpec spec = family;
          spec.group_size = rows.group_size;
          spec.q_tokens = rows.q_tokens;
          spec.seq_lens = {3, 70001};
          spec.page_tokens = dice->pick({1, 16, 64, 544});
          spec.seed = specs->size();
          specs->push_back(spec);
        }
      }));
}

// Many requests of few tokens: most are not split at all, and blocks end in the middle of some.
TEST(Grid, ManyRequests) {
  expectLikeReference(overFamilies(4, [](const ProblemSpec& family, Dice* dice,
                                         std::vector<ProblemSpec>* specs) {
    for (const int32_t group_size : {1, 8, 16, 24, 64}) {
      ProblemSpec spec = family;
      spec.group_size = group_size;
      spec.num_kv_heads = dice->pick({1, 2, 4, 5});
      spec.seq_lens.clear();
      const int32_t batch = 97 + dice->below(200);
      std::vector<int32_t> lengths;  // repeated, so that the line that reproduces it stays short
      for (int i = 0; i < 23; ++i) lengths.push_back(dice->below(140));
      for (int32_t b = 0; b < batch; ++b) {
        spec.seq_lens.push_back(lengths[static_cast<size_t>(b) % lengths.size()]);
      }
      spec.seed = specs->size();
      chooseLayout(dice, &spec);
      chooseFeatures(dice, &spec);
      specs->push_back(spec);
    }
  }));
}

}  // namespace
}  // namespace gpu
