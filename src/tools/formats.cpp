// SPDX-License-Identifier: Apache-2.0
#include "formats.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tool {
namespace {

struct Format {
  int mantissa_bits;
  int exponent_bias;
  int sign_bit;
  uint32_t infinity;  // also the first code above the finite ones; E4M3 has none and saturates
};

constexpr Format kF16 = {10, 15, 15, 0x7C00};
constexpr Format kBf16 = {7, 127, 15, 0x7F80};
constexpr Format kE4m3 = {3, 7, 7, 0x7F};

constexpr const Format& formatOf(xqaDtype_t dtype) {
  return dtype == XQA_DTYPE_F16 ? kF16 : dtype == XQA_DTYPE_BF16 ? kBf16 : kE4m3;
}

constexpr int kDoubleMantissaBits = 52;
constexpr int kDoubleExponentBias = 1023;

}  // namespace

uint32_t encode(xqaDtype_t dtype, double value) {
  const Format& format = formatOf(dtype);
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = static_cast<uint32_t>(bits >> 63) << format.sign_bit;
  if (std::isnan(value)) return sign | (dtype == XQA_DTYPE_E4M3 ? 0x7Fu : format.infinity + 1);
  const uint32_t largest = format.infinity - 1;
  if (std::isinf(value)) return sign | (dtype == XQA_DTYPE_E4M3 ? largest : format.infinity);

  const int exponent = static_cast<int>(bits >> kDoubleMantissaBits & 0x7FF) - kDoubleExponentBias;
  const uint64_t implicit_one = uint64_t{1} << kDoubleMantissaBits;
  const uint64_t significand = (bits & (implicit_one - 1)) | implicit_one;
  const int smallest_normal = 1 - format.exponent_bias;
  int shift = kDoubleMantissaBits - format.mantissa_bits;
  if (exponent < smallest_normal) shift += smallest_normal - exponent;
  if (shift > kDoubleMantissaBits + 1) return sign;  // below half of the smallest subnormal
  const uint64_t half = uint64_t{1} << (shift - 1);
  const uint64_t rounded = (significand + half - 1 + (significand >> shift & 1)) >> shift;
  // The implicit one of a normal number adds one to the exponent field, and so does a carry.
  const int exponent_field = exponent < smallest_normal ? 0 : exponent - smallest_normal;
  const uint64_t code = (uint64_t(exponent_field) << format.mantissa_bits) + rounded;
  if (code >= format.infinity) {
    return sign | (dtype == XQA_DTYPE_E4M3 ? largest : format.infinity);
  }
  return sign | static_cast<uint32_t>(code);
}

double decode(xqaDtype_t dtype, uint32_t bits) {
  const Format& format = formatOf(dtype);
  const uint32_t magnitude = bits & ((1u << format.sign_bit) - 1);
  const double sign = (bits >> format.sign_bit & 1) != 0 ? -1.0 : 1.0;
  if (dtype == XQA_DTYPE_E4M3 ? magnitude == format.infinity : magnitude > format.infinity) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (dtype != XQA_DTYPE_E4M3 && magnitude == format.infinity) {
    return sign * std::numeric_limits<double>::infinity();
  }
  const uint64_t field = magnitude >> format.mantissa_bits;
  const uint64_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  if (field == 0) {
    return sign * std::ldexp(static_cast<double>(mantissa),
                             1 - format.exponent_bias - format.mantissa_bits);
  }
  const uint64_t exponent = field + uint64_t(kDoubleExponentBias - format.exponent_bias);
  const uint64_t double_bits =
      exponent << kDoubleMantissaBits | mantissa << (kDoubleMantissaBits - format.mantissa_bits);
  double value;
  std::memcpy(&value, &double_bits, sizeof(value));
  return sign * value;
}

size_t dtypeBytes(xqaDtype_t dtype) { return dtype == XQA_DTYPE_E4M3 ? 1 : 2; }

const char* dtypeName(xqaDtype_t dtype) {
  switch (dtype) {
    case XQA_DTYPE_F16:
      return "f16";
    case XQA_DTYPE_BF16:
      return "bf16";
    case XQA_DTYPE_E4M3:
      return "e4m3";
    case XQA_DTYPE_F32:
      return "f32";
    default:
      return "";
  }
}

xqaDtype_t dtypeFromName(const std::string& name) {
  for (const xqaDtype_t dtype : {XQA_DTYPE_F16, XQA_DTYPE_BF16, XQA_DTYPE_E4M3}) {
    if (name == dtypeName(dtype)) return dtype;
  }
  return XQA_DTYPE_DEFAULT;
}

void storeElement(void* array, xqaDtype_t dtype, size_t index, double value) {
  const uint32_t bits = encode(dtype, value);
  if (dtype == XQA_DTYPE_E4M3) {
    static_cast<uint8_t*>(array)[index] = static_cast<uint8_t>(bits);
  } else {
    static_cast<uint16_t*>(array)[index] = static_cast<uint16_t>(bits);
  }
}

double loadElement(const void* array, xqaDtype_t dtype, size_t index) {
  return decode(dtype, dtype == XQA_DTYPE_E4M3 ? static_cast<const uint8_t*>(array)[index]
                                               : static_cast<const uint16_t*>(array)[index]);
}

}  // namespace tool
