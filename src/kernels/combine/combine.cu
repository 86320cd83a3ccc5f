// SPDX-License-Identifier: Apache-2.0
// Merges the partial results of items that a block boundary cut, in block order.
#include "kernels/combine/combine.h"
#include "kernels/common/epilogue.cuh"

namespace xqa {
namespace {

constexpr int kWarps = kScheduleThreads / 32;
constexpr int kMaxDimsPerLane = 8;

// Block (j, y): the item that boundary j + 1 cuts, if it is the item's first boundary; rows y, y +
// gridDim.y, ... A row's parts are shared by the warps, then merged in warp order.
__global__ void __launch_bounds__(kScheduleThreads)
    combine(const __grid_constant__ DecodeParams p) {
  __shared__ Schedule schedule;
  __shared__ float stats[kWarps][2];
  __shared__ float sums[kWarps][32 * kMaxDimsPerLane];
  schedule.build_sync(p);
  // Every block waits, also one without work: the next kernel relies on the decode kernel having
  // finished.
  dependencyWait();
  const int64_t total = schedule.total(p);
  const int blocks = int(min(int64_t(p.grid), total));
  const int boundary = blockIdx.x + 1;
  if (boundary >= blocks) return;
  const int64_t position = blockStart(total, boundary, blocks);
  const Cursor cursor = schedule.locate(p, position);
  const int64_t start = position - cursor.tile;
  const int64_t before = blockStart(total, boundary - 1, blocks);
  if (cursor.tile == 0 || before > start) return;
  int last = boundary;
  while (blockStart(total, last + 1, blocks) < start + cursor.request.tiles) ++last;

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int dims = p.head_dim / 32;
  for (int row = blockIdx.y; row < p.row_tile && rowExists(p, cursor, row); row += gridDim.y) {
    float top = -CUDART_INF_F;
    float sum = 0.0f;
    float value[kMaxDimsPerLane] = {};
    for (int block = boundary - 1 + warp; block <= last; block += kWarps) {
      const float* part = partialSlot(p, block, block == boundary - 1 && before != start ? 1 : 0);
      const float part_max = part[p.row_tile * p.head_dim + row];
      const float part_sum = part[p.row_tile * (p.head_dim + 1) + row];
      const float new_top = fmaxf(top, part_max);
      const float keep = weightLog2(top, new_top);
      const float add = weightLog2(part_max, new_top);
      sum = sum * keep + part_sum * add;
#pragma unroll
      for (int i = 0; i < kMaxDimsPerLane; ++i) {
        if (i < dims) value[i] = value[i] * keep + part[row * p.head_dim + i * 32 + lane] * add;
      }
      top = new_top;
    }
    __syncthreads();
    if (lane == 0) {
      stats[warp][0] = top;
      stats[warp][1] = sum;
    }
#pragma unroll
    for (int i = 0; i < kMaxDimsPerLane; ++i) {
      if (i < dims) sums[warp][i * 32 + lane] = value[i];
    }
    __syncthreads();
    top = -CUDART_INF_F;
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, stats[w][0]);
    sum = 0.0f;
    for (int w = 0; w < kWarps; ++w) sum += stats[w][1] * weightLog2(stats[w][0], top);
    const OutputRow o = finishRow(p, cursor, row, top, sum, threadIdx.x == 0);
    for (int dim = threadIdx.x; dim < p.head_dim; dim += kScheduleThreads) {
      float merged = 0.0f;
      for (int w = 0; w < kWarps; ++w) merged += sums[w][dim] * weightLog2(stats[w][0], top);
      storeElement(p, o.out + dim, sum == 0.0f ? 0.0f : merged * o.factor);
    }
  }
}

}  // namespace

KernelFunction combineKernel() { return &combine; }

}  // namespace xqa
