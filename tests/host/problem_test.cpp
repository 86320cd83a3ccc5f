// SPDX-License-Identifier: Apache-2.0
// What checkShape and checkArgs hand on: every default resolved, every argument in its place.
#include "core/problem.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "host_call.h"

namespace {

using namespace xqa_test;
using xqa::Problem;

constexpr xqa::Key kKey = {16, 4, XQA_DTYPE_BF16, XQA_DTYPE_E4M3, XQA_DTYPE_BF16, XQA_BACKEND_HOST};

Problem resolve(const Call& call) {
  xqa::Diagnostic unheard(nullptr);
  Problem problem;
  EXPECT_EQ(xqa::checkShape(kKey, &call.shape, &problem, unheard), XQA_STATUS_SUCCESS);
  EXPECT_EQ(problem.q, nullptr);
  EXPECT_EQ(problem.seq_lens, nullptr);
  EXPECT_EQ(xqa::checkArgs(&call.args, &problem, unheard), XQA_STATUS_SUCCESS);
  return problem;
}

void expectStrides(const xqaQueryStrides_t& strides, int64_t batch, int64_t token, int64_t head) {
  EXPECT_EQ(strides.batch, batch);
  EXPECT_EQ(strides.token, token);
  EXPECT_EQ(strides.head, head);
}

void expectStrides(const xqaCacheStrides_t& strides, int64_t page, int64_t token, int64_t head) {
  EXPECT_EQ(strides.page, page);
  EXPECT_EQ(strides.token, token);
  EXPECT_EQ(strides.head, head);
}

TEST(Problem, DefaultsOfPagedCache) {
  Call call;
  call.shape.q_tokens = 0;
  const Problem problem = resolve(call);
  EXPECT_EQ(problem.key.kv_dtype, XQA_DTYPE_E4M3);
  EXPECT_EQ(problem.q_tokens, 1);
  EXPECT_EQ(problem.max_pages, 3);
  EXPECT_EQ(problem.page_table_stride, 3);
  expectStrides(problem.q_strides, 128, 128, 16);
  expectStrides(problem.out_strides, 128, 128, 16);
  expectStrides(problem.k_strides, 128, 32, 16);
  expectStrides(problem.v_strides, 128, 32, 16);
  EXPECT_EQ(problem.out_dtype, XQA_DTYPE_BF16);
  EXPECT_EQ(problem.softmax_scale, 0.25f);
  EXPECT_EQ(problem.softcap, 0.0f);
  EXPECT_EQ(problem.window, 0);
  EXPECT_EQ(problem.rows(), 4);
  EXPECT_EQ(problem.capacityTokens(), 12);
}

TEST(Problem, DefaultsOfContiguousCache) {
  Call call;
  call.makeContiguous();
  call.shape.page_table_stride = 7;  // not used
  const Problem problem = resolve(call);
  EXPECT_EQ(problem.page_table, nullptr);
  EXPECT_EQ(problem.max_pages, 1);
  EXPECT_EQ(problem.page_table_stride, 0);
  EXPECT_EQ(problem.capacityTokens(), 12);
  expectStrides(problem.k_strides, 12 * 32, 32, 16);
  expectStrides(problem.q_strides, 256, 128, 16);
}

TEST(Problem, GivenValuesStay) {
  Call call;
  call.shape.page_table_stride = 4;
  call.shape.q_strides = {512, 0, 16};
  call.shape.out_strides = {1024, 256, 32};
  call.shape.k_strides = {0, 32, 16};
  call.shape.v_strides = {-128, 32, 16};
  call.shape.out_dtype = XQA_DTYPE_E4M3;
  call.shape.window = 9;
  call.shape.softmax_scale = -0.5f;
  call.shape.softcap = 30.0f;
  call.shape.q_scale_stride = 1;
  call.shape.k_scale_stride = 0;
  call.shape.v_scale_stride = 1;
  const Problem problem = resolve(call);
  EXPECT_EQ(problem.page_table_stride, 4);
  expectStrides(problem.q_strides, 512, 0, 16);
  expectStrides(problem.out_strides, 1024, 256, 32);
  expectStrides(problem.k_strides, 0, 32, 16);
  expectStrides(problem.v_strides, -128, 32, 16);
  EXPECT_EQ(problem.out_dtype, XQA_DTYPE_E4M3);
  EXPECT_EQ(problem.window, 9);
  EXPECT_EQ(problem.softmax_scale, -0.5f);
  EXPECT_EQ(problem.softcap, 30.0f);
  EXPECT_EQ(problem.q_scale_stride, 1);
  EXPECT_EQ(problem.k_scale_stride, 0);
  EXPECT_EQ(problem.v_scale_stride, 1);
}

TEST(Problem, EveryArgumentIsInItsPlace) {
  Call call;
  call.args.q_offsets = call.q_offsets;
  call.args.mask = call.mask;
  call.args.sinks = call.values + 1;
  call.args.q_scale = call.values + 2;
  call.args.k_scale = call.values + 3;
  call.args.v_scale = call.values + 4;
  call.args.out_scale = call.values + 5;
  call.args.workspace = call.workspace;
  call.args.workspace_bytes = 512;
  call.args.flags = XQA_DECODE_PDL;
  const Problem problem = resolve(call);
  EXPECT_EQ(problem.q, call.q);
  EXPECT_EQ(problem.q_offsets, call.q_offsets);
  EXPECT_EQ(problem.k_cache, call.k);
  EXPECT_EQ(problem.v_cache, call.v);
  EXPECT_EQ(problem.page_table, call.page_table);
  EXPECT_EQ(problem.seq_lens, call.seq_lens);
  EXPECT_EQ(problem.sinks, call.values + 1);
  EXPECT_EQ(problem.mask, call.mask);
  EXPECT_EQ(problem.q_scale, call.values + 2);
  EXPECT_EQ(problem.k_scale, call.values + 3);
  EXPECT_EQ(problem.v_scale, call.values + 4);
  EXPECT_EQ(problem.out, call.out);
  EXPECT_EQ(problem.out_scale, call.values + 5);
  EXPECT_EQ(problem.lse, call.args.lse);
  EXPECT_EQ(problem.workspace, call.workspace);
  EXPECT_EQ(problem.workspace_bytes, 512u);
  EXPECT_EQ(problem.flags, uint32_t{XQA_DECODE_PDL});
}

}  // namespace
