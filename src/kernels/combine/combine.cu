// SPDX-License-Identifier: Apache-2.0
// Merges the partial results of items that a block boundary cut, in block order.
#include "kernels/combine/combine.h"
#include "kernels/common/epilogue.cuh"

namespace xqa {
namespace {

constexpr int kMaxHeadDim = 256;

// An item whose partial results are to be merged: parts 0 .. parts - 1 are those of blocks
// first_block and on.
struct Split {
  Cursor cursor;
  int first_block;
  int first_slot;
  int parts;  // below 2: nothing to merge
};

// The item that holds a position, with its parts. All threads of the block.
__device__ Split splitAt_sync(const DecodeParams& p, const Schedule& schedule,
                              const EvenSplit& even, int64_t position) {
  Split s;
  s.cursor = schedule.locate_sync(p, position);
  const int64_t start = position - s.cursor.tile;
  s.first_block = even.owner(start);
  s.first_slot = even.start(s.first_block) == start ? 0 : 1;
  s.parts = even.owner(start + s.cursor.request.tiles - 1) - s.first_block + 1;
  return s;
}

__device__ __forceinline__ const float* partAt(const DecodeParams& p, const Split& s, int member,
                                               int part) {
  return partialSlot(p, s.first_block + part, part == 0 ? s.first_slot : 0, member);
}

// A row's parts merged so far, relative to top: this lane's four elements in every 128 of head_dim.
struct Merged {
  float top = -__builtin_huge_valf();
  float sum = 0.0f;
  float4 v[kMaxHeadDim / 128] = {};

  // Adds parts first, first + step, ... kBatch at a time: their loads are independent of each
  // other.
  __device__ __forceinline__ void add(const DecodeParams& p, const Split& s, int member, int row,
                                      int first, int step) {
    constexpr int kBatch = 4;
    const int lane = threadIdx.x % 32;
    const int stats = p.row_tile * p.head_dim + row;
    for (int part = first; part < s.parts; part += step * kBatch) {
      float part_top[kBatch];
      float part_sum[kBatch];
      float4 part_v[kBatch][kMaxHeadDim / 128];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        part_top[b] = -CUDART_INF_F;
        if (part + b * step >= s.parts) continue;
        const float* from = partAt(p, s, member, part + b * step);
        part_top[b] = from[stats];
        part_sum[b] = from[stats + p.row_tile];
#pragma unroll
        for (int d = 0; d < kMaxHeadDim / 128; ++d) {
          const int dim = d * 128 + lane * 4;
          if (dim < p.head_dim) {
            part_v[b][d] = *reinterpret_cast<const float4*>(from + row * p.head_dim + dim);
          }
        }
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (part + b * step < s.parts) addPart(part_top[b], part_sum[b], part_v[b]);
      }
    }
  }

  __device__ __forceinline__ void addPart(float other_top, float other_sum,
                                          const float4 (&other)[kMaxHeadDim / 128]) {
    const float new_top = fmaxf(top, other_top);
    const float keep = weightLog2(top, new_top);
    const float weight = weightLog2(other_top, new_top);
    top = new_top;
    sum = sum * keep + other_sum * weight;
#pragma unroll
    for (int d = 0; d < kMaxHeadDim / 128; ++d) {
      v[d] = make_float4(v[d].x * keep + other[d].x * weight, v[d].y * keep + other[d].y * weight,
                         v[d].z * keep + other[d].z * weight, v[d].w * keep + other[d].w * weight);
    }
  }

