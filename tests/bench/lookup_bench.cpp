// SPDX-License-Identifier: Apache-2.0
// xqaFindVariant: xqa.h promises less than 100 ns.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "xqa/xqa.h"

namespace {

xqaDeviceInfo_t hopper() {
  xqaDeviceInfo_t device = {};
  device.struct_size = sizeof(device);
  device.sm = 90;
  device.sm_count = 132;
  device.smem_per_block_bytes = 232448;
  device.smem_per_sm_bytes = 233472;
  return device;
}

// The keys of all variants of a backend in random order, so that neither caches nor branch
// prediction learn the path of a lookup.
std::vector<xqaVariantKey_t> shuffledKeys(xqaBackend_t backend) {
  std::vector<xqaVariantKey_t> keys;
  for (uint32_t i = 0; i < xqaVariantCount(); ++i) {
    xqaVariantInfo_t info = {};
    info.struct_size = sizeof(info);
    xqaGetVariantInfo(xqaVariantAt(i), &info);
    if (info.backend != backend) continue;
    keys.push_back({sizeof(xqaVariantKey_t), info.head_dim, info.group_size, info.q_dtype,
                    info.kv_dtype, info.math_dtype, info.backend});
  }
  std::shuffle(keys.begin(), keys.end(), std::mt19937(1));
  return keys;
}

void findAll(benchmark::State& state, const std::vector<xqaVariantKey_t>& keys,
             const xqaDeviceInfo_t* device, xqaStatus_t wanted) {
  size_t next = 0;
  for (auto _ : state) {
    xqaVariant_t variant = nullptr;
    const xqaStatus_t status = xqaFindVariant(&keys[next], device, nullptr, &variant);
    if (status != wanted) state.SkipWithError(xqaGetStatusName(status));
    benchmark::DoNotOptimize(variant);
    next = next + 1 < keys.size() ? next + 1 : 0;
  }
}

void namedBackend(benchmark::State& state) {
  const xqaDeviceInfo_t device = hopper();
  findAll(state, shuffledKeys(XQA_BACKEND_MMA_SYNC), &device, XQA_STATUS_SUCCESS);
}
BENCHMARK(namedBackend);

void defaultBackend(benchmark::State& state) {
  std::vector<xqaVariantKey_t> keys = shuffledKeys(XQA_BACKEND_MMA_SYNC);
  for (xqaVariantKey_t& key : keys) key.backend = XQA_BACKEND_DEFAULT;
  const xqaDeviceInfo_t device = hopper();
  findAll(state, keys, &device, XQA_STATUS_SUCCESS);
}
BENCHMARK(defaultBackend);

void hostBackend(benchmark::State& state) {
  findAll(state, shuffledKeys(XQA_BACKEND_HOST), nullptr, XQA_STATUS_SUCCESS);
}
BENCHMARK(hostBackend);

void notFound(benchmark::State& state) {
  std::vector<xqaVariantKey_t> keys = shuffledKeys(XQA_BACKEND_MMA_SYNC);
  for (xqaVariantKey_t& key : keys) key.head_dim += 16;
  findAll(state, keys, nullptr, XQA_STATUS_NOT_FOUND);
}
BENCHMARK(notFound);

// One layer's key again and again, as a runtime that does not keep the handle would.
void sameKey(benchmark::State& state) {
  std::vector<xqaVariantKey_t> keys = shuffledKeys(XQA_BACKEND_MMA_SYNC);
  keys.resize(1);
  keys[0].backend = XQA_BACKEND_DEFAULT;
  const xqaDeviceInfo_t device = hopper();
  findAll(state, keys, &device, XQA_STATUS_SUCCESS);
}
BENCHMARK(sameKey);

}  // namespace

BENCHMARK_MAIN();
