// SPDX-License-Identifier: Apache-2.0
// The registry of a library narrowed with XQA_VARIANTS to mma_sync_d128_g8_*: what is left is
// found, what was left out is explained.
#include <gtest/gtest.h>

#include <string>

#include "core/explain.h"
#include "core/registry.h"

namespace xqa {
namespace {

constexpr Key keyOf(xqaBackend_t backend, int32_t head_dim, int32_t group_size, xqaDtype_t kv) {
  return {head_dim, group_size, XQA_DTYPE_F16, kv, XQA_DTYPE_F16, backend};
}

TEST(Narrowed, KeepsWhatMatchesAndTheHostBackend) {
  int32_t host = 0;
  int32_t families[4] = {};
  for (uint32_t i = 0; i < kVariantCount; ++i) {
    const Key key = unpackKey(kVariants[i].packed_key);
    EXPECT_EQ(findExact(key), &kVariants[i]);
    if (key.backend == XQA_BACKEND_HOST) {
      ++host;
      continue;
    }
    EXPECT_EQ(std::string(kVariants[i].name).rfind("mma_sync_d128_g8_", 0), 0u);
    ASSERT_GE(kVariants[i].family, 0);
    ASSERT_LT(kVariants[i].family, 4);
    ++families[kVariants[i].family];
  }
  EXPECT_EQ(host, 3 * 128 * 6);
  for (const int32_t variants : families) EXPECT_EQ(variants, 1);
  EXPECT_EQ(kVariantCount, 3u * 128 * 6 + 4);
}

TEST(Narrowed, ExplainsWhatWasLeftOut) {
  const auto explain = [](const Key& key) {
    const xqaVariantKey_t public_key = {sizeof(public_key), key.head_dim, key.group_size,
                                        key.q_dtype,        key.kv_dtype, key.math_dtype,
                                        key.backend};
    char text[512];
    explainKey(&public_key, nullptr, text, sizeof(text));
    return std::string(text);
  };
  EXPECT_EQ(explain(keyOf(XQA_BACKEND_MMA_SYNC, 64, 9, XQA_DTYPE_E4M3)),
            "mma_sync_d64_g9_qf16_kve4m3_mf16 is not in this library: XQA_VARIANTS left it out "
            "when the library was built. Nearest: host_d64_g9_qf16_kve4m3_mf16.");
  EXPECT_EQ(explain(keyOf(XQA_BACKEND_MMA_SYNC, 80, 8, XQA_DTYPE_F16)),
            "mma_sync_d80_g8_qf16_kvf16_mf16 is not in this library: head_dim 80 is not built (64, "
            "128, 256 are). Nearest: mma_sync_d128_g8_qf16_kvf16_mf16.");
}

}  // namespace
}  // namespace xqa
