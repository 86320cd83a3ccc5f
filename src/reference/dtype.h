// SPDX-License-Identifier: Apache-2.0
// Software f16, bf16 and e4m3: exact decoding, encoding that rounds a double once.
#pragma once

#include <cstdint>
#include <cstring>

#include "xqa/xqa.h"

namespace xqa {

// A binary format with a sign bit, an exponent and a mantissa. Exponent field 0 holds zero and the
// subnormal numbers. With infinity, the largest field holds infinity and NaN as in IEEE 754;
// without, it holds numbers too and only the code of all ones is NaN.
template <int kExponentBits, int kMantissaBits, bool kHasInfinity>
struct FloatFormat {
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kMinExponent = 1 - kBias;  // of the smallest normal number
  static constexpr uint32_t kSignBit = 1u << (kExponentBits + kMantissaBits);
  static constexpr uint32_t kMaxField = (1u << kExponentBits) - 1;
  // The first magnitude above the finite ones: infinity, or the NaN of a format without.
  static constexpr uint32_t kEndOfFinite = kHasInfinity ? kMaxField << kMantissaBits : kSignBit - 1;
  static constexpr uint32_t kNan =
      kHasInfinity ? kEndOfFinite | 1u << (kMantissaBits - 1) : kEndOfFinite;

  static double decode(uint32_t code) {
    const uint64_t sign = uint64_t{code & kSignBit} << (63 - kExponentBits - kMantissaBits);
    const uint32_t magnitude = code & (kSignBit - 1);
    // Both formats have an implicit one, so the fields move over and the bias is exchanged.
    constexpr uint64_t kBiasChange = uint64_t{kDoubleBias - kBias} << kDoubleMantissaBits;
    uint64_t bits = (uint64_t{magnitude} << (kDoubleMantissaBits - kMantissaBits)) + kBiasChange;
    if (magnitude >= kEndOfFinite) {
      const bool infinite = kHasInfinity && magnitude == kEndOfFinite;
      bits = infinite ? kDoubleInfinity : kDoubleNan;
    } else if (magnitude < 1u << kMantissaBits) {
      constexpr double kSmallest = powerOfTwo(kMinExponent - kMantissaBits);
      const double value = magnitude * kSmallest;
      std::memcpy(&bits, &value, sizeof(bits));
    }
    bits |= sign;
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  // Rounds to nearest, ties to even. Beyond the finite range: infinity, or the largest number of a
  // format without infinity. NaN becomes the positive NaN.
  static uint32_t encode(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    const uint32_t sign = bits >> 63 != 0 ? kSignBit : 0;
    if (value != value) return kNan;
    constexpr uint32_t kOverflow = kHasInfinity ? kEndOfFinite : kEndOfFinite - 1;
    const int exponent = static_cast<int>(bits >> kDoubleMantissaBits & 0x7FF) - kDoubleBias;
    if (exponent > kDoubleBias) return sign | kOverflow;

    constexpr uint64_t kImplicitOne = uint64_t{1} << kDoubleMantissaBits;
    const uint64_t significand = (bits & (kImplicitOne - 1)) | kImplicitOne;
    const int below_normal = exponent < kMinExponent ? kMinExponent - exponent : 0;
    const int shift = kDoubleMantissaBits - kMantissaBits + below_normal;
    if (shift > kDoubleMantissaBits + 1) return sign;  // below half of the smallest number
    const uint64_t half = uint64_t{1} << (shift - 1);
    const uint64_t odd = significand >> shift & 1;
    const uint64_t rounded = (significand + half - 1 + odd) >> shift;
    // The implicit one of a normal number adds one to the exponent field, and so does a carry.
    const uint64_t field = below_normal > 0 ? 0 : static_cast<uint64_t>(exponent - kMinExponent);
    const uint64_t magnitude = (field << kMantissaBits) + rounded;
    if (magnitude >= kEndOfFinite) return sign | kOverflow;
    return sign | static_cast<uint32_t>(magnitude);
  }

 private:
  static constexpr int kDoubleMantissaBits = 52;
  static constexpr int kDoubleBias = 1023;
  static constexpr uint64_t kDoubleInfinity = uint64_t{0x7FF} << kDoubleMantissaBits;
  static constexpr uint64_t kDoubleNan = kDoubleInfinity | uint64_t{1} << 51;

  static constexpr double powerOfTwo(int exponent) {
    double power = 1.0;
    for (; exponent < 0; ++exponent) power *= 0.5;
    return power;
  }
};

using F16 = FloatFormat<5, 10, true>;
using Bf16 = FloatFormat<8, 7, true>;
using E4m3 = FloatFormat<4, 3, false>;

// Element index of a packed array of F16, BF16 or E4M3.
inline double loadElement(xqaDtype_t dtype, const void* array, int64_t index) {
  if (dtype == XQA_DTYPE_E4M3) return E4m3::decode(static_cast<const uint8_t*>(array)[index]);
  const uint16_t code = static_cast<const uint16_t*>(array)[index];
  return dtype == XQA_DTYPE_F16 ? F16::decode(code) : Bf16::decode(code);
}

inline void storeElement(xqaDtype_t dtype, void* array, int64_t index, double value) {
  if (dtype == XQA_DTYPE_E4M3) {
    static_cast<uint8_t*>(array)[index] = static_cast<uint8_t>(E4m3::encode(value));
    return;
  }
  const uint32_t code = dtype == XQA_DTYPE_F16 ? F16::encode(value) : Bf16::encode(value);
  static_cast<uint16_t*>(array)[index] = static_cast<uint16_t>(code);
}

}  // namespace xqa
