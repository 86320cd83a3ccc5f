// SPDX-License-Identifier: Apache-2.0
// What xqaExplainKey says: the exact words for every kind of answer, and agreement with
// xqaFindVariant for all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/kernels.h"
#include "xqa/xqa.h"

namespace {

constexpr xqaDtype_t kF16 = XQA_DTYPE_F16, kBf16 = XQA_DTYPE_BF16, kE4m3 = XQA_DTYPE_E4M3;
constexpr xqaBackend_t kAny = XQA_BACKEND_DEFAULT, kHost = XQA_BACKEND_HOST,
                       kMmaSync = XQA_BACKEND_MMA_SYNC, kSm90 = XQA_BACKEND_SM90;

xqaVariantKey_t keyOf(xqaBackend_t backend, int32_t head_dim, int32_t group_size, xqaDtype_t q,
                      xqaDtype_t kv, xqaDtype_t math) {
  return {sizeof(xqaVariantKey_t), head_dim, group_size, q, kv, math, backend};
}

xqaDeviceInfo_t deviceOf(int32_t sm) {
  xqaDeviceInfo_t device = {};
  device.struct_size = sizeof(device);
  device.sm = sm;
  device.sm_count = 132;
  device.smem_per_block_bytes = 232448;
  device.smem_per_sm_bytes = 233472;
  return device;
}

// sm 0: no device.
std::string explain(const xqaVariantKey_t& key, int32_t sm) {
  const xqaDeviceInfo_t device = deviceOf(sm);
  char text[1024];
  const size_t length = xqaExplainKey(&key, sm == 0 ? nullptr : &device, text, sizeof(text));
  EXPECT_EQ(length, std::strlen(text));
  return text;
}

bool hasKernels() { return xqa::kernelFamily(0) != nullptr; }

struct Case {
  xqaVariantKey_t key;
  int32_t sm;  // 0: no device
  const char* text;
};

TEST(Explain, Available) {
  const Case cases[] = {
      {keyOf(kHost, 128, 8, kF16, kE4m3, kE4m3), 90,
       "host_d128_g8_qf16_kve4m3_me4m3 is available."},
      {keyOf(kHost, 64, 1, kBf16, kBf16, kBf16), 0, "host_d64_g1_qbf16_kvbf16_mbf16 is available."},
      {keyOf(kAny, 128, 8, kF16, kF16, kF16), 0,
       "d128_g8_qf16_kvf16_mf16 is available as host_d128_g8_qf16_kvf16_mf16, on host memory "
       "because no device is given."}};
  for (const Case& c : cases) EXPECT_EQ(explain(c.key, c.sm), c.text);
}

TEST(Explain, GpuVariant) {
  const xqaVariantKey_t forced = keyOf(kMmaSync, 128, 8, kF16, kF16, kF16);
  const xqaVariantKey_t any = keyOf(kAny, 128, 8, kF16, kF16, kF16);
  if (!hasKernels()) {
    const std::string text =
        "mma_sync_d128_g8_qf16_kvf16_mf16 is listed but cannot be launched: this library was built "
        "without CUDA. Use the host backend or a library built with CUDA.";
    EXPECT_EQ(explain(forced, 0), text);
    EXPECT_EQ(explain(forced, 90), text);
    EXPECT_EQ(explain(any, 90), text);
    return;
  }
  const std::string text =
      "mma_sync_d128_g8_qf16_kvf16_mf16 is available for compute capability 8.0 or more.";
  EXPECT_EQ(explain(forced, 0), text);
  EXPECT_EQ(explain(forced, 90), text);
  EXPECT_EQ(explain(any, 90),
            "d128_g8_qf16_kvf16_mf16 is available as mma_sync_d128_g8_qf16_kvf16_mf16 for compute "
            "capability 8.0 or more.");
}

TEST(Explain, DeviceTooOld) {
  const std::string text =
      "mma_sync_d128_g8_qf16_kvf16_mf16 does not run on this device: it needs compute capability "
      "8.0 or more and the device has 7.5. Nearest: host_d128_g8_qf16_kvf16_mf16.";
  EXPECT_EQ(explain(keyOf(kMmaSync, 128, 8, kF16, kF16, kF16), 75), text);
  EXPECT_EQ(explain(keyOf(kAny, 128, 8, kF16, kF16, kF16), 75), text);
}

TEST(Explain, SizesThatAreNotBuilt) {
  const Case cases[] = {
      {keyOf(kMmaSync, 80, 8, kF16, kF16, kF16), 90,
       "mma_sync_d80_g8_qf16_kvf16_mf16 is not in this library: head_dim 80 is not built (64, 128, "
       "256 are). Nearest: mma_sync_d128_g8_qf16_kvf16_mf16."},
      {keyOf(kAny, 512, 8, kF16, kF16, kF16), 90,
       "mma_sync_d512_g8_qf16_kvf16_mf16 is not in this library: head_dim 512 is not built (64, "
       "128, 256 are). Nearest: mma_sync_d256_g8_qf16_kvf16_mf16."},
      {keyOf(kAny, 65, 129, kF16, kF16, kF16), 0,
       "host_d65_g129_qf16_kvf16_mf16 is not in this library: head_dim 65 is not built (64, 128, "
       "256 are); group_size 129 is not built (1 to 128 are). Nearest: "
       "host_d128_g128_qf16_kvf16_mf16."},
      // The nearest is one that the device can run.
      {keyOf(kMmaSync, 32, 65535, kF16, kF16, kF16), 75,
       "mma_sync_d32_g65535_qf16_kvf16_mf16 is not in this library: head_dim 32 is not built (64, "
       "128, 256 are); group_size 65535 is not built (1 to 128 are). Nearest: "
       "host_d64_g128_qf16_kvf16_mf16."}};
  for (const Case& c : cases) EXPECT_EQ(explain(c.key, c.sm), c.text);
}

TEST(Explain, EveryRule) {
  const Case cases[] = {
      {keyOf(kMmaSync, 128, 8, kF16, kBf16, kF16), 90,
       "mma_sync_d128_g8_qf16_kvbf16_mf16 is not in this library: a 16-bit cache must have the "
       "query's type: use an f16 or e4m3 cache with f16 queries. Nearest: "
       "mma_sync_d128_g8_qf16_kvf16_mf16."},
      {keyOf(kHost, 128, 8, kBf16, kF16, kBf16), 0,
       "host_d128_g8_qbf16_kvf16_mbf16 is not in this library: a 16-bit cache must have the "
       "query's type: use a bf16 or e4m3 cache with bf16 queries. Nearest: "
       "host_d128_g8_qbf16_kvbf16_mbf16."},
      {keyOf(kHost, 64, 7, kF16, kE4m3, kBf16), 0,
       "host_d64_g7_qf16_kve4m3_mbf16 is not in this library: 16-bit math must be in the query's "
       "type: use f16 math with f16 queries. Nearest: host_d64_g7_qf16_kve4m3_mf16."},
      {keyOf(kMmaSync, 64, 7, kBf16, kBf16, kF16), 0,
       "mma_sync_d64_g7_qbf16_kvbf16_mf16 is not in this library: 16-bit math must be in the "
       "query's type: use bf16 math with bf16 queries. Nearest: "
       "mma_sync_d64_g7_qbf16_kvbf16_mbf16."},
      {keyOf(kHost, 64, 7, kF16, kF16, kE4m3), 0,
       "host_d64_g7_qf16_kvf16_me4m3 is not in this library: e4m3 math needs an e4m3 cache: use "
       "16-bit math with a 16-bit cache. Nearest: host_d64_g7_qf16_kvf16_mf16."},
      {keyOf(kHost, 64, 7, kBf16, kBf16, kE4m3), 90,
       "host_d64_g7_qbf16_kvbf16_me4m3 is not in this library: e4m3 math needs an e4m3 cache: use "
       "16-bit math with a 16-bit cache. Nearest: host_d64_g7_qbf16_kvbf16_mbf16."},
      {keyOf(kAny, 128, 8, kBf16, kE4m3, kE4m3), 90,
       "mma_sync_d128_g8_qbf16_kve4m3_me4m3 is not in this library: mma_sync with e4m3 math is not "
       "built yet: use 16-bit math, which reads the same e4m3 cache at 16-bit accuracy. Nearest: "
       "mma_sync_d128_g8_qbf16_kve4m3_mbf16."},
      {keyOf(kSm90, 128, 8, kF16, kF16, kF16), 90,
       "sm90_d128_g8_qf16_kvf16_mf16 is not in this library: sm90 is not built yet: use mma_sync, "
       "which serves compute capability 9.0 too. Nearest: mma_sync_d128_g8_qf16_kvf16_mf16."},
      // Several at once.
      {keyOf(kMmaSync, 80, 8, kF16, kBf16, kE4m3), 90,
       "mma_sync_d80_g8_qf16_kvbf16_me4m3 is not in this library: head_dim 80 is not built (64, "
       "128, 256 are); a 16-bit cache must have the query's type: use an f16 or e4m3 cache with "
       "f16 queries; e4m3 math needs an e4m3 cache: use 16-bit math with a 16-bit cache; mma_sync "
       "with e4m3 math is not built yet: use 16-bit math, which reads the same e4m3 cache at "
       "16-bit "
       "accuracy. Nearest: mma_sync_d128_g8_qf16_kvf16_mf16."}};
  for (const Case& c : cases) EXPECT_EQ(explain(c.key, c.sm), c.text);
}

TEST(Explain, InvalidArguments) {
  char text[128];
  xqaExplainKey(nullptr, nullptr, text, sizeof(text));
  EXPECT_STREQ(text, "key is NULL: it is required.");
  EXPECT_EQ(explain(keyOf(kAny, 128, 8, kE4m3, kE4m3, kE4m3), 0),
            "q_dtype is 3 (E4M3): it must be F16 or BF16.");
  EXPECT_EQ(explain(keyOf(kAny, 128, 0, kF16, kF16, kF16), 90),
            "group_size is 0: it must be from 1 to 65535.");
  const xqaVariantKey_t key = keyOf(kAny, 128, 8, kF16, kF16, kF16);
  xqaDeviceInfo_t device = deviceOf(90);
  device.sm_count = 0;
  xqaExplainKey(&key, &device, text, sizeof(text));
  EXPECT_STREQ(text, "device sm_count is 0: it must be 1 or more.");
}

TEST(Explain, CutsTheTextLikeSnprintf) {
  const xqaVariantKey_t key = keyOf(kMmaSync, 80, 200, kF16, kF16, kF16);
  const std::string whole = explain(key, 90);
  const xqaDeviceInfo_t device = deviceOf(90);
  for (const size_t capacity : {size_t{0}, size_t{64}}) {
    EXPECT_EQ(xqaExplainKey(&key, &device, nullptr, capacity), whole.size());
  }
  for (size_t capacity = 0; capacity <= whole.size() + 2; ++capacity) {
    std::vector<char> text(whole.size() + 8, '#');
    EXPECT_EQ(xqaExplainKey(&key, &device, text.data(), capacity), whole.size());
    const size_t kept = capacity == 0 ? 0 : std::min(capacity - 1, whole.size());
    EXPECT_EQ(std::string(text.data(), kept), whole.substr(0, kept));
    if (capacity > 0) {
      EXPECT_EQ(text[kept], '\0');
    }
    const auto written = static_cast<std::ptrdiff_t>(capacity == 0 ? 0 : kept + 1);
    EXPECT_EQ(std::count(text.begin() + written, text.end(), '#'),
              static_cast<std::ptrdiff_t>(text.size()) - written);
  }
}

std::set<std::string> variantNames() {
  std::set<std::string> names;
  for (uint32_t i = 0; i < xqaVariantCount(); ++i) {
    xqaVariantInfo_t info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(xqaGetVariantInfo(xqaVariantAt(i), &info), XQA_STATUS_SUCCESS);
    names.insert(info.name);
  }
  return names;
}

std::vector<xqaVariantKey_t> manyKeys() {
  std::vector<xqaVariantKey_t> keys;
  for (const xqaBackend_t backend : {kAny, kHost, kMmaSync, kSm90}) {
    for (const int32_t head_dim : {1, 64, 80, 128, 200, 256, 65535}) {
      for (const int32_t group_size : {1, 8, 71, 128, 129}) {
        for (const xqaDtype_t q : {kF16, kBf16}) {
          for (const xqaDtype_t kv : {XQA_DTYPE_DEFAULT, kF16, kBf16, kE4m3}) {
            for (const xqaDtype_t math : {XQA_DTYPE_DEFAULT, kF16, kBf16, kE4m3}) {
              keys.push_back(keyOf(backend, head_dim, group_size, q, kv, math));
            }
          }
        }
      }
    }
  }
  return keys;
}

// What xqaFindVariant answers for a key on a device is what the text says, and the nearest key that
// it names is one that is found there.
TEST(Explain, AgreesWithFind) {
  const std::set<std::string> names = variantNames();
  std::map<xqaStatus_t, int> seen;
  for (const int32_t sm : {0, 75, 90}) {
    const xqaDeviceInfo_t device = deviceOf(sm);
    for (const xqaVariantKey_t& key : manyKeys()) {
      const std::string text = explain(key, sm);
      xqaVariant_t variant = nullptr;
      const xqaStatus_t status =
          xqaFindVariant(&key, sm == 0 ? nullptr : &device, nullptr, &variant);
      ++seen[status];
      if (status == XQA_STATUS_SUCCESS) {
        xqaVariantInfo_t info = {};
        info.struct_size = sizeof(info);
        ASSERT_EQ(xqaGetVariantInfo(variant, &info), XQA_STATUS_SUCCESS);
        EXPECT_NE(text.find(info.name), std::string::npos) << text;
        EXPECT_EQ(text.find(" is available") != std::string::npos, info.available == 1) << text;
        EXPECT_EQ(text.find("Nearest"), std::string::npos) << text;
        continue;
      }
      EXPECT_EQ(text.find(" does not run on this device: ") != std::string::npos,
                status == XQA_STATUS_ARCH_UNSUPPORTED)
          << text;
      EXPECT_EQ(text.find(" is not in this library: ") != std::string::npos,
                status == XQA_STATUS_NOT_FOUND)
          << text;
      EXPECT_EQ(text.find("XQA_VARIANTS"), std::string::npos) << text;
      const size_t nearest = text.rfind(" Nearest: ");
      ASSERT_NE(nearest, std::string::npos) << text;
      const std::string name = text.substr(nearest + 10, text.size() - nearest - 11);
      EXPECT_EQ(names.count(name), 1u) << text;
      if (sm == 75) {
        EXPECT_EQ(name.rfind("host_", 0), 0u) << text;
      }
    }
  }
  EXPECT_EQ(seen.size(), 3u);
}

}  // namespace
