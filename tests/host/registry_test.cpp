// SPDX-License-Identifier: Apache-2.0
// The whole registry against the matrix as xqa.h states it, and lookup in it.
#include "core/registry.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace xqa {
namespace {

constexpr xqaDtype_t kF16 = XQA_DTYPE_F16, kBf16 = XQA_DTYPE_BF16, kE4m3 = XQA_DTYPE_E4M3;
constexpr xqaBackend_t kHost = XQA_BACKEND_HOST, kMmaSync = XQA_BACKEND_MMA_SYNC,
                       kSm90 = XQA_BACKEND_SM90;

// The rules a second time. The generator's are in codegen/matrix.py.
bool isInMatrix(const Key& key) {
  const bool sizes = (key.head_dim == 64 || key.head_dim == 128 || key.head_dim == 256) &&
                     key.group_size >= 1 && key.group_size <= 128;
  const bool cache = key.kv_dtype == key.q_dtype || key.kv_dtype == kE4m3;
  const bool math16 = key.math_dtype == key.q_dtype;
  const bool math8 = key.math_dtype == kE4m3 && key.kv_dtype == kE4m3 && key.backend != kMmaSync;
  return sizes && (key.q_dtype == kF16 || key.q_dtype == kBf16) && cache && (math16 || math8) &&
         (key.backend == kHost || key.backend == kMmaSync);
}

std::vector<Key> allKeys() {
  std::vector<Key> keys;
  for (int32_t i = 0; i < static_cast<int32_t>(kVariantCount); ++i) {
    keys.push_back(unpackKey(kVariants[i].packed_key));
  }
  return keys;
}

xqaVariantKey_t publicKey(const Key& key) {
  return {sizeof(xqaVariantKey_t), key.head_dim, key.group_size, key.q_dtype, key.kv_dtype,
          key.math_dtype,          key.backend};
}

xqaDeviceInfo_t deviceOf(int32_t sm) {
  xqaDeviceInfo_t device = {};
  device.struct_size = sizeof(device);
  device.sm = sm;
  return device;
}

TEST(Registry, IsSortedAndUnique) {
  std::set<std::string> names;
  for (uint32_t i = 0; i < kVariantCount; ++i) {
    if (i > 0) {
      ASSERT_LT(kVariants[i - 1].packed_key, kVariants[i].packed_key) << i;
    }
    ASSERT_NE(std::memchr(kVariants[i].name, 0, sizeof(kVariants[i].name)), nullptr) << i;
    EXPECT_TRUE(names.insert(kVariants[i].name).second) << kVariants[i].name;
  }
}

TEST(Registry, HoldsTheMatrix) {
  uint32_t count = 0;
  for (const xqaBackend_t backend : {kHost, kMmaSync, kSm90}) {
    for (const int32_t head_dim : {64, 128, 256}) {
      for (int32_t group_size = 1; group_size <= 128; ++group_size) {
        for (const xqaDtype_t q : {kF16, kBf16}) {
          for (const xqaDtype_t kv : {kF16, kBf16, kE4m3}) {
            for (const xqaDtype_t math : {kF16, kBf16, kE4m3}) {
              const Key key = {head_dim, group_size, q, kv, math, backend};
              count += isInMatrix(key);
              EXPECT_EQ(findExact(key) != nullptr, isInMatrix(key)) << packKey(key);
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(kVariantCount, count);
  EXPECT_EQ(count, 3u * 128 * (6 + 4));  // head_dims, group sizes, dtypes of host and of mma_sync
}

TEST(Registry, NamesAgreeWithKeys) {
  const std::regex grammar(
      "(host|mma_sync|sm90)_d(\\d+)_g(\\d+)_q(f16|bf16|e4m3)_kv(f16|bf16|e4m3)_m(f16|bf16|e4m3)");
  const std::map<std::string, xqaBackend_t> backends = {
      {"host", kHost}, {"mma_sync", kMmaSync}, {"sm90", kSm90}};
  const std::map<std::string, xqaDtype_t> dtypes = {
      {"f16", kF16}, {"bf16", kBf16}, {"e4m3", kE4m3}};
  for (uint32_t i = 0; i < kVariantCount; ++i) {
    std::cmatch part;
    ASSERT_TRUE(std::regex_match(kVariants[i].name, part, grammar)) << kVariants[i].name;
    const Key key = {std::stoi(part[2]), std::stoi(part[3]), dtypes.at(part[4]),
                     dtypes.at(part[5]), dtypes.at(part[6]), backends.at(part[1])};
    EXPECT_EQ(packKey(key), kVariants[i].packed_key) << kVariants[i].name;
  }
}

TEST(Registry, FamiliesDifferInGroupSizeOnly) {
  using FamilyKey = std::tuple<int32_t, int32_t, int32_t, int32_t>;
  std::map<int16_t, std::set<FamilyKey>> families;
  for (uint32_t i = 0; i < kVariantCount; ++i) {
    const Key key = unpackKey(kVariants[i].packed_key);
    if (key.backend == kHost) {
      EXPECT_EQ(kVariants[i].family, -1) << kVariants[i].name;
    } else {
      families[kVariants[i].family].insert(
          {key.head_dim, key.q_dtype, key.kv_dtype, key.math_dtype});
    }
  }
  ASSERT_EQ(families.size(), 12u);
  EXPECT_EQ(families.begin()->first, 0);
  EXPECT_EQ(families.rbegin()->first, 11);
  std::set<FamilyKey> all;
  for (const auto& [family, keys] : families) {
    EXPECT_EQ(keys.size(), 1u) << family;
    all.insert(keys.begin(), keys.end());
  }
  EXPECT_EQ(all.size(), families.size());
}

TEST(Registry, MatrixHashIsThatOfTheBuild) {
  EXPECT_EQ(std::strlen(kMatrixHash), 16u);
  EXPECT_NE(std::string(xqaGetBuildInfo()).find(kMatrixHash), std::string::npos)
      << xqaGetBuildInfo() << " but the registry is " << kMatrixHash;
}

TEST(PackedKey, IsReversible) {
  const Key extreme = {kMaxKeySize, kMaxKeySize, kBf16, kE4m3, kE4m3, kSm90};
  EXPECT_EQ(packKey(unpackKey(packKey(extreme))), packKey(extreme));
  EXPECT_EQ(unpackKey(packKey(extreme)).head_dim, kMaxKeySize);
  EXPECT_EQ(unpackKey(packKey(extreme)).group_size, kMaxKeySize);
  EXPECT_EQ(unpackKey(packKey(extreme)).backend, kSm90);
}

TEST(Lookup, FindsEveryRow) {
  for (uint32_t i = 0; i < kVariantCount; ++i) {
    EXPECT_EQ(findExact(unpackKey(kVariants[i].packed_key)), &kVariants[i]) << kVariants[i].name;
  }
}

// Every key that differs from a row in one field.
TEST(Lookup, FindsNoNeighbourThatIsNotThere) {
  int absent = 0;
  const auto expectExact = [&](const Key& key) {
    const xqaVariant* found = findExact(key);
    ASSERT_EQ(found != nullptr, isInMatrix(key)) << packKey(key);
    if (found != nullptr) {
      ASSERT_EQ(found->packed_key, packKey(key));
    }
    absent += found == nullptr;
  };
  for (const Key& row : allKeys()) {
    for (const int32_t step : {-1, 1, -64, 64, -128, 128}) {
      Key key = row;
      key.head_dim += step;
      expectExact(key);
      key = row;
      key.group_size += step;
      if (key.group_size >= 1) expectExact(key);
    }
    for (const xqaDtype_t dtype : {kF16, kBf16, kE4m3}) {
      for (const auto field : {&Key::q_dtype, &Key::kv_dtype, &Key::math_dtype}) {
        Key key = row;
        key.*field = dtype;
        expectExact(key);
      }
    }
    for (const xqaBackend_t backend : {kHost, kMmaSync, kSm90}) {
      Key key = row;
      key.backend = backend;
      expectExact(key);
    }
  }
  EXPECT_GT(absent, 0);
}

TEST(Lookup, FollowsBackendAndDevice) {
  const auto find = [](xqaBackend_t backend, xqaDtype_t math, const xqaDeviceInfo_t* device) {
    const xqaVariant* found = nullptr;
    const xqaStatus_t status = findVariant({128, 8, kF16, kE4m3, math, backend}, device, &found);
    EXPECT_EQ(found != nullptr, status == XQA_STATUS_SUCCESS);
    return std::string(found != nullptr ? found->name : xqaGetStatusName(status));
  };
  const std::string host = "host_d128_g8_qf16_kve4m3_mf16";
  const std::string gpu = "mma_sync_d128_g8_qf16_kve4m3_mf16";
  EXPECT_EQ(find(XQA_BACKEND_DEFAULT, kF16, nullptr), host);
  EXPECT_EQ(find(kHost, kF16, nullptr), host);
  EXPECT_EQ(find(kMmaSync, kF16, nullptr), gpu);
  EXPECT_EQ(find(kSm90, kF16, nullptr), "XQA_STATUS_NOT_FOUND");
  for (const int32_t sm : {80, 86, 89, 90, 100, 121}) {
    const xqaDeviceInfo_t device = deviceOf(sm);
    EXPECT_EQ(find(XQA_BACKEND_DEFAULT, kF16, &device), gpu) << sm;
    EXPECT_EQ(find(kMmaSync, kF16, &device), gpu) << sm;
    EXPECT_EQ(find(kHost, kF16, &device), host) << sm;
    EXPECT_EQ(find(kSm90, kF16, &device), "XQA_STATUS_NOT_FOUND") << sm;
    // The host backend has it, but is never chosen for a device.
    EXPECT_EQ(find(XQA_BACKEND_DEFAULT, kE4m3, &device), "XQA_STATUS_NOT_FOUND") << sm;
  }
  const xqaDeviceInfo_t turing = deviceOf(75);
  EXPECT_EQ(find(XQA_BACKEND_DEFAULT, kF16, &turing), "XQA_STATUS_ARCH_UNSUPPORTED");
  EXPECT_EQ(find(kMmaSync, kF16, &turing), "XQA_STATUS_ARCH_UNSUPPORTED");
  EXPECT_EQ(find(kHost, kF16, &turing), host);
}

TEST(SmRanges, AreThoseOfTheBackends) {
  const auto servesSm = [](xqaBackend_t backend, int32_t sm) {
    return serves(smRange({128, 8, kF16, kF16, kF16, backend}), sm);
  };
  for (const int32_t sm : {1, 75, 79, 80, 89, 90, 91, 100, 999}) {
    EXPECT_TRUE(servesSm(kHost, sm)) << sm;
    EXPECT_EQ(servesSm(kMmaSync, sm), sm >= 80) << sm;
    EXPECT_EQ(servesSm(kSm90, sm), sm == 90) << sm;
  }
}

TEST(VariantPointers, AreRowsAndNothingElse) {
  const auto* bytes = reinterpret_cast<const char*>(kVariants);
  const size_t end = kVariantCount * sizeof(xqaVariant);
  const auto at = [bytes](size_t offset) {
    return reinterpret_cast<const xqaVariant*>(bytes + offset);
  };
  for (size_t offset = 0; offset < end; ++offset) {
    ASSERT_EQ(isVariant(at(offset)), offset % sizeof(xqaVariant) == 0) << offset;
  }
  EXPECT_FALSE(isVariant(at(end)));
  EXPECT_FALSE(isVariant(reinterpret_cast<const xqaVariant*>(
      reinterpret_cast<uintptr_t>(kVariants) - sizeof(xqaVariant))));
  EXPECT_FALSE(isVariant(nullptr));
  const xqaVariant copy = kVariants[0];
  EXPECT_FALSE(isVariant(&copy));
}

TEST(ResolveKey, FillsDefaults) {
  for (const xqaDtype_t q : {kF16, kBf16}) {
    xqaVariantKey_t key = {};
    key.struct_size = sizeof(key);
    key.head_dim = 96;
    key.group_size = kMaxKeySize;
    key.q_dtype = q;
    Key resolved;
    ASSERT_TRUE(resolveKey(&key, &resolved));
    EXPECT_EQ(resolved.head_dim, 96);
    EXPECT_EQ(resolved.group_size, kMaxKeySize);
    EXPECT_EQ(resolved.q_dtype, q);
    EXPECT_EQ(resolved.kv_dtype, q);
    EXPECT_EQ(resolved.math_dtype, q);
    EXPECT_EQ(resolved.backend, XQA_BACKEND_DEFAULT);
  }
}

TEST(ResolveKey, KeepsWhatIsGiven) {
  for (const Key& row : allKeys()) {
    const xqaVariantKey_t key = publicKey(row);
    Key resolved;
    ASSERT_TRUE(resolveKey(&key, &resolved));
    EXPECT_EQ(packKey(resolved), packKey(row));
  }
}

template <typename Enum>
void setEnum(Enum* field, int32_t value) {  // any number, as a C caller can
  std::memcpy(field, &value, sizeof(value));
}

TEST(ResolveKey, RefusesWhatIsOutOfRange) {
  const struct {
    std::function<void(xqaVariantKey_t&)> change;
    const char* sentence;
  } refusals[] = {
      {[](auto& key) { key.struct_size = 3; },
       "key struct_size is 3: it must be sizeof the struct (32 in this version)"},
      {[](auto& key) { key.head_dim = 0; }, "head_dim is 0: it must be from 1 to 65535"},
      {[](auto& key) { key.head_dim = 65536; }, "head_dim is 65536: it must be from 1 to 65535"},
      {[](auto& key) { key.group_size = -8; }, "group_size is -8: it must be from 1 to 65535"},
      {[](auto& key) { key.group_size = 65536; },
       "group_size is 65536: it must be from 1 to 65535"},
      {[](auto& key) { key.q_dtype = XQA_DTYPE_DEFAULT; },
       "q_dtype is 0 (DEFAULT): it must be F16 or BF16"},
      {[](auto& key) { key.q_dtype = kE4m3; }, "q_dtype is 3 (E4M3): it must be F16 or BF16"},
      {[](auto& key) { setEnum(&key.q_dtype, 17); },
       "q_dtype is 17 (unknown): it must be F16 or BF16"},
      {[](auto& key) { key.kv_dtype = XQA_DTYPE_F32; },
       "kv_dtype is 4 (F32): it must be q_dtype or E4M3"},
      {[](auto& key) { setEnum(&key.math_dtype, -1); },
       "math_dtype is -1 (unknown): it must be q_dtype or E4M3"},
      {[](auto& key) { setEnum(&key.backend, 4); }, "backend is 4: it must be from 0 to 3"},
      {[](auto& key) { setEnum(&key.backend, -1); }, "backend is -1: it must be from 0 to 3"},
  };
  for (const auto& refusal : refusals) {
    xqaVariantKey_t key = publicKey({128, 8, kF16, kF16, kF16, kHost});
    refusal.change(key);
    xqaDiagnostic_t report = {};
    report.struct_size = sizeof(report);
    Diagnostic diagnostic(&report);
    Key resolved;
    EXPECT_EQ(readKey(&key, &resolved, diagnostic), XQA_STATUS_INVALID_ARGUMENT);
    EXPECT_STREQ(report.message, refusal.sentence);
    EXPECT_FALSE(resolveKey(&key, &resolved));
  }
  Key resolved;
  EXPECT_FALSE(resolveKey(nullptr, &resolved));
}

}  // namespace
}  // namespace xqa