  __device__ __forceinline__ void write(const DecodeParams& p, const Split& s, int member,
                                        int row) const {
    const int lane = threadIdx.x % 32;
    const OutputRow o = finishRow(p, s.cursor, member, row, top, sum, lane == 0);
#pragma unroll
    for (int d = 0; d < kMaxHeadDim / 128; ++d) {
      const int dim = d * 128 + lane * 4;
      if (dim < p.head_dim) {
        storeOutput4(p, o.out + dim,
                     make_float4(v[d].x * o.factor, v[d].y * o.factor, v[d].z * o.factor,
                                 v[d].w * o.factor));
      }
    }
  }
};

// Few items, each perhaps with a part of every block: block (item, y) merges rows y, y + gridDim.y,
// ... of the group's heads and deals a row's parts to its warps, which are then added in order. Not
// for ragged calls.
__global__ void __launch_bounds__(kCombineFewThreads)
    combineFew(const __grid_constant__ DecodeParams p) {
  constexpr int kWarps = kCombineFewThreads / 32;
  __shared__ Schedule schedule;
  __shared__ float tops[kWarps];
  __shared__ float sums[kWarps];
  alignas(16) __shared__ float values[kWarps][kMaxHeadDim];
  schedule.build_sync(p);
  const EvenSplit even(schedule.total(p), p.grid);
  const int outer = blockIdx.x / p.batch;
  const int request = blockIdx.x - outer * p.batch;
  const Split split =
      splitAt_sync(p, schedule, even, outer * schedule.perOuter() + schedule.prefix[request]);
  // Every block waits, also one without work: the next kernel relies on the decode kernel having
  // finished.
  dependencyWait();
  if (split.parts < 2) return;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int used = min(kWarps, split.parts);
  for (int i = blockIdx.y; i < p.row_tile << p.head_shift; i += gridDim.y) {
    const int member = i / p.row_tile;
    const int row = i - member * p.row_tile;
    if (!rowExists(p, split.cursor, row)) continue;
    Merged merged;
    merged.add(p, split, member, row, warp, kWarps);
    __syncthreads();  // the row before has been read
    if (lane == 0) {
      tops[warp] = merged.top;
      sums[warp] = merged.sum;
    }
#pragma unroll
    for (int d = 0; d < kMaxHeadDim / 128; ++d) {
      *reinterpret_cast<float4*>(&values[warp][d * 128 + lane * 4]) = merged.v[d];
    }
    __syncthreads();
    if (warp > 0) continue;
    // One round over the warps' results: a lane each for the weights, then every lane for its
    // elements.
    const float own_top = lane < used ? tops[lane] : -CUDART_INF_F;
    float top = own_top;
    for (int step = kWarps / 2; step > 0; step /= 2) {
      top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    }
    const float weight = weightLog2(own_top, top);
    float sum = lane < used ? sums[lane] * weight : 0.0f;
    for (int step = kWarps / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    merged = Merged();
    merged.top = __shfl_sync(~0u, top, 0);
    merged.sum = __shfl_sync(~0u, sum, 0);
#pragma unroll 4
    for (int w = 0; w < used; ++w) {
      const float scale = __shfl_sync(~0u, weight, w);
#pragma unroll
      for (int d = 0; d < kMaxHeadDim / 128; ++d) {
        merged.v[d] = addScaled(merged.v[d], &values[w][d * 128 + lane * 4], scale);
      }
    }
    merged.write(p, split, member, row);
  }
}

// Many items with few parts each: block j looks at block boundary j + 1 and merges the item that it
// cuts, if it is the item's first boundary. A warp a row.
__global__ void __launch_bounds__(kCombineManyThreads)
    combineMany(const __grid_constant__ DecodeParams p) {
  __shared__ Schedule schedule;
  schedule.build_sync(p);
  const EvenSplit even(schedule.total(p), p.grid);
  const int boundary = blockIdx.x + 1;
  Split split = {};
  if (boundary < even.blocks) split = splitAt_sync(p, schedule, even, even.start(boundary));
  dependencyWait();
  if (split.parts < 2 || split.first_block != boundary - 1) return;
  for (int i = threadIdx.x / 32; i < p.row_tile << p.head_shift; i += kCombineManyThreads / 32) {
    const int member = i / p.row_tile;
    const int row = i - member * p.row_tile;
    if (!rowExists(p, split.cursor, row)) continue;
    Merged merged;
    merged.add(p, split, member, row, 0, 1);
    merged.write(p, split, member, row);
  }
}

}  // namespace

KernelFunction combineFewKernel() { return &combineFew; }
KernelFunction combineManyKernel() { return &combineMany; }

}  // namespace xqa
