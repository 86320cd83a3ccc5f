// SPDX-License-Identifier: Apache-2.0
// A decode problem with every default resolved and every host-side rule checked. Both the host
// reference and the launch path read only this; neither sees the public structs.
#pragma once

#include <cstdint>

#include "core/diagnostic.h"
#include "core/registry.h"

namespace xqa {

struct Problem {
  Key key;
  // Shape: sizes and strides in elements, all resolved (no zero stands for a default any more).
  int32_t batch;
  int32_t q_tokens;
  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t page_tokens;
  int32_t max_pages;
  int64_t page_table_stride;
  xqaQueryStrides_t q_strides;
  xqaQueryStrides_t out_strides;
  xqaCacheStrides_t k_strides;
  xqaCacheStrides_t v_strides;
  xqaDtype_t out_dtype;
  int32_t window;  // 0: none
  float softmax_scale;
  float softcap;  // 0: none
  int32_t q_scale_stride;
  int32_t k_scale_stride;
  int32_t v_scale_stride;
  // Tensors: as documented in xqaDecodeArgs_t; all NULL after checkShape.
  const void* q;
  const int32_t* q_offsets;
  const void* k_cache;
  const void* v_cache;
  const int32_t* page_table;
  const int32_t* seq_lens;
  const float* sinks;
  const uint32_t* mask;
  const float* q_scale;
  const float* k_scale;
  const float* v_scale;
  void* out;
  const float* out_scale;
  float* lse;
  void* workspace;
  size_t workspace_bytes;
  uint32_t flags;

  int32_t rows() const { return key.group_size * q_tokens; }  // query rows of one KV head
  int32_t maskWords() const { return (q_tokens + 31) / 32; }  // uint32 words of a mask row
  int64_t capacityTokens() const { return int64_t(page_tokens) * max_pages; }  // longest seq_len
};

// Checks a shape against a key and resolves its defaults into problem (tensors become NULL).
xqaStatus_t checkShape(const Key& key, const xqaDecodeShape_t* shape, Problem* problem,
                       Diagnostic& diagnostic);

// Checks the pointers and their combinations and copies them into a problem that checkShape has
// filled. Workspace is checked by the caller, who knows the plan.
xqaStatus_t checkArgs(const xqaDecodeArgs_t* args, Problem* problem, Diagnostic& diagnostic);

}  // namespace xqa
