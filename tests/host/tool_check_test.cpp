// SPDX-License-Identifier: Apache-2.0
// The parts of the xqa tool that decide whether a result is right: number formats, generated
// inputs, the expected rows and their comparison.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "arguments.h"
#include "check.h"
#include "formats.h"
#include "inputs.h"
#include "peers.h"
#include "presets.h"
#include "problem.h"

namespace {

using tool::Comparison;
using tool::Inputs;
using tool::ProblemSpec;
using tool::Unit;
using tool::UnitRows;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kRowSize = 64;

ProblemSpec parse(const std::string& text) {
  ProblemSpec spec;
  tool::applyProblem(text, &spec);
  return spec;
}

// Rows of distinct values near 1.
UnitRows someRows(size_t rows) {
  UnitRows result;
  for (size_t i = 0; i < rows * kRowSize; ++i) {
    result.out.push_back(1.0 + 0.001 * static_cast<double>(i % 97));
  }
  result.lse.assign(rows, 5.0);
  return result;
}

Comparison compare(const UnitRows& expected, const UnitRows& actual) {
  Comparison comparison(tool::boundsFor(ProblemSpec()));
  comparison.add(expected, actual, kRowSize);
  return comparison;
}

TEST(ToolComparison, PassesEqualRowsAndRounding) {
  const UnitRows expected = someRows(100);
  EXPECT_TRUE(compare(expected, expected).passed());
  EXPECT_EQ(compare(expected, expected).error(), 0.0);
  UnitRows rounded = expected;
  for (double& value : rounded.out) {
    value = tool::decode(XQA_DTYPE_F16, tool::encode(XQA_DTYPE_F16, value));
  }
  const Comparison comparison = compare(expected, rounded);
  EXPECT_TRUE(comparison.passed()) << comparison.failure();
  EXPECT_GT(comparison.error(), 0.0);
}

TEST(ToolComparison, FailsOnAnyOneWrongElement) {
  const UnitRows expected = someRows(1000);
  for (const size_t i : {size_t{0}, size_t{31'999}, expected.out.size() - 1}) {
    for (const double wrong : {-expected.out[i], 0.0, 2.0, kInfinity, kNan}) {
      UnitRows actual = expected;
      actual.out[i] = wrong;
      EXPECT_FALSE(compare(expected, actual).passed()) << i << " " << wrong;
    }
  }
}

TEST(ToolComparison, FailsOnASmallErrorEverywhere) {
  const UnitRows expected = someRows(10);
  UnitRows actual = expected;
  for (double& value : actual.out) value *= 1.002;
  EXPECT_FALSE(compare(expected, actual).passed());
}

TEST(ToolComparison, WantsZerosExactly) {
  UnitRows expected = someRows(2);
  std::fill_n(expected.out.begin(), kRowSize, 0.0);
  EXPECT_TRUE(compare(expected, expected).passed());
  UnitRows actual = expected;
  actual.out[3] = 1e-7;
  EXPECT_FALSE(compare(expected, actual).passed());
}

TEST(ToolComparison, ComparesLogSumExp) {
  UnitRows expected = someRows(3);
  expected.lse[1] = -kInfinity;
  EXPECT_TRUE(compare(expected, expected).passed());
  for (const double wrong : {5.1, kInfinity, -kInfinity, kNan}) {
    UnitRows actual = expected;
    actual.lse[2] = wrong;
    EXPECT_FALSE(compare(expected, actual).passed()) << wrong;
  }
  UnitRows actual = expected;
  actual.lse[1] = -1e30;
  EXPECT_FALSE(compare(expected, actual).passed());
}

TEST(ToolComparison, NothingComparedIsAFailure) {
  EXPECT_FALSE(Comparison(tool::boundsFor(ProblemSpec())).passed());
}

TEST(ToolFormats, EveryCodeRoundTrips) {
  for (const xqaDtype_t dtype : {XQA_DTYPE_F16, XQA_DTYPE_BF16, XQA_DTYPE_E4M3}) {
    const uint32_t codes = dtype == XQA_DTYPE_E4M3 ? 256 : 65536;
    for (uint32_t code = 0; code < codes; ++code) {
      const double value = tool::decode(dtype, code);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(tool::decode(dtype, tool::encode(dtype, value))));
      } else {
        ASSERT_EQ(tool::encode(dtype, value), code) << tool::dtypeName(dtype);
      }
    }
  }
}

// Between each two neighbours: the nearer one, and of two equally near ones the even code.
TEST(ToolFormats, RoundsToNearestEven) {
  for (const xqaDtype_t dtype : {XQA_DTYPE_F16, XQA_DTYPE_BF16, XQA_DTYPE_E4M3}) {
    const uint32_t largest = dtype == XQA_DTYPE_F16    ? 0x7BFF
                             : dtype == XQA_DTYPE_BF16 ? 0x7F7F
                                                       : 0x7E;
    for (uint32_t code = 0; code < largest; ++code) {
      const double low = tool::decode(dtype, code);
      const double high = tool::decode(dtype, code + 1);
      const double middle = (low + high) / 2;
      ASSERT_EQ(tool::encode(dtype, middle), code % 2 == 0 ? code : code + 1);
      ASSERT_EQ(tool::encode(dtype, std::nextafter(middle, low)), code);
      ASSERT_EQ(tool::encode(dtype, std::nextafter(middle, high)), code + 1);
    }
  }
}

TEST(ToolFormats, LargeValues) {
  EXPECT_EQ(tool::decode(XQA_DTYPE_F16, tool::encode(XQA_DTYPE_F16, 65519.0)), 65504.0);
  EXPECT_EQ(tool::decode(XQA_DTYPE_F16, tool::encode(XQA_DTYPE_F16, 65520.0)), kInfinity);
  EXPECT_EQ(tool::decode(XQA_DTYPE_E4M3, tool::encode(XQA_DTYPE_E4M3, 1e9)), 448.0);
  EXPECT_EQ(tool::decode(XQA_DTYPE_E4M3, tool::encode(XQA_DTYPE_E4M3, -kInfinity)), -448.0);
  EXPECT_EQ(tool::decode(XQA_DTYPE_E4M3, 0x01), 0x1p-9);
  EXPECT_EQ(tool::decode(XQA_DTYPE_E4M3, 0x08), 0x1p-6);
}

TEST(ToolProblem, TextRoundTripsAndIsCanonical) {
  const std::string text =
      "d=64,g=5,kv_heads=3,q=4,batch=5,len=7/0/300,page=1,layout=hnd,qdtype=bf16,kv=e4m3,out=e4m3,"
      "scale=0.25,softcap=30,sinks=1,mask=tree,ragged=1,qscale=2,kscale=0.5,vscale=4,oscale=8,"
      "perhead=1,lse=1,pdl=1,backend=host,seed=9";
  EXPECT_EQ(tool::problemText(parse(text)), text);
  EXPECT_EQ(tool::problemText(parse("kv=f16,qdtype=f16,batch=1,page=64")),
            "d=128,g=8,kv_heads=8,batch=1");
  EXPECT_EQ(tool::problemText(parse("len=uniform:3..9")), "d=128,g=8,kv_heads=8,len=uniform:3..9");
}

TEST(ToolProblem, RangesAreWithinTheirEndsAndReachThem) {
  for (const char* range : {"0..3", "uniform:0..3"}) {
    const std::vector<int32_t> lengths = tool::Lengths::parse(range).draw(1000, 7);
    const std::set<int32_t> seen(lengths.begin(), lengths.end());
    EXPECT_EQ(seen, (std::set<int32_t>{0, 1, 2, 3})) << range;
  }
}

TEST(ToolInputs, PagesAreDistinctAndOnlyVisibleOnesAreMapped) {
  const Inputs in = tool::buildInputs(parse("batch=3,len=100/300/0,page=16,window=40,q=2"), 4);
  const int64_t pages = in.v_base / in.shape.k_strides.page;
  std::set<int32_t> used;
  int64_t mapped = 0;
  for (const int32_t id : in.page_table) {
    if (id < 0) continue;
    EXPECT_LT(id, pages);
    used.insert(id);
    ++mapped;
  }
  EXPECT_EQ(static_cast<int64_t>(used.size()), mapped);
  EXPECT_EQ(mapped, pages);
  // Length 300, 2 rows: tokens 259 to 299 are visible, pages 16 to 18. Length 100: 59 to 99, 3
  // to 6.
  EXPECT_EQ(mapped, 4 * (3 + 4));
  EXPECT_EQ(in.visible_tokens, 41 + 41);
}

TEST(ToolInputs, LayoutsDoNotOverlap) {
  for (const char* layout : {"nhd", "hnd", "interleaved", "padded", "contiguous"}) {
    const Inputs in = tool::buildInputs(
        parse(std::string("d=8,kv_heads=3,batch=2,len=20/13,page=8,layout=") + layout), 1);
    std::set<int64_t> elements;
    for (int32_t b = 0; b < 2; ++b) {
      for (int32_t t = 0; t < in.seq_lens[static_cast<size_t>(b)]; ++t) {
        for (int32_t h = 0; h < 3; ++h) {
          for (const int64_t e : {in.keyElement(b, t, h), in.valueElement(b, t, h)}) {
            EXPECT_TRUE(e >= 0 && e + 8 <= in.pool_elems && e % 8 == 0) << layout;
            EXPECT_TRUE(elements.insert(e).second) << layout;
          }
        }
      }
    }
  }
}

TEST(ToolInputs, TreeMasksAreTrees) {
  const Inputs in = tool::buildInputs(parse("batch=2,len=100,q=40,mask=tree"), 1);
  for (uint32_t i = 0; i < 80; ++i) {
    const uint32_t row = i % 40;
    for (uint32_t j = 0; j < 64; ++j) {
      const bool bit = (in.mask[i * 2 + j / 32] >> (j % 32) & 1) != 0;
      if (j >= row) {
        EXPECT_EQ(bit, j == row);
      }
      if (!bit) continue;
      // Whoever sees a token sees what it sees.
      for (uint32_t w = 0; w < 2; ++w) {
        const uint32_t seen = in.mask[(i - row + j) * 2 + w];
        EXPECT_EQ(seen & in.mask[i * 2 + w], seen);
      }
    }
  }
}

TEST(ToolCheck, DenseAndLibraryReferenceAgreeOnEveryFeature) {
  for (const char* text :
       {"d=64,g=3,kv_heads=2,batch=3,len=50/1/0,lse=1",
        "d=64,g=3,kv_heads=2,batch=2,len=90/3,q=5,mask=tree,ragged=1,sinks=1,lse=1",
        "d=64,g=2,kv_heads=2,batch=2,len=90/40,q=3,window=17,softcap=2,kv=e4m3,qscale=2,kscale=0.5,"
        "vscale=3,oscale=0.2,perhead=1,scale=0.2,qdtype=bf16,out=e4m3,lse=1",
        "d=128,g=2,kv_heads=2,batch=2,len=90/40,q=40,mask=full,lse=1"}) {
    const Inputs in = tool::buildInputs(parse(text), 1);
    Comparison comparison(tool::boundsFor(in.spec));
    for (const Unit& unit : tool::chooseUnits(in, 1e9, 1000)) {
      comparison.add(tool::denseRows(in, unit), tool::referenceRows(in, unit),
                     static_cast<size_t>(in.spec.head_dim));
    }
    EXPECT_TRUE(comparison.passed()) << text << ": " << comparison.failure();
    EXPECT_EQ(comparison.comparedRows(), in.total_rows * in.shape.num_q_heads);
  }
}

TEST(ToolCheck, SamplesWithinItsBudget) {
  const Inputs in = tool::buildInputs(parse("batch=64,len=1000,g=8,kv_heads=8"), 1);
  const double head_cost = 1000.0 * 128;
  const std::vector<Unit> two = tool::chooseUnits(in, 100 * head_cost, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NE(two[0].request, two[1].request);
  const std::vector<Unit> one = tool::chooseUnits(in, 0.5 * head_cost, 2);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].heads, 1);
  EXPECT_EQ(tool::chooseUnits(in, 1e9, 512).size(), 512u);
}

