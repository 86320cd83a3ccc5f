// SPDX-License-Identifier: Apache-2.0
// From a row's maximum, denominator and weighted sum to the output and the LSE.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <math_constants.h>

#include "device/ptx.cuh"
#include "kernels/common/schedule.cuh"

namespace xqa {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// exp2(a - b) where b >= a; two minus infinities are no weight at all.
__device__ __forceinline__ float weightLog2(float a, float b) {
  return a == -CUDART_INF_F ? 0.0f : ptx::exp2(a - b);
}

struct OutputRow {
  int64_t out;   // element offset of out[row][0]
  float factor;  // multiplies the weighted sum
};

// row: index in the tile's row block; member: KV head in the head group.
__device__ __forceinline__ OutputRow finishRow(const DecodeParams& p, const Cursor& c, int member,
                                               int row, float max_log2, float sum,
                                               bool writes_lse) {
  const int global_row = c.row_block * p.row_tile + row;
  const int token = global_row / p.group_size;
  const int kv_head = (c.head_group << p.head_shift) + member;
  const int head = kv_head * p.group_size + global_row % p.group_size;
  float keep = 1.0f;  // the weighted sum is relative to the old maximum
  if (p.sinks != nullptr) {
    const float sink = p.sinks[head] * kLog2E;
    const float top = fmaxf(max_log2, sink);
    keep = weightLog2(max_log2, top);
    sum = sum * keep + weightLog2(sink, top);
    max_log2 = top;
  }
  if (writes_lse && p.lse != nullptr) {
    p.lse[(c.request.row0 + token) * p.num_q_heads + head] =
        sum == 0.0f ? -CUDART_INF_F : (max_log2 + log2f(sum)) * kLn2;
  }
  OutputRow result;
  const int64_t base = p.q_offsets != nullptr ? c.request.row0 * p.out_strides.token
                                              : c.request_index * p.out_strides.batch;
  result.out = base + token * p.out_strides.token + head * p.out_strides.head;
  float scale = p.out_scale != nullptr ? *p.out_scale : 1.0f;
  if (p.v_scale != nullptr) scale *= p.v_scale[kv_head * p.v_scale_stride];
  result.factor = sum == 0.0f ? 0.0f : scale * keep / sum;
  return result;
}

__device__ __forceinline__ float4 addScaled(float4 v, const float* from, float weight) {
  const float4 add = *reinterpret_cast<const float4*>(from);
  return make_float4(v.x + add.x * weight, v.y + add.y * weight, v.z + add.z * weight,
                     v.w + add.w * weight);
}

// Four neighbours of head_dim, rounded once.
__device__ __forceinline__ void storeOutput4(const DecodeParams& p, int64_t offset, float4 v) {
  if (p.out_is_e4m3) {
    __nv_fp8x4_e4m3 codes(v);
    *reinterpret_cast<__nv_fp8x4_e4m3*>(static_cast<unsigned char*>(p.out) + offset) = codes;
    return;
  }
  uint2 pairs;
  if (p.query_is_bf16) {
    pairs = make_uint2(ptx::pack<true>(v.x, v.y), ptx::pack<true>(v.z, v.w));
  } else {
    pairs = make_uint2(ptx::pack<false>(v.x, v.y), ptx::pack<false>(v.z, v.w));
  }
  *reinterpret_cast<uint2*>(static_cast<uint16_t*>(p.out) + offset) = pairs;
}

__device__ __forceinline__ bool rowExists(const DecodeParams& p, const Cursor& c, int row) {
  return c.row_block * p.row_tile + row < c.request.tokens * p.group_size;
}

// A partial result of one KV head in the workspace: weighted sums [row_tile][head_dim], then maxima
// (log2) and denominators [row_tile] each. Slot 0 of a block: the segment that holds its first
// tile; slot 1: its last segment.
__device__ __forceinline__ float* partialSlot(const DecodeParams& p, int block, int slot,
                                              int member) {
  const int64_t index = ((int64_t(block) * 2 + slot) << p.head_shift) + member;
  return p.workspace + index * p.row_tile * (p.head_dim + 2);
}

__device__ __forceinline__ void dependencyWait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void launchDependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace xqa
