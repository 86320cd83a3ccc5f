// SPDX-License-Identifier: Apache-2.0
// The parameter block of the decode kernels: what the host knows; lengths stay on the device.
#pragma once

#include <cstdint>

#include "xqa/xqa.h"

namespace xqa {

struct DecodeParams {
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
  float* workspace;  // f32 [2 * grid][1 << head_shift][row_tile * (head_dim + 2)], see epilogue.cuh
  xqaQueryStrides_t q_strides;
  xqaQueryStrides_t out_strides;
  xqaCacheStrides_t k_strides;
  xqaCacheStrides_t v_strides;
  int64_t page_table_stride;
  int64_t capacity_tokens;
  int32_t batch;
  int32_t q_tokens;
  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t group_size;
  int32_t head_dim;
  int32_t page_tokens;
  int32_t window;
  int32_t mask_words;
  int32_t row_tile;
  int32_t row_blocks;  // ceil(group_size * q_tokens / row_tile)
  int32_t head_shift;  // log2 of the KV heads that a block takes side by side (1, 2 or 4; divides
                       // num_kv_heads)
  int32_t tile_shift;  // log2 of the KV tokens of one block-wide tile
  int32_t grid;        // blocks of the decode kernel
  int32_t q_scale_stride;
  int32_t k_scale_stride;
  int32_t v_scale_stride;
  int32_t query_is_bf16;
  int32_t out_is_e4m3;
  float softmax_scale;
  float softcap;
};

}  // namespace xqa