TEST(ToolPresets, HeadsDivideOverRanks) {
  for (const tool::Preset& preset : tool::presets()) {
    EXPECT_EQ(preset.q_heads % preset.kv_heads, 0) << preset.name;
  }
  const ProblemSpec half = tool::presetLayers(tool::findPreset("llama-3-70b"), 4)[0].spec;
  EXPECT_EQ(half.kv_heads, 2);
  EXPECT_EQ(half.group_size, 8);
  const ProblemSpec copies = tool::presetLayers(tool::findPreset("llama-3-70b"), 16)[0].spec;
  EXPECT_EQ(copies.kv_heads, 1);
  EXPECT_EQ(copies.group_size, 4);
  EXPECT_THROW(tool::presetLayers(tool::findPreset("qwen2.5-7b"), 8), tool::UsageError);
}

TEST(ToolPeers, FindsTheFastestOnTheSameShape) {
  const std::vector<tool::PeerTime> peers = {
      {tool::problemText(parse("batch=1,len=8,kv=e4m3")), "slow", 20.0},
      {tool::problemText(parse("batch=1,len=8,kv=e4m3")), "fast", 10.0},
      {tool::problemText(parse("batch=1,len=8")), "other", 5.0}};
  const tool::PeerTime* found =
      tool::fastestPeer(peers, parse("len=8,batch=1,kv=e4m3,math=e4m3,seed=3,backend=mma_sync"));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->kernel, "fast");
  EXPECT_EQ(tool::fastestPeer(peers, parse("batch=2,len=8")), nullptr);
}

}  // namespace
