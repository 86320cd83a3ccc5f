// SPDX-License-Identifier: Apache-2.0
// Software f16, bf16 and e4m3, over every code and every gap between two codes.
#include "reference/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace xqa {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The formats by their definition, with none of the code under test.
struct F16Case {
  static constexpr const char* kName = "F16";
  using Format = F16;
  static constexpr uint32_t kCodes = 65536, kSign = 0x8000, kFinite = 0x7C00;
  static constexpr int kMantissaBits = 10, kBias = 15;
  static constexpr bool kHasInfinity = true;
};

struct Bf16Case {
  static constexpr const char* kName = "Bf16";
  using Format = Bf16;
  static constexpr uint32_t kCodes = 65536, kSign = 0x8000, kFinite = 0x7F80;
  static constexpr int kMantissaBits = 7, kBias = 127;
  static constexpr bool kHasInfinity = true;
};

struct E4m3Case {
  static constexpr const char* kName = "E4m3";
  using Format = E4m3;
  static constexpr uint32_t kCodes = 256, kSign = 0x80, kFinite = 0x7F;
  static constexpr int kMantissaBits = 3, kBias = 7;
  static constexpr bool kHasInfinity = false;
};

template <typename Case>
double finiteValue(uint32_t magnitude) {
  const int field = static_cast<int>(magnitude >> Case::kMantissaBits);
  const double mantissa = magnitude & ((1u << Case::kMantissaBits) - 1);
  const double one = std::ldexp(1.0, Case::kMantissaBits);
  if (field == 0) return std::ldexp(mantissa, 1 - Case::kBias - Case::kMantissaBits);
  return std::ldexp(mantissa + one, field - Case::kBias - Case::kMantissaBits);
}

template <typename Case>
class Dtype : public ::testing::Test {};

using Cases = ::testing::Types<F16Case, Bf16Case, E4m3Case>;

struct CaseNames {
  template <typename Case>
  static std::string GetName(int) {
    return Case::kName;
  }
};

TYPED_TEST_SUITE(Dtype, Cases, CaseNames);

TYPED_TEST(Dtype, EveryCodeDecodesToItsValueAndBack) {
  using Format = typename TypeParam::Format;
  for (uint32_t code = 0; code < TypeParam::kCodes; ++code) {
    const uint32_t magnitude = code & (TypeParam::kSign - 1);
    const bool negative = (code & TypeParam::kSign) != 0;
    const double value = Format::decode(code);
    if (magnitude < TypeParam::kFinite) {
      const double expected = finiteValue<TypeParam>(magnitude);
      ASSERT_EQ(value, negative ? -expected : expected) << "code " << code;
      ASSERT_EQ(std::signbit(value), negative) << "code " << code;
      ASSERT_EQ(Format::encode(value), code);
    } else if (TypeParam::kHasInfinity && magnitude == TypeParam::kFinite) {
      ASSERT_EQ(value, negative ? -kInfinity : kInfinity);
      ASSERT_EQ(Format::encode(value), code);
    } else {
      ASSERT_TRUE(std::isnan(value)) << "code " << code;
      ASSERT_TRUE(std::isnan(Format::decode(Format::encode(value)))) << "code " << code;
    }
  }
}

TYPED_TEST(Dtype, BetweenTwoCodesTheNearestIsTakenAndTiesGoToTheEvenOne) {
  using Format = typename TypeParam::Format;
  for (uint32_t code = 0; code + 1 < TypeParam::kFinite; ++code) {
    const double middle =
        (finiteValue<TypeParam>(code) + finiteValue<TypeParam>(code + 1)) / 2;  // exact
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    ASSERT_EQ(Format::encode(middle), even) << "above code " << code;
    // A step of double beyond the middle decides: a value that went through float first is lost.
    ASSERT_EQ(Format::encode(std::nextafter(middle, 0.0)), code) << "above code " << code;
    ASSERT_EQ(Format::encode(std::nextafter(middle, kInfinity)), code + 1) << "above code " << code;
    ASSERT_EQ(Format::encode(-middle), even | TypeParam::kSign) << "above code " << code;
  }
}

TYPED_TEST(Dtype, TinyValuesBecomeZeroOfTheirSign) {
  using Format = typename TypeParam::Format;
  const double half = finiteValue<TypeParam>(1) / 2;
  for (const double value : {0.0, 5e-324, 1e-310, half / 2, std::nextafter(half, 0.0), half}) {
    EXPECT_EQ(Format::encode(value), 0u) << value;
    EXPECT_EQ(Format::encode(-value), uint32_t{TypeParam::kSign}) << value;
  }
  EXPECT_EQ(Format::encode(std::nextafter(half, 1.0)), 1u);
}

