// SPDX-License-Identifier: Apache-2.0
// Splits the work evenly over the blocks from the lengths on the device.
//
// An item is (head group, row block, request); it has one tile per 2^tile_shift visible KV tokens,
// at least one, so that a request without a visible key is still written. All tiles stand in one
// line: heads and row blocks outermost, requests inside, so that neighbouring blocks walk the same
// tokens in step. Ragged calls keep the row blocks inside the request, as their number differs.
// Block c of n owns tiles [c * total / n, (c+1) * total / n).
#pragma once

#include "kernels/common/params.h"

namespace xqa {

struct Request {
  int len;           // KV tokens, clamped to the cache's capacity
  int tokens;        // query tokens
  int64_t row0;      // first row in packed q, out, lse and mask (ragged), else request * q_tokens
  int first;         // first KV token that any row may see
  int first_tile;    // first >> tile_shift
  int tiles;         // 0: the request has no query rows
  int inner_blocks;  // row blocks walked inside the request: 1 unless ragged
};

__device__ __forceinline__ Request loadRequest(const DecodeParams& p, int request) {
  Request r;
  r.tokens = p.q_tokens;
  r.row0 = int64_t(request) * p.q_tokens;
  r.inner_blocks = 1;
  if (p.q_offsets != nullptr) {
    const int begin = p.q_offsets[request];
    r.row0 = begin;
    r.tokens = min(p.q_offsets[request + 1] - begin, p.q_tokens);
    r.inner_blocks = (r.tokens * p.group_size + p.row_tile - 1) / p.row_tile;
  }
  r.len = int(max(int64_t(0), min(int64_t(p.seq_lens[request]), p.capacity_tokens)));
  r.first = 0;
  r.first_tile = 0;
  if (p.window > 0) {
    const int64_t start = int64_t(r.len) - r.tokens - p.window + 1;
    r.first = int(max(int64_t(0), min(start, int64_t(r.len))));
    r.first_tile = r.first >> p.tile_shift;
  }
  r.tiles = max(1, int((int64_t(r.len) + (1 << p.tile_shift) - 1) >> p.tile_shift) - r.first_tile);
  if (r.tokens <= 0) r.tiles = r.inner_blocks = 0;
  return r;
}

// A place in the line of tiles.
struct Cursor {
  Request request;
  int request_index;
  int head_group;  // index: KV heads head_group << p.head_shift and on
  int row_block;
  int tile;  // 0 .. request.tiles - 1

  // Moves to the next item; the caller knows that there is one.
  __device__ __forceinline__ void nextItem(const DecodeParams& p) {
    tile = 0;
    const bool ragged = p.q_offsets != nullptr;
    if (ragged && ++row_block < request.inner_blocks) return;
    do {
      if (ragged) row_block = 0;
      if (++request_index == p.batch) {
        request_index = 0;
        if (ragged || ++row_block == p.row_blocks) {
          row_block = 0;
          ++head_group;
        }
      }
      request = loadRequest(p, request_index);
    } while (request.tiles == 0);
  }
};

// Non-negative division that is cheap for the usual sizes.
__device__ __forceinline__ int64_t divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

// The line of tiles in equal contiguous shares; the first `longer` blocks have one tile more.
struct EvenSplit {
  int blocks;  // blocks that have a share: no more than there are tiles
  int64_t share;
  int64_t longer;

  __device__ EvenSplit(int64_t total, int grid) {
    blocks = int(min(int64_t(grid), total));
    share = blocks > 0 ? divide(total, blocks) : 0;
    longer = total - share * blocks;
  }
  __device__ int64_t start(int block) const { return block * share + min(int64_t(block), longer); }
  __device__ int owner(int64_t tile) const {
    const int64_t in_longer = longer * (share + 1);
    return int(tile < in_longer ? divide(tile, share + 1)
                                : longer + divide(tile - in_longer, share));
  }
};

constexpr int kScheduleThreads = 128;

struct Schedule {
  int64_t prefix[kScheduleThreads + 1];  // tiles of one outer index before each chunk of requests

  __device__ static int chunk(const DecodeParams& p) {
    return (p.batch + kScheduleThreads - 1) / kScheduleThreads;
  }

  // All threads of the block, at least kScheduleThreads.
  __device__ void build_sync(const DecodeParams& p) {
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    int64_t sum = 0;
    if (thread < kScheduleThreads) {
      const int per_thread = chunk(p);
      const int begin = min(thread * per_thread, p.batch);
      const int end = min(begin + per_thread, p.batch);
#pragma unroll 1
      for (int i = begin; i < end; ++i) {
        const Request r = loadRequest(p, i);
        sum += int64_t(r.tiles) * r.inner_blocks;
      }
      for (int step = 1; step < 32; step *= 2) {
        const int64_t below = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += below;
      }
      prefix[thread + 1] = sum;
      if (thread == 0) prefix[0] = 0;
    }
    __syncthreads();
    int64_t before = 0;
    for (int w = 1; w <= thread / 32 && thread < kScheduleThreads; ++w) before += prefix[w * 32];
    __syncthreads();
    if (thread < kScheduleThreads) prefix[thread + 1] = sum + before;
    __syncthreads();
  }

  __device__ int64_t perOuter() const { return prefix[kScheduleThreads]; }
  __device__ int64_t total(const DecodeParams& p) const {
    return perOuter() * (p.num_kv_heads >> p.head_shift) *
           (p.q_offsets != nullptr ? 1 : p.row_blocks);
  }

  // The place of a position below total(). All threads of the block.
  __device__ Cursor locate_sync(const DecodeParams& p, int64_t position) const {
    const bool ragged = p.q_offsets != nullptr;
    Cursor c;
    const int outer = int(divide(position, perOuter()));
    c.head_group = ragged || p.row_blocks == 1 ? outer : outer / p.row_blocks;
    c.row_block = ragged ? 0 : outer - c.head_group * p.row_blocks;
    int64_t rest = position - outer * perOuter();
    const int thread = threadIdx.x;
    const int found = __syncthreads_count(thread < kScheduleThreads && prefix[thread] <= rest) - 1;
    rest -= prefix[found];
    c.request_index = found * chunk(p);
    c.request = loadRequest(p, c.request_index);
    while (rest >= int64_t(c.request.tiles) * c.request.inner_blocks) {
      rest -= int64_t(c.request.tiles) * c.request.inner_blocks;
      c.request = loadRequest(p, ++c.request_index);
    }
    c.tile = int(rest);
    if (ragged) {
      c.row_block = int(rest) / c.request.tiles;
      c.tile -= c.row_block * c.request.tiles;
    }
    return c;
  }
};

}  // namespace xqa
