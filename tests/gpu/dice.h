// SPDX-License-Identifier: Apache-2.0
// Seeded choices, so that a dense grid of problems also walks through layouts, pages and features.
#pragma once

#include <initializer_list>
#include <string>

#include "device_problem.h"

namespace gpu {

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  // FNV-1a: the same on every platform.
  explicit Dice(const std::string& name) : seed_(0xCBF29CE484222325) {
    for (const char c : name) seed_ = (seed_ ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }

  uint64_t roll() { return xqa::testing::randomBits(seed_, index_++); }
  int32_t below(int32_t end) { return static_cast<int32_t>(roll() % static_cast<uint64_t>(end)); }
  bool oneIn(int32_t n) { return below(n) == 0; }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int32_t>(choices.size()))];
  }

 private:
  uint64_t seed_;
  uint64_t index_ = 0;
};

inline void chooseLayout(Dice* dice, ProblemSpec* spec) {
  spec->page_tokens = dice->pick({1, 5, 8, 16, 32, 48, 64, 128, 544});
  spec->layout = dice->pick({CacheLayout::kNhd, CacheLayout::kHnd, CacheLayout::kInterleaved,
                             CacheLayout::kPadded, CacheLayout::kContiguous});
  spec->strided_rows = dice->oneIn(3);
}

// Every optional argument, alone and together. seq_lens and q_tokens must have been set.
inline void chooseFeatures(Dice* dice, ProblemSpec* spec) {
  if (spec->q_tokens > 1 && dice->oneIn(2)) {
    spec->mask = dice->pick({DraftMask::kFull, DraftMask::kTree, DraftMask::kRandom});
  }
  if (spec->mask == DraftMask::kCausal && dice->oneIn(3)) {
    spec->window = dice->pick({1, 2, 16, 63, 64, 65, 127, 128, 300});
  }
  if (spec->q_tokens > 1 && dice->oneIn(3)) {
    for (size_t b = 0; b < spec->seq_lens.size(); ++b) {
      spec->ragged_rows.push_back(b == 0 ? spec->q_tokens : dice->below(spec->q_tokens + 1));
    }
  }
  if (dice->oneIn(3)) spec->softcap = dice->pick({0.7f, 5.0f, 50.0f});
  if (dice->oneIn(3)) spec->softmax_scale = dice->pick({0.02f, 0.3f, 1.0f});
  spec->sinks = dice->oneIn(3);
  spec->per_head_scales = dice->oneIn(2);
  if (dice->oneIn(3)) spec->q_scale = 1.7f;
  if (dice->oneIn(3)) spec->k_scale = 0.37f;
  if (dice->oneIn(3)) spec->v_scale = 1.9f;
  if (dice->oneIn(3)) spec->out_scale = 3.0f;
  if (dice->oneIn(4)) {
    spec->out_dtype = XQA_DTYPE_E4M3;
    spec->out_scale = 40.0f;
  }
  spec->lse = !dice->oneIn(4);
}

}  // namespace gpu
