// SPDX-License-Identifier: Apache-2.0
// Splits the work evenly over the blocks from the lengths on the device.
//
// An item is (KV head, row block, request); it has one tile per tile_tokens visible KV tokens, at
// least one, so that a request without a visible key is still written. All tiles stand in one line:
// heads and row blocks outermost, requests inside, so that neighbouring blocks walk the same tokens
// in step. Ragged calls keep the row blocks inside the request, as their number differs. Block c of
// n owns tiles [c * total / n, (c+1) * total / n).
#pragma once

#include "kernels/common/params.h"

namespace xqa {

struct Request {
  int len;           // KV tokens, clamped to the cache's capacity
  int tokens;        // query tokens
  int64_t row0;      // first row in packed q, out, lse and mask (ragged), else request * q_tokens
  int first;         // first KV token that any row may see
  int first_tile;    // first / tile_tokens
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
  if (p.window > 0) {
    const int64_t start = int64_t(r.len) - r.tokens - p.window + 1;
    r.first = int(max(int64_t(0), min(start, int64_t(r.len))));
  }
  r.first_tile = r.first / p.tile_tokens;
  r.tiles = max(1, (r.len + p.tile_tokens - 1) / p.tile_tokens - r.first_tile);
  if (r.tokens <= 0) r.tiles = r.inner_blocks = 0;
  return r;
}

// A place in the line of tiles.
struct Cursor {
  Request request;
  int request_index;
  int outer;      // KV head, times row_blocks + row block unless ragged
  int row_inner;  // row block inside the request (ragged)
  int tile;       // 0 .. request.tiles - 1

  __device__ int kvHead(const DecodeParams& p) const {
    return p.q_offsets != nullptr ? outer : outer / p.row_blocks;
  }
  __device__ int rowBlock(const DecodeParams& p) const {
    return p.q_offsets != nullptr ? row_inner : outer % p.row_blocks;
  }

  // Moves to the next item; the caller knows that there is one.
  __device__ void nextItem(const DecodeParams& p) {
    tile = 0;
    if (++row_inner < request.inner_blocks) return;
    row_inner = 0;
    do {
      if (++request_index == p.batch) {
        request_index = 0;
        ++outer;
      }
      request = loadRequest(p, request_index);
    } while (request.tiles == 0);
  }
};

constexpr int kScheduleThreads = 128;

struct Schedule {
  int64_t prefix[kScheduleThreads + 1];  // tiles of one outer index before each chunk of requests

  __device__ static int chunk(const DecodeParams& p) {
    return (p.batch + kScheduleThreads - 1) / kScheduleThreads;
  }

  // All kScheduleThreads threads of the block.
  __device__ void build_sync(const DecodeParams& p) {
    const int thread = threadIdx.x;
    const int per_thread = chunk(p);
    const int begin = min(thread * per_thread, p.batch);
    const int end = min(begin + per_thread, p.batch);
    int64_t sum = 0;
    for (int i = begin; i < end; ++i) {
      const Request r = loadRequest(p, i);
      sum += int64_t(r.tiles) * r.inner_blocks;
    }
    if (thread == 0) prefix[0] = 0;
    prefix[thread + 1] = sum;
    __syncthreads();
    for (int step = 1; step < kScheduleThreads; step *= 2) {
      const int64_t add = thread + 1 > step ? prefix[thread + 1 - step] : 0;
      __syncthreads();
      prefix[thread + 1] += add;
      __syncthreads();
    }
  }

  __device__ int64_t perOuter() const { return prefix[kScheduleThreads]; }
  __device__ int64_t total(const DecodeParams& p) const {
    return perOuter() * p.num_kv_heads * (p.q_offsets != nullptr ? 1 : p.row_blocks);
  }

  // The place of a position below total(); also the tiles of the item before it (cursor.tile).
  __device__ Cursor locate(const DecodeParams& p, int64_t position) const {
    Cursor c;
    c.outer = int(position / perOuter());
    int64_t rest = position - c.outer * perOuter();
    int low = 0;
    int high = kScheduleThreads;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (prefix[middle] <= rest)
        low = middle;
      else
        high = middle;
    }
    rest -= prefix[low];
    c.request_index = low * chunk(p);
    c.request = loadRequest(p, c.request_index);
    while (rest >= int64_t(c.request.tiles) * c.request.inner_blocks) {
      rest -= int64_t(c.request.tiles) * c.request.inner_blocks;
      c.request = loadRequest(p, ++c.request_index);
    }
    c.row_inner = int(rest / c.request.tiles);
    c.tile = int(rest - int64_t(c.row_inner) * c.request.tiles);
    return c;
  }
};

// First tile of block c among n blocks.
__device__ __forceinline__ int64_t blockStart(int64_t total, int c, int n) { return total * c / n; }

}  // namespace xqa
