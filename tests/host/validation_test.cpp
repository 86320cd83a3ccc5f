// SPDX-License-Identifier: Apache-2.0
// Every rule of xqa.h about keys, sizes and options that the host checks, and calls at the edge of
// the rules.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>

#include "host_call.h"
#include "xqa/xqa.h"

namespace {

using namespace xqa_test;

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithStatusAndSentenceAndNothingWritten) { expectRefused(GetParam()); }

const Refusal kKeyRefusals[] = {
    {"HeadDim0", [](Call& c) { c.key.head_dim = 0; }, XQA_STATUS_INVALID_ARGUMENT,
     "head_dim is 0: it must be a multiple of 8 from 8 to 1024"},
    {"HeadDim12", [](Call& c) { c.key.head_dim = 12; }, XQA_STATUS_INVALID_ARGUMENT,
     "head_dim is 12: it must be a multiple of 8"},
    {"HeadDim1032", [](Call& c) { c.key.head_dim = 1032; }, XQA_STATUS_INVALID_ARGUMENT,
     "head_dim is 1032: it must be a multiple of 8 from 8 to 1024"},
    {"HeadDimNegative", [](Call& c) { c.key.head_dim = -8; }, XQA_STATUS_INVALID_ARGUMENT,
     "head_dim is -8: it must be"},
    {"GroupSize0", [](Call& c) { c.key.group_size = 0; }, XQA_STATUS_INVALID_ARGUMENT,
     "group_size is 0: it must be 1 or more"},
    {"QDtypeMissing", [](Call& c) { c.key.q_dtype = XQA_DTYPE_DEFAULT; },
     XQA_STATUS_INVALID_ARGUMENT, "q_dtype is 0 (DEFAULT): it must be F16 or BF16"},
    {"QDtypeE4m3", [](Call& c) { c.key.q_dtype = XQA_DTYPE_E4M3; }, XQA_STATUS_INVALID_ARGUMENT,
     "q_dtype is 3 (E4M3): it must be F16 or BF16"},
    {"QDtypeUnknown", [](Call& c) { setEnum(&c.key.q_dtype, -7); }, XQA_STATUS_INVALID_ARGUMENT,
     "q_dtype is -7 (unknown): it must be F16 or BF16"},
    {"KvDtypeOther", [](Call& c) { c.key.kv_dtype = XQA_DTYPE_BF16; }, XQA_STATUS_INVALID_ARGUMENT,
     "kv_dtype is 2 (BF16): it must be q_dtype (F16) or E4M3"},
    {"KvDtypeUnknown", [](Call& c) { setEnum(&c.key.kv_dtype, 99); }, XQA_STATUS_INVALID_ARGUMENT,
     "kv_dtype is 99 (unknown): it must be q_dtype (F16) or E4M3"},
    {"MathDtypeOther", [](Call& c) { c.key.math_dtype = XQA_DTYPE_F32; },
     XQA_STATUS_INVALID_ARGUMENT, "math_dtype is 4 (F32): it must be q_dtype (F16) or E4M3"},
    {"KeySize0", [](Call& c) { c.key.struct_size = 0; }, XQA_STATUS_INVALID_ARGUMENT,
     "key struct_size is 0: it must be sizeof the struct (32 in this version)"},
};
INSTANTIATE_TEST_SUITE_P(Key, Refused, testing::ValuesIn(kKeyRefusals), caseName<Refusal>);

