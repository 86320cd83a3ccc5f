// SPDX-License-Identifier: Apache-2.0
// Every rule of xqa.h about strides and pointers that the host checks.
#include <gtest/gtest.h>

#include <cstdint>

#include "host_call.h"
#include "xqa/xqa.h"

namespace {

using namespace xqa_test;

class LayoutRefused : public testing::TestWithParam<Refusal> {};

TEST_P(LayoutRefused, WithStatusAndSentenceAndNothingWritten) { expectRefused(GetParam()); }

const Refusal kStrideRefusals[] = {
    {"QHeadNotVector",
     [](Call& c) {
       c.shape.q_strides = {256, 128, 12};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "q_strides.head is 12: it must be a multiple of 8 elements"},
    {"QTokenNotVector",
     [](Call& c) {
       c.shape.q_strides = {256, -129, 16};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "q_strides.token is -129: it must be a multiple of 8 elements"},
    {"QBatchNotVector",
     [](Call& c) {
       c.shape.q_strides = {255, 128, 16};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "q_strides.batch is 255: it must be a multiple of 8 elements"},
    {"QBatchTooFar",
     [](Call& c) {
       c.shape.q_strides = {kMin64, 128, 16};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED,
     "q_strides.batch is -9223372036854775808: with 2 indices the offsets must fit in 63 bits"},
    {"QTogetherTooFar",
     [](Call& c) {
       c.shape.q_strides = {int64_t{1} << 61, int64_t{1} << 61, 16};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "q_strides.token is 2305843009213693952: with 2 indices"},
    {"OutTokenNotVector",
     [](Call& c) {
       c.shape.out_strides = {256, 132, 16};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "out_strides.token is 132: it must be a multiple of 8 elements"},
    {"OutE4m3NotVector",
     [](Call& c) {
       c.shape.out_dtype = XQA_DTYPE_E4M3;
       c.shape.out_strides = {256, 128, 20};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "out_strides.head is 20: it must be a multiple of 8 elements"},
    {"OutHeadsOverlap",
     [](Call& c) {
       c.shape.out_strides = {256, 128, 8};
     },
     XQA_STATUS_INVALID_ARGUMENT,
     "out_strides.head is 8: rows of head_dim = 16 elements must not overlap"},
    {"OutTokensSame",
     [](Call& c) {
       c.shape.out_strides = {256, 0, 16};
     },
     XQA_STATUS_INVALID_ARGUMENT,
     "out_strides.token is 0: rows of head_dim = 16 elements must not overlap"},
    {"OutBatchOverlap",
     [](Call& c) {
       c.shape.out_strides = {-8, 128, 16};
     },
     XQA_STATUS_INVALID_ARGUMENT,
     "out_strides.batch is -8: rows of head_dim = 16 elements must not overlap"},
    {"RaggedOutTokensOverlap",  // one token a request, but two rows in the packed output
     [](Call& c) {
       c.shape.q_tokens = 1;
       c.shape.out_strides = {256, 0, 16};
       c.q_offsets[1] = 1;
       c.q_offsets[2] = 2;
       c.args.q_offsets = c.q_offsets;
     },
     XQA_STATUS_INVALID_ARGUMENT, "out_strides.token is 0: rows of head_dim = 16"},
    {"KHeadUnaligned",
     [](Call& c) {
       c.shape.k_strides = {128, 32, 4};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "k_strides.head is 4: it must be a multiple of 8 elements"},
    {"VTokenUnaligned",
     [](Call& c) {
       c.shape.v_strides = {128, 36, 16};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "v_strides.token is 36: it must be a multiple of 8 elements"},
    {"VPageUnaligned",
     [](Call& c) {
       c.shape.v_strides = {127, 32, 16};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "v_strides.page is 127: it must be a multiple of 8 elements"},
    {"KE4m3Unaligned",
     [](Call& c) {
       c.key.kv_dtype = XQA_DTYPE_E4M3;
       c.shape.k_strides = {128, 40, 16};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "k_strides.token is 40: it must be a multiple of 16 elements"},
    {"OnePageOfATableUnaligned",
     [](Call& c) {
       c.shape.batch = c.shape.max_pages = 1;
       c.shape.k_strides = {127, 32, 16};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "k_strides.page is 127: it must be a multiple of 8 elements"},
    {"KTokenTooFar",
     [](Call& c) {
       c.shape.k_strides = {128, kMax64 - 7, 16};
     },
     XQA_STATUS_SHAPE_UNSUPPORTED,
     "k_strides.token is 9223372036854775800: with 4 indices the offsets must fit in 63 bits"},
    {"PackedPageTooLarge",
     [](Call& c) {
       c.key.group_size = 1;
       c.key.head_dim = 1024;
       c.shape.batch = c.shape.q_tokens = 1;
       c.shape.num_q_heads = c.shape.num_kv_heads = kMax32;
       c.shape.page_tokens = kMax32;
       c.shape.max_pages = 1;
     },
     XQA_STATUS_SHAPE_UNSUPPORTED, "the elements of a packed page must fit in 63 bits"},
    {"TableRowsOverlap", [](Call& c) { c.shape.page_table_stride = 2; },
     XQA_STATUS_INVALID_ARGUMENT, "page_table_stride is 2: it must be at least max_pages = 3"},
    {"TableStrideNegative", [](Call& c) { c.shape.page_table_stride = -3; },
     XQA_STATUS_INVALID_ARGUMENT, "page_table_stride is -3: it must be at least max_pages = 3"},
    {"TableTooFar", [](Call& c) { c.shape.page_table_stride = kMax64; },
     XQA_STATUS_SHAPE_UNSUPPORTED,
     "page_table_stride is 9223372036854775807: with batch = 2 the offsets must fit in 63 bits"},
    {"TableWithoutPages", [](Call& c) { c.shape.max_pages = 0; }, XQA_STATUS_INVALID_ARGUMENT,
     "max_pages is 0: it must be 1 or more with page_table"},
    {"TableWithoutPagesButStride",
     [](Call& c) {
       c.shape.max_pages = 0;
       c.shape.page_table_stride = 3;
     },
     XQA_STATUS_INVALID_ARGUMENT, "max_pages is 0: it must be 1 or more with page_table"},
    {"PagesWithoutTable", [](Call& c) { c.args.page_table = nullptr; }, XQA_STATUS_INVALID_ARGUMENT,
     "max_pages is 3: it must be 0 or 1 when page_table is NULL"},
};
INSTANTIATE_TEST_SUITE_P(Stride, LayoutRefused, testing::ValuesIn(kStrideRefusals),
                         caseName<Refusal>);

const Refusal kPointerRefusals[] = {
    {"ArgsSize0", [](Call& c) { c.args.struct_size = 7; }, XQA_STATUS_INVALID_ARGUMENT,
     "args struct_size is 7: it must be sizeof the struct (144 in this version)"},
    {"QNull", [](Call& c) { c.args.q = nullptr; }, XQA_STATUS_INVALID_ARGUMENT,
     "q is NULL: it is required"},
    {"KNull", [](Call& c) { c.args.k_cache = nullptr; }, XQA_STATUS_INVALID_ARGUMENT,
     "k_cache is NULL: it is required"},
    {"VNull", [](Call& c) { c.args.v_cache = nullptr; }, XQA_STATUS_INVALID_ARGUMENT,
     "v_cache is NULL: it is required"},
    {"SeqLensNull", [](Call& c) { c.args.seq_lens = nullptr; }, XQA_STATUS_INVALID_ARGUMENT,
     "seq_lens is NULL: it is required"},
    {"OutNull", [](Call& c) { c.args.out = nullptr; }, XQA_STATUS_INVALID_ARGUMENT,
     "out is NULL: it is required"},
    {"QMisaligned", [](Call& c) { c.args.q = misaligned(c.args.q, 8); },
     XQA_STATUS_INVALID_ARGUMENT, "q must be aligned to 16 bytes: it is 0x"},
    {"KMisaligned", [](Call& c) { c.args.k_cache = misaligned(c.args.k_cache, 2); },
     XQA_STATUS_INVALID_ARGUMENT, "k_cache must be aligned to 16 bytes: it is 0x"},
    {"VMisaligned", [](Call& c) { c.args.v_cache = misaligned(c.args.v_cache, 4); },
     XQA_STATUS_INVALID_ARGUMENT, "v_cache must be aligned to 16 bytes: it is 0x"},
    {"OutMisaligned", [](Call& c) { c.args.out = misaligned(c.args.out, 8); },
     XQA_STATUS_INVALID_ARGUMENT, "out must be aligned to 16 bytes: it is 0x"},
    {"QOffsetsMisaligned", [](Call& c) { c.args.q_offsets = misaligned(c.q_offsets + 0, 2); },
     XQA_STATUS_INVALID_ARGUMENT, "q_offsets must be aligned to 4 bytes: it is 0x"},
    {"PageTableMisaligned", [](Call& c) { c.args.page_table = misaligned(c.page_table + 0, 1); },
     XQA_STATUS_INVALID_ARGUMENT, "page_table must be aligned to 4 bytes: it is 0x"},
    {"SeqLensMisaligned", [](Call& c) { c.args.seq_lens = misaligned(c.seq_lens + 0, 2); },
     XQA_STATUS_INVALID_ARGUMENT, "seq_lens must be aligned to 4 bytes: it is 0x"},
    {"SinksMisaligned", [](Call& c) { c.args.sinks = misaligned(c.values + 0, 2); },
     XQA_STATUS_INVALID_ARGUMENT, "sinks must be aligned to 4 bytes: it is 0x"},
    {"MaskMisaligned", [](Call& c) { c.args.mask = misaligned(c.mask + 0, 2); },
     XQA_STATUS_INVALID_ARGUMENT, "mask must be aligned to 4 bytes: it is 0x"},
    {"QScaleMisaligned", [](Call& c) { c.args.q_scale = misaligned(c.values + 0, 2); },
     XQA_STATUS_INVALID_ARGUMENT, "q_scale must be aligned to 4 bytes: it is 0x"},
    {"KScaleMisaligned", [](Call& c) { c.args.k_scale = misaligned(c.values + 0, 2); },
     XQA_STATUS_INVALID_ARGUMENT, "k_scale must be aligned to 4 bytes: it is 0x"},
    {"VScaleMisaligned", [](Call& c) { c.args.v_scale = misaligned(c.values + 0, 2); },
     XQA_STATUS_INVALID_ARGUMENT, "v_scale must be aligned to 4 bytes: it is 0x"},
    {"OutScaleMisaligned", [](Call& c) { c.args.out_scale = misaligned(c.values + 0, 2); },
     XQA_STATUS_INVALID_ARGUMENT, "out_scale must be aligned to 4 bytes: it is 0x"},
    {"LseMisaligned", [](Call& c) { c.args.lse = misaligned(c.args.lse, 2); },
     XQA_STATUS_INVALID_ARGUMENT, "lse must be aligned to 4 bytes: it is 0x"},
    {"WorkspaceMisaligned", [](Call& c) { c.args.workspace = c.workspace + 16; },
     XQA_STATUS_INVALID_ARGUMENT, "workspace must be aligned to 256 bytes: it is 0x"},
};
INSTANTIATE_TEST_SUITE_P(Pointer, LayoutRefused, testing::ValuesIn(kPointerRefusals),
                         caseName<Refusal>);

}  // namespace