TYPED_TEST(Dtype, NanIsThePositiveQuietNan) {
  using Format = typename TypeParam::Format;
  EXPECT_EQ(Format::encode(kNan), Format::encode(-kNan));
  EXPECT_EQ(Format::encode(kNan) & TypeParam::kSign, 0u);
}

TEST(F16Codes, Known) {
  EXPECT_EQ(F16::encode(1.0), 0x3C00u);
  EXPECT_EQ(F16::encode(-2.0), 0xC000u);
  EXPECT_EQ(F16::encode(65504.0), 0x7BFFu);
  EXPECT_EQ(F16::encode(0x1p-24), 0x0001u);
  EXPECT_EQ(F16::encode(kNan), 0x7E00u);
  EXPECT_EQ(F16::encode(std::nextafter(65520.0, 0.0)), 0x7BFFu);
  EXPECT_EQ(F16::encode(65520.0), 0x7C00u);
  EXPECT_EQ(F16::encode(1e300), 0x7C00u);
  EXPECT_EQ(F16::encode(-kInfinity), 0xFC00u);
}

TEST(Bf16Codes, Known) {
  EXPECT_EQ(Bf16::encode(1.0), 0x3F80u);
  EXPECT_EQ(Bf16::encode(-2.0), 0xC000u);
  EXPECT_EQ(Bf16::encode(0x1p-133), 0x0001u);
  EXPECT_EQ(Bf16::encode(kNan), 0x7FC0u);
  EXPECT_EQ(Bf16::encode(0x1.FEp127), 0x7F7Fu);
  EXPECT_EQ(Bf16::encode(std::nextafter(0x1.FFp127, 0.0)), 0x7F7Fu);
  EXPECT_EQ(Bf16::encode(0x1.FFp127), 0x7F80u);
  EXPECT_EQ(Bf16::encode(-1e300), 0xFF80u);
}

TEST(E4m3Codes, Known) {
  EXPECT_EQ(E4m3::encode(1.0), 0x38u);
  EXPECT_EQ(E4m3::encode(-2.0), 0xC0u);
  EXPECT_EQ(E4m3::encode(0x1p-9), 0x01u);
  EXPECT_EQ(E4m3::decode(0x7E), 448.0);
  EXPECT_TRUE(std::isnan(E4m3::decode(0x7F)));
  EXPECT_TRUE(std::isnan(E4m3::decode(0xFF)));
  EXPECT_EQ(E4m3::encode(kNan), 0x7Fu);
}

TEST(E4m3Codes, SaturateAtTheLargestNumber) {
  for (const double value : {448.0, 449.0, 464.0, 480.0, 1e4, 1e300, kInfinity}) {
    EXPECT_EQ(E4m3::encode(value), 0x7Eu) << value;
    EXPECT_EQ(E4m3::encode(-value), 0xFEu) << value;
  }
}

// Values that round to a tie in float or f16, and from there to the wrong code.
TEST(DoubleRounding, DoesNotHappen) {
  const double above_f16_tie = 1.0 + 0x1p-11 + 0x1p-40;
  ASSERT_EQ(static_cast<double>(static_cast<float>(above_f16_tie)), 1.0 + 0x1p-11);
  EXPECT_EQ(F16::encode(above_f16_tie), 0x3C01u);

  const double above_bf16_tie = 1.0 + 0x1p-8 + 0x1p-40;
  ASSERT_EQ(static_cast<double>(static_cast<float>(above_bf16_tie)), 1.0 + 0x1p-8);
  EXPECT_EQ(Bf16::encode(above_bf16_tie), 0x3F81u);

  const double above_e4m3_tie = 1.0 + 0x1p-4 + 0x1p-15;
  ASSERT_EQ(F16::decode(F16::encode(above_e4m3_tie)), 1.0 + 0x1p-4);
  EXPECT_EQ(E4m3::encode(above_e4m3_tie), 0x39u);
}

TEST(Elements, AreStoredAndLoadedByIndex) {
  for (const xqaDtype_t dtype : {XQA_DTYPE_F16, XQA_DTYPE_BF16, XQA_DTYPE_E4M3}) {
    uint16_t array[4] = {};
    storeElement(dtype, array, 1, 1.5);
    storeElement(dtype, array, 2, -3.0);
    EXPECT_EQ(loadElement(dtype, array, 0), 0.0);
    EXPECT_EQ(loadElement(dtype, array, 1), 1.5);
    EXPECT_EQ(loadElement(dtype, array, 2), -3.0);
    EXPECT_EQ(loadElement(dtype, array, 3), 0.0);
  }
  uint16_t array[2] = {};
  storeElement(XQA_DTYPE_E4M3, array, 3, 448.0);
  EXPECT_EQ(array[1] >> 8, 0x7E);
}

}  // namespace
}  // namespace xqa
