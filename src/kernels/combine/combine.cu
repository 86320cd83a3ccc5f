// SPDX-License-Identifier: Apache-2.0
// Merges the partial results of items that a block boundary cut, in block order.
#include "kernels/combine/combine.h"
#include "kernels/common/epilogue.cuh"

namespace xqa {
namespace {

constexpr int kMaxHeadDim = 256;

__device__ __forceinline__ float4 addScaled(float4 v, const float* from, float weight) {
  const float4 add = *reinterpret_cast<const float4*>(from);
  return make_float4(v.x + add.x * weight, v.y + add.y * weight, v.z + add.z * weight,
                     v.w + add.w * weight);
}

__device__ __forceinline__ void storeScaled(const DecodeParams& p, const OutputRow& o, int dim,
                                            float4 v) {
  storeOutput4(p, o.out + dim,
               make_float4(v.x * o.factor, v.y * o.factor, v.z * o.factor, v.w * o.factor));
}

// An item whose partial results are to be merged: parts 0 .. parts - 1 are those of blocks
// first_block and on.
struct Split {
  Cursor cursor;
  int first_block;
  int first_slot;
  int parts;  // below 2: nothing to merge
};

// The item that holds a position, with its parts.
__device__ Split splitAt(const DecodeParams& p, const Schedule& schedule, const EvenSplit& even,
                         int64_t position) {
  Split s;
  s.cursor = schedule.locate(p, position, p.tile_tokens);
  const int64_t start = position - s.cursor.tile;
  s.first_block = even.owner(start);
  s.first_slot = even.start(s.first_block) == start ? 0 : 1;
  s.parts = even.owner(start + s.cursor.request.tiles - 1) - s.first_block + 1;
  return s;
}

__device__ __forceinline__ const float* partAt(const DecodeParams& p, const Split& s, int part) {
  return partialSlot(p, s.first_block + part, part == 0 ? s.first_slot : 0);
}

// Few items, each perhaps with a part of every block: block (item, y) merges rows y, y + gridDim.y,
// ... and deals a row's parts to its warps, which are added in order. Only calls that are not
// ragged.
__global__ void __launch_bounds__(kCombineFewThreads)
    combineFew(const __grid_constant__ DecodeParams p) {
  constexpr int kWarps = kCombineFewThreads / 32;
  __shared__ Schedule schedule;
  __shared__ float weights[kMaxGrid];
  __shared__ float warp_max[kWarps];
  __shared__ float warp_sum[kWarps];
  alignas(16) __shared__ float sums[kWarps][kMaxHeadDim];
  schedule.build_sync(p, p.tile_tokens);
  const EvenSplit even(schedule.total(p), p.grid);
  const int outer = blockIdx.x / p.batch;
  const int request = blockIdx.x % p.batch;
  const Split split =
      splitAt(p, schedule, even, outer * schedule.perOuter() + schedule.prefix[request]);
  // Every block waits, also one without work: the next kernel relies on the decode kernel having
  // finished.
  dependencyWait();
  if (split.parts < 2) return;

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (int row = blockIdx.y; row < p.row_tile && rowExists(p, split.cursor, row);
       row += gridDim.y) {
    const int stats = p.row_tile * p.head_dim + row;
    float top = -CUDART_INF_F;
    for (int part = threadIdx.x; part < split.parts; part += kCombineFewThreads) {
      top = fmaxf(top, partAt(p, split, part)[stats]);
    }
    for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    __syncthreads();  // the row before has been read
    if (lane == 0) warp_max[warp] = top;
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, warp_max[w]);
    float sum = 0.0f;
    for (int part = threadIdx.x; part < split.parts; part += kCombineFewThreads) {
      const float* from = partAt(p, split, part) + stats;
      weights[part] = weightLog2(from[0], top);
      sum += from[p.row_tile] * weights[part];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) warp_sum[warp] = sum;
    __syncthreads();
    for (int dim = lane * 4; dim < p.head_dim; dim += 128) {
      float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
      for (int part = warp; part < split.parts; part += kWarps) {
        v = addScaled(v, partAt(p, split, part) + row * p.head_dim + dim, weights[part]);
      }
      *reinterpret_cast<float4*>(&sums[warp][dim]) = v;
    }
    __syncthreads();
    if (int(threadIdx.x) < p.head_dim / 4) {
      sum = 0.0f;
      for (int w = 0; w < kWarps; ++w) sum += warp_sum[w];
      const OutputRow o = finishRow(p, split.cursor, row, top, sum, threadIdx.x == 0);
      float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      for (int w = 0; w < kWarps; ++w) v = addScaled(v, &sums[w][threadIdx.x * 4], 1.0f);
      storeScaled(p, o, threadIdx.x * 4, v);
    }
  }
}

// Many items with few parts each: block j looks at block boundary j + 1 and merges the item that it
// cuts, if it is the item's first boundary. A warp a row.
__global__ void __launch_bounds__(kCombineManyThreads)
    combineMany(const __grid_constant__ DecodeParams p) {
  __shared__ Schedule schedule;
  schedule.build_sync(p, p.tile_tokens);
  const EvenSplit even(schedule.total(p), p.grid);
  const int boundary = blockIdx.x + 1;
  Split split = {};
  if (boundary < even.blocks) {
    split = splitAt(p, schedule, even, even.start(boundary));
  }
  dependencyWait();
  if (split.parts < 2 || split.first_block != boundary - 1) return;
  const int lane = threadIdx.x % 32;
  for (int row = threadIdx.x / 32; row < p.row_tile && rowExists(p, split.cursor, row);
       row += kCombineManyThreads / 32) {
    const int stats = p.row_tile * p.head_dim + row;
    float top = -CUDART_INF_F;
#pragma unroll 4
    for (int part = 0; part < split.parts; ++part) top = fmaxf(top, partAt(p, split, part)[stats]);
    float sum = 0.0f;
    float4 v[kMaxHeadDim / 128] = {};
#pragma unroll 4
    for (int part = 0; part < split.parts; ++part) {
      const float* from = partAt(p, split, part);
      const float weight = weightLog2(from[stats], top);
      sum += from[stats + p.row_tile] * weight;
#pragma unroll
      for (int i = 0; i < kMaxHeadDim / 128; ++i) {
        const int dim = i * 128 + lane * 4;
        if (dim < p.head_dim) v[i] = addScaled(v[i], from + row * p.head_dim + dim, weight);
      }
    }
    const OutputRow o = finishRow(p, split.cursor, row, top, sum, lane == 0);
#pragma unroll
    for (int i = 0; i < kMaxHeadDim / 128; ++i) {
      const int dim = i * 128 + lane * 4;
      if (dim < p.head_dim) storeScaled(p, o, dim, v[i]);
    }
  }
}

}  // namespace

KernelFunction combineFewKernel() { return &combineFew; }
KernelFunction combineManyKernel() { return &combineMany; }

}  // namespace xqa
