// SPDX-License-Identifier: Apache-2.0
// Begin and end of a segment, the block's share of an item: query rows in, output or partial result
// out.
#pragma once

#include "kernels/mma_sync/tile_math.cuh"

namespace xqa::mma_sync {

// Q rows of the item's row block into the exchange buffer, in the contraction order of the cache's
// fragments.
template <typename C>
__device__ void loadQuery(const DecodeParams& p, const Cursor& c, unsigned char* to) {
  const uint16_t* q = static_cast<const uint16_t*>(p.q);
  constexpr int kChunks = C::kHeadDim / 8;
  const int rows = c.request.tokens * p.group_size;
  const int64_t base = p.q_offsets != nullptr ? c.request.row0 * p.q_strides.token
                                              : c.request_index * p.q_strides.batch;
#pragma unroll 1
  for (int i = threadIdx.x; i < (C::kRowTile * kChunks) << C::headShift(p); i += C::kThreads) {
    const int smem_row = i / kChunks;
    const int row = smem_row % C::kRowTile;
    const int kv_head = (c.head_group << C::headShift(p)) + smem_row / C::kRowTile;
    const int chunk = i % kChunks;
    const int global_row = c.row_block * C::kRowTile + row;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (global_row < rows) {
      const int token = global_row / p.group_size;
      const int head = kv_head * p.group_size + global_row % p.group_size;
      value = *reinterpret_cast<const uint4*>(q + base + token * p.q_strides.token +
                                              head * p.q_strides.head + chunk * 8);
    }
    if constexpr (C::kE4m3) {
      // Four neighbours of a lane are widened as one pair for k 2c and one for k 2c + 8.
      const int word = (chunk & 1) * 2;
      uint32_t* low =
          reinterpret_cast<uint32_t*>(to + swizzled<C::kHeadDim * 2>(smem_row, chunk & ~1));
      uint32_t* high =
          reinterpret_cast<uint32_t*>(to + swizzled<C::kHeadDim * 2>(smem_row, chunk | 1));
      low[word] = value.x;
      high[word] = value.y;
      low[word + 1] = value.z;
      high[word + 1] = value.w;
    } else {
      *reinterpret_cast<uint4*>(to + swizzled<C::kHeadDim * 2>(smem_row, chunk)) = value;
    }
  }
}

// One thread a row of a KV head of the group: turns the maxima of that head's teams into the
// weights of their sums and writes the row's statistics, to the partial result or as the LSE. Team
// t has KV head t % 2^head_shift.
template <typename C>
__device__ __forceinline__ void weighTeams(const DecodeParams& p, const Cursor& c, Smem<C>& smem,
                                           int member, int row, float* partial) {
  if (!rowExists(p, c, row)) return;
  const int members = 1 << C::headShift(p);
  float top = -CUDART_INF_F;
#pragma unroll
  for (int t = 0; t < C::kTeams; ++t) {
    if ((t & (members - 1)) == member) top = fmaxf(top, smem.max_log2[t][row]);
  }
  float total = 0.0f;
#pragma unroll
  for (int t = 0; t < C::kTeams; ++t) {
    if ((t & (members - 1)) == member)
      total += smem.sum[t][row] * weightLog2(smem.max_log2[t][row], top);
  }
  float factor = 1.0f;
  if (partial != nullptr) {
    partial += member * C::kRowTile * (C::kHeadDim + 2) + C::kRowTile * C::kHeadDim;
    partial[row] = top;
    partial[C::kRowTile + row] = total;
  } else {
    const OutputRow o = finishRow(p, c, member, row, top, total, true);
    smem.out_offset[member][row] = o.out;
    factor = o.factor;
  }
#pragma unroll
  for (int t = 0; t < C::kTeams; ++t) {
    if ((t & (members - 1)) != member) continue;
    smem.max_log2[t][row] = weightLog2(smem.max_log2[t][row], top) * factor;
  }
}

// Merges the teams' parts of a segment and writes the output (partial == NULL) or a partial result.
// Block-wide.
template <typename C>
__device__ void finishSegment_sync(const DecodeParams& p, const Cursor& c, Softmax<C>& state,
                                   Smem<C>& smem, float* partial) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int team = warp / C::kTeamWarps;
  const int first_row = warp % C::kTeamWarps * C::kWarpRows;
#pragma unroll
  for (int n = 0; n < C::kRowMmas; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float total = state.sum[n][j];
      total += __shfl_xor_sync(~0u, total, 4);
      total += __shfl_xor_sync(~0u, total, 8);
      total += __shfl_xor_sync(~0u, total, 16);
      if (lane < 4) {
        const int row = first_row + n * 8 + lane * 2 + j;
        smem.max_log2[team][row] = state.max_log2[n][j];
        smem.sum[team][row] = total;
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < (C::kRowTile << C::headShift(p)); i += C::kThreads) {
    weighTeams<C>(p, c, smem, i / C::kRowTile, i % C::kRowTile, partial);
  }
  const int members = 1 << C::headShift(p);
  float* merge = reinterpret_cast<float*>(smem.exchange);  // [kTeams][kRowTile][kChunk + 4]
  constexpr int kStride = C::kChunk + 4;
#pragma unroll
  for (int chunk = 0; chunk < C::kHeadDim; chunk += C::kChunk) {
    if (chunk > 0) __syncthreads();  // the chunk before has been read; Q was before the statistics
#pragma unroll
    for (int d = chunk / 16; d < (chunk + C::kChunk) / 16; ++d) {
#pragma unroll
      for (int n = 0; n < C::kRowMmas; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = first_row + n * 8 + lane % 4 * 2 + i % 2;
          const int dim = d * 16 + (C::kE4m3 ? lane / 4 * 2 + i / 2 : lane / 4 + i / 2 * 8) - chunk;
          merge[(team * C::kRowTile + row) * kStride + dim] = state.out[d][n][i];
        }
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < (C::kRowTile * C::kChunk / 4) << C::headShift(p);
         i += C::kThreads) {
      const int member = i / (C::kRowTile * C::kChunk / 4);
      const int row = i / (C::kChunk / 4) % C::kRowTile;
      const int dim = i % (C::kChunk / 4) * 4;
      if (!rowExists(p, c, row)) continue;
      float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
      for (int t = 0; t < C::kTeams; ++t) {
        if ((t & (members - 1)) != member) continue;
        v = addScaled(v, &merge[(t * C::kRowTile + row) * kStride + dim], smem.max_log2[t][row]);
      }
      if (partial != nullptr) {
        *reinterpret_cast<float4*>(partial + member * C::kRowTile * (C::kHeadDim + 2) +
                                   row * C::kHeadDim + chunk + dim) = v;
      } else {
        storeOutput4(p, smem.out_offset[member][row] + chunk + dim, v);
      }
    }
  }
}

}  // namespace xqa::mma_sync
