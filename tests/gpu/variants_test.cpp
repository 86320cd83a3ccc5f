// SPDX-License-Identifier: Apache-2.0
// The registry is the test list: every variant that this device can launch is run and judged.
#include <gtest/gtest.h>

#include <vector>

#include "dice.h"

namespace gpu {
namespace {

constexpr int32_t kMostRows = 256;  // of a KV head: keeps the reference cheap

constexpr int kProblems = 2;  // for each variant

// A small problem with odd and even lengths; layout, pages and features by the variant's name.
ProblemSpec problemFor(xqaVariant_t variant, int number) {
  Dice dice{variantInfo(variant).name + std::to_string(number)};
  ProblemSpec spec = specFor(variant);
  spec.seed = dice.roll() >> 1;
  spec.q_tokens = dice.pick({1, 1, 2, 3, 4, 6});
  if (spec.q_tokens * spec.group_size > kMostRows) spec.q_tokens = 1;
  spec.num_kv_heads = dice.pick({1, 2, 3});
  spec.seq_lens.clear();
  const int32_t batch = 5 + dice.below(5);
  for (int32_t b = 0; b < batch; ++b) {
    spec.seq_lens.push_back(
        dice.pick({0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 191, 257, 514}));
  }
  chooseLayout(&dice, &spec);
  chooseFeatures(&dice, &spec);
  return spec;
}

TEST(Variants, EveryVariantAgreesWithTheReference) {
  for (const xqaBackend_t backend : launchableBackends()) {
    std::vector<ProblemSpec> specs;
    for (const xqaVariant_t variant : launchableVariants(backend)) {
      for (int number = 0; number < kProblems; ++number) {
        specs.push_back(problemFor(variant, number));
      }
    }
    expectLikeReference(specs);
  }
}

TEST(Variants, TheRegistryHasVariantsForThisDevice) {
  ASSERT_FALSE(launchableBackends().empty());
  const xqaDeviceInfo_t device = deviceInfo(0);
  uint32_t unavailable = 0;
  for (uint32_t i = 0; i < xqaVariantCount(); ++i) {
    const xqaVariantInfo_t info = variantInfo(xqaVariantAt(i));
    if (info.backend == XQA_BACKEND_HOST) continue;
    EXPECT_GE(info.sm_min, 80) << info.name;
    EXPECT_LE(info.smem_bytes, device.smem_per_block_bytes) << info.name;
    EXPECT_GE(info.row_tile, 1) << info.name;
    if (info.available == 0) ++unavailable;
  }
  EXPECT_EQ(unavailable, 0u) << "variants of this library that cannot be launched";
}

}  // namespace
}  // namespace gpu