const Refusal kSizeRefusals[] = {
    {"ShapeSize0", [](Call& c) { c.shape.struct_size = 0; }, XQA_STATUS_INVALID_ARGUMENT,
     "shape struct_size is 0: it must be sizeof the struct (168 in this version)"},
    {"ShapeSizeNeverSet", [](Call& c) { c.shape.struct_size = ~size_t{0}; },
     XQA_STATUS_INVALID_ARGUMENT, "shape struct_size is 18446744073709551615: it must be sizeof"},
    {"BatchNegative", [](Call& c) { c.shape.batch = -1; }, XQA_STATUS_INVALID_ARGUMENT,
     "batch is -1: it must be 0 or more"},
    {"QTokensNegative", [](Call& c) { c.shape.q_tokens = -2; }, XQA_STATUS_INVALID_ARGUMENT,
     "q_tokens is -2: it must be 0 or more"},
    {"QHeadsNegative", [](Call& c) { c.shape.num_q_heads = -8; }, XQA_STATUS_INVALID_ARGUMENT,
     "num_q_heads is -8: it must be 1 or more"},
    {"KvHeads0", [](Call& c) { c.shape.num_kv_heads = 0; }, XQA_STATUS_INVALID_ARGUMENT,
     "num_kv_heads is 0: it must be 1 or more"},
    {"PageTokens0", [](Call& c) { c.shape.page_tokens = 0; }, XQA_STATUS_INVALID_ARGUMENT,
     "page_tokens is 0: it must be 1 or more"},
    {"MaxPagesNegative", [](Call& c) { c.shape.max_pages = -1; }, XQA_STATUS_INVALID_ARGUMENT,
     "max_pages is -1: it must be 0 or more"},
    {"HeadsNotInGroups", [](Call& c) { c.shape.num_q_heads = 12; }, XQA_STATUS_SHAPE_UNSUPPORTED,
     "num_q_heads is 12: it must be num_kv_heads * group_size = 8"},
    {"HeadsOverflow32",
     [](Call& c) {  // 2^31 heads would be 0 modulo 2^32
       c.shape.num_kv_heads = 1 << 30;
       c.shape.num_q_heads = 8;
     },
     XQA_STATUS_SHAPE_UNSUPPORTED,
     "num_q_heads is 8: it must be num_kv_heads * group_size = 4294967296"},
    {"RowsJustTooMany", [](Call& c) { c.shape.batch = 1 << 27; },  // * 2 * 8 = 2^31
     XQA_STATUS_SHAPE_UNSUPPORTED,
     "batch is 134217728, q_tokens is 2 and num_q_heads is 8: their product must be at most "
     "2147483647"},
    {"RowsOverflow64",
     [](Call& c) {
       c.key.group_size = kMax32;
       c.shape.batch = c.shape.q_tokens = c.shape.num_q_heads = kMax32;
       c.shape.num_kv_heads = 1;
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "their product must be at most 2147483647"},
    {"RowsOfNoRequest",
     [](Call& c) {
       c.shape.batch = 0;
       c.shape.q_tokens = 1 << 28;
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "q_tokens is 268435456 and num_q_heads is 8"},
    {"CapacityTooLarge",
     [](Call& c) {
       c.shape.page_tokens = 1 << 16;
       c.shape.max_pages = 1 << 15;
     },
     XQA_STATUS_SHAPE_UNSUPPORTED,
     "page_tokens is 65536 and max_pages is 32768: their product must be at most 2147483647"},
};
INSTANTIATE_TEST_SUITE_P(Size, Refused, testing::ValuesIn(kSizeRefusals), caseName<Refusal>);

const Refusal kOptionRefusals[] = {
    {"OutOtherDtype", [](Call& c) { c.shape.out_dtype = XQA_DTYPE_BF16; },
     XQA_STATUS_FEATURE_UNSUPPORTED, "out_dtype is 2 (BF16): it must be q_dtype (F16) or E4M3"},
    {"OutF32", [](Call& c) { c.shape.out_dtype = XQA_DTYPE_F32; }, XQA_STATUS_FEATURE_UNSUPPORTED,
     "out_dtype is 4 (F32): it must be q_dtype (F16) or E4M3"},
    {"OutUnknownDtype", [](Call& c) { setEnum(&c.shape.out_dtype, 1000); },
     XQA_STATUS_INVALID_ARGUMENT, "out_dtype is 1000 (unknown): it must be"},
    {"WindowNegative", [](Call& c) { c.shape.window = -1; }, XQA_STATUS_INVALID_ARGUMENT,
     "window is -1: it must be 0 or more"},
    {"WindowWithMask",
     [](Call& c) {
       c.shape.window = 3;
       c.args.mask = c.mask;
     },
     XQA_STATUS_FEATURE_UNSUPPORTED,
     "mask is given and window is 3: a draft mask must come with window 0"},
    {"SoftmaxScaleNan", [](Call& c) { c.shape.softmax_scale = kNan; }, XQA_STATUS_INVALID_ARGUMENT,
     "softmax_scale is nan: it must be finite"},
    {"SoftmaxScaleInf", [](Call& c) { c.shape.softmax_scale = -kInf; }, XQA_STATUS_INVALID_ARGUMENT,
     "softmax_scale is -inf: it must be finite"},
    {"SoftcapNan", [](Call& c) { c.shape.softcap = kNan; }, XQA_STATUS_INVALID_ARGUMENT,
     "softcap is nan: it must be finite and 0 or more"},
    {"SoftcapInf", [](Call& c) { c.shape.softcap = kInf; }, XQA_STATUS_INVALID_ARGUMENT,
     "softcap is inf: it must be finite and 0 or more"},
    {"SoftcapNegative", [](Call& c) { c.shape.softcap = -0.5f; }, XQA_STATUS_INVALID_ARGUMENT,
     "softcap is -0.5: it must be finite and 0 or more"},
    {"QScaleStride", [](Call& c) { c.shape.q_scale_stride = 2; }, XQA_STATUS_INVALID_ARGUMENT,
     "q_scale_stride is 2: it must be 0 (one value) or 1 (one value per KV head)"},
    {"KScaleStride", [](Call& c) { c.shape.k_scale_stride = -1; }, XQA_STATUS_INVALID_ARGUMENT,
     "k_scale_stride is -1: it must be 0"},
    {"VScaleStride", [](Call& c) { c.shape.v_scale_stride = 8; }, XQA_STATUS_INVALID_ARGUMENT,
     "v_scale_stride is 8: it must be 0"},
    {"ShapeReserved", [](Call& c) { c.shape.reserved = 1; }, XQA_STATUS_INVALID_ARGUMENT,
     "shape reserved is 1: it must be 0"},
    {"ArgsReserved", [](Call& c) { c.args.reserved = ~0u; }, XQA_STATUS_INVALID_ARGUMENT,
     "args reserved is 4294967295: it must be 0"},
    {"UnknownFlags", [](Call& c) { c.args.flags = XQA_DECODE_PDL | 0x80u; },
     XQA_STATUS_INVALID_ARGUMENT, "flags is 0x81: bits 0x80 are none of XQA_DECODE_"},
    {"OldKvWithoutPdl", [](Call& c) { c.args.flags = XQA_DECODE_PDL_OLD_KV_READY; },
     XQA_STATUS_INVALID_ARGUMENT,
     "flags is 0x2: XQA_DECODE_PDL_OLD_KV_READY must come with XQA_DECODE_PDL"},
};
INSTANTIATE_TEST_SUITE_P(Option, Refused, testing::ValuesIn(kOptionRefusals), caseName<Refusal>);

struct Acceptance {
  const char* name;
  std::function<void(Call&)> change;
};

std::ostream& operator<<(std::ostream& stream, const Acceptance& test) {
  return stream << test.name;
}

class Accepted : public testing::TestWithParam<Acceptance> {};

TEST_P(Accepted, AndComputed) {
  Call call;
  GetParam().change(call);
  EXPECT_EQ(call.run(), XQA_STATUS_SUCCESS) << call.diagnostic.message;
  EXPECT_FALSE(Call::untouched(call.out));
  EXPECT_STREQ(call.diagnostic.message, "") << "a diagnostic is written on failure only";
}

const Acceptance kAcceptances[] = {
    {"Plain", [](Call&) {}},
    {"QTokensDefault", [](Call& c) { c.shape.q_tokens = 0; }},
    {"OneKvHead",
     [](Call& c) {
       c.key.group_size = 8;
       c.shape.num_kv_heads = 1;
     }},
    {"HeadDim8E4m3Cache",
     [](Call& c) {
       c.key.head_dim = 8;
       c.key.kv_dtype = XQA_DTYPE_E4M3;
     }},
    {"NegativeSoftmaxScale", [](Call& c) { c.shape.softmax_scale = -1.0f; }},
    {"QBroadcast",
     [](Call& c) {
       c.shape.q_strides = {0, 0, 16};
     }},
    {"QBackwards",
     [](Call& c) {
       c.shape.q_strides = {-256, 128, 16};
       c.args.q = c.q + 256;
     }},
    {"KOneHeadForAll",
     [](Call& c) {
       c.shape.k_strides = {128, 32, 0};
     }},
    {"StrideOfOneIndexNotJudged",
     [](Call& c) {
       c.shape.batch = 1;
       c.shape.q_strides = {kMin64, 128, 16};
       c.shape.out_strides = {3, 128, 16};
       c.shape.page_table_stride = -5;
     }},
    {"RaggedBatchStrideNotUsed",
     [](Call& c) {
       c.shape.q_strides = {kMax64, 128, 16};
       c.shape.out_strides = {1, 128, 16};
       c.args.q_offsets = c.q_offsets;
     }},
    {"Contiguous", [](Call& c) { c.makeContiguous(); }},
    {"ContiguousOnePage",
     [](Call& c) {
       c.makeContiguous();
       c.shape.max_pages = 1;
     }},
    {"ContiguousOneRequestPageStrideNotUsed",
     [](Call& c) {
       c.makeContiguous();
       c.shape.batch = 1;
       c.shape.k_strides = {3, 32, 16};
     }},
    {"Mask", [](Call& c) { c.args.mask = c.mask; }},
    {"HugeWindow", [](Call& c) { c.shape.window = kMax32; }},
    {"PdlFlags", [](Call& c) { c.args.flags = XQA_DECODE_PDL | XQA_DECODE_PDL_OLD_KV_READY; }},
    {"WorkspaceNotNeeded", [](Call& c) { c.args.workspace = c.workspace; }},
    {"BackendNotUsed", [](Call& c) { c.key.backend = XQA_BACKEND_SM90; }},
    {"AllOptionalPointers",
     [](Call& c) {
       c.args.sinks = c.args.q_scale = c.args.k_scale = c.args.v_scale = c.args.out_scale =
           c.values;
     }},
};
INSTANTIATE_TEST_SUITE_P(Legal, Accepted, testing::ValuesIn(kAcceptances), caseName<Acceptance>);

TEST(Batch0, NeedsNoPointersAndWritesNothing) {
  Call call;
  call.shape.batch = 0;
  EXPECT_EQ(call.run(), XQA_STATUS_SUCCESS);
  EXPECT_TRUE(Call::untouched(call.out));
  EXPECT_TRUE(Call::untouched(call.lse));
  call.args = {};
  call.args.struct_size = sizeof(call.args);
  EXPECT_EQ(call.run(), XQA_STATUS_SUCCESS);
  call.args.flags = 4;
  EXPECT_EQ(call.run(), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(xqaDecodeHost(&call.key, &call.shape, nullptr, nullptr), XQA_STATUS_INVALID_ARGUMENT);
}

TEST(NullStruct, IsNamed) {
  Call call;
  EXPECT_EQ(xqaDecodeHost(nullptr, &call.shape, &call.args, &call.diagnostic),
            XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_STREQ(call.diagnostic.message, "key is NULL: it is required");
  EXPECT_EQ(xqaDecodeHost(&call.key, nullptr, &call.args, &call.diagnostic),
            XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_STREQ(call.diagnostic.message, "shape is NULL: it is required");
  EXPECT_EQ(xqaDecodeHost(&call.key, &call.shape, nullptr, &call.diagnostic),
            XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_STREQ(call.diagnostic.message, "args is NULL: it is required");
  EXPECT_TRUE(Call::untouched(call.out));
}

}  // namespace
