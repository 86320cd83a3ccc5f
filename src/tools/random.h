// SPDX-License-Identifier: Apache-2.0
// Random numbers as pure functions of (seed, index): host and device produce the same bits, so that
// a reference on the host needs no copy of what was generated on the device.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define XQA_TOOL_HOST_DEVICE __host__ __device__
#else
#define XQA_TOOL_HOST_DEVICE
#endif

namespace tool {

// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
XQA_TOOL_HOST_DEVICE inline uint64_t randomBits(uint64_t seed, uint64_t index) {
  uint64_t x = (index + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1342543DE82EF95u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Close to a standard normal: the sum of four uniform 16-bit numbers, so at most 3.5 in magnitude.
// Integers and one multiplication: no library function that could differ between host and device.
XQA_TOOL_HOST_DEVICE inline float randomNormal(uint64_t seed, uint64_t index) {
  const uint64_t bits = randomBits(seed, index);
  const int32_t sum = static_cast<int32_t>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) +
                                           (bits >> 32 & 0xFFFF) + (bits >> 48));
  constexpr int32_t kMean = 2 * 0xFFFF;
  constexpr float kDeviation = 37837.227f;  // 65536 * sqrt(4 / 12)
  return static_cast<float>(sum - kMean) * (1.0f / kDeviation);
}

// Uniform in [0, 1).
inline double randomUniform(uint64_t seed, uint64_t index) {
  return static_cast<double>(randomBits(seed, index) >> 11) * 0x1p-53;
}

}  // namespace tool
