// SPDX-License-Identifier: Apache-2.0
// Portable decode attention: cp.async and mma.sync, SM 8.0 and up.
//
// A block is 4 warps in teams. A team has one warp, or as many as it takes to keep the rows'
// accumulators in registers (head_dim * rows / 4096); it takes its own tile_tokens KV tokens of
// every block-wide tile and loads them through its own ring of slots, so the main loop has no
// block-wide barrier. Tokens are the M of the MMA and query rows its N: S^T = K Q^T, O^T += V^T
// P^T; both have the same rows in a lane.
//
//   team, step s:    wait slot s | team sync | load step s + kSlots - 1 | S (even s) or O (odd s)
//   from slot s item end, block: statistics | sync | weighted sums to smem, in chunks of head_dim |
//   sync | output or partial
//
// Shared memory: rings [kTeams][kSlots][kTokens][kHeadDim], 16-byte chunks swizzled; exchange: Q
// [kRowTile] [kHeadDim], later the merge buffer [kTeams][kRowTile][kChunk + 4] f32; statistics;
// schedule. Numerics: f32 sums; weights are relative to a running maximum that may lag by 2^8, so
// rescaling is rare.
#pragma once

#include "core/kernels.h"
#include "device/ptx.cuh"
#include "kernels/common/epilogue.cuh"
#include "kernels/common/schedule.cuh"

namespace xqa::mma_sync {

struct F16 {
  static constexpr int kBytes = 2;
  static constexpr bool kBf16 = false;
};
struct BF16 {
  static constexpr int kBytes = 2;
  static constexpr bool kBf16 = true;
};
struct E4M3 {
  static constexpr int kBytes = 1;
};

constexpr int imax(int a, int b) { return a > b ? a : b; }
constexpr int imin(int a, int b) { return a < b ? a : b; }

template <int kHeadDimT, int kRowTileT, typename Query, typename Cache>
struct Config {
  static constexpr int kHeadDim = kHeadDimT;
  static constexpr int kRowTile = kRowTileT;
  static constexpr bool kBf16 = Query::kBf16;
  static constexpr bool kE4m3 = Cache::kBytes == 1;
  static constexpr int kThreads = kScheduleThreads;
  static constexpr int kTeamWarps = imax(1, kRowTile* kHeadDim / 4096);
  static constexpr int kTeams = 4 / kTeamWarps;
  static constexpr int kWarpRows = kRowTile / kTeamWarps;
  static constexpr int kRowBytes = kHeadDim * Cache::kBytes;
  static constexpr int kTokens = kRowBytes <= 128 ? 32 : 16;
  static constexpr int kSlotBytes = kTokens * kRowBytes;
  static constexpr int kChunk =
      imin(kHeadDim, imax(16, 1024 / kRowTile));  // of head_dim, in the merge
  static constexpr int kQueryBytes = kRowTile * kHeadDim * 2;
  static constexpr int kMergeBytes = kTeams * kRowTile * (kChunk + 4) * 4;
  static constexpr int kExchangeBytes = imax(kQueryBytes, kMergeBytes);
  static constexpr int kStatsBytes = kTeams * kRowTile * 2 * 4;
  static constexpr int kFixedBytes = kExchangeBytes + kStatsBytes + int(sizeof(Schedule));
  // 99 KB is what a block gets on SM 8.6, 8.9 and 12.0; two such blocks fit an SM of 8.0, 9.0
  // and 10.0.
  static constexpr int kSlots = imin(8, (99 * 1024 - kFixedBytes) / (kTeams * kSlotBytes));
  static constexpr int kSmemBytes = kFixedBytes + kTeams * kSlots * kSlotBytes;
  static_assert(kSlots >= 2, "no room for a ring");
};

template <typename C>
struct Smem {
  alignas(128) unsigned char ring[C::kTeams][C::kSlots][C::kSlotBytes];
  alignas(128) unsigned char exchange[C::kExchangeBytes];
  float max_log2[C::kTeams][C::kRowTile];
  float sum[C::kTeams][C::kRowTile];
  Schedule schedule;
};

// Byte offset of a 16-byte chunk in rows of kRowBytes: eight rows at one chunk hit distinct banks.
template <int kRowBytes>
__device__ __forceinline__ uint32_t swizzled(int row, int chunk) {
  const int turn = kRowBytes >= 128 ? row & 7 : (row >> 1) & 3;
  return static_cast<uint32_t>(row * kRowBytes + ((chunk ^ turn) << 4));
}

template <int kTeamWarps>
__device__ __forceinline__ void team_sync(int team) {
  if constexpr (kTeamWarps == 1) {
    __syncwarp();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kTeamWarps * 32) : "memory");
  }
}

// Walks the block's tiles ahead of the math and fills a team's ring: K and V slots alternate.
template <typename C>
struct Loader {
  const DecodeParams& p;
  Cursor cursor;
  int64_t tiles_left;
  uint64_t policy;
  uint32_t ring;  // shared address of the team's first slot
  int team, warp, lane;
  int page;     // page id of this lane's token, -1: no row sees the token
  int in_page;  // token's index in its page
  int slot = 0;
  bool is_v = false;

  __device__ Loader(const DecodeParams& params, const Cursor& start, int64_t tiles,
                    uint32_t ring_address, int team_index, int warp_in_team)
      : p(params),
        cursor(start),
        tiles_left(tiles),
        policy(ptx::evictFirstPolicy()),
        ring(ring_address),
        team(team_index),
        warp(warp_in_team),
        lane(threadIdx.x % 32) {
    if (tiles_left > 0) findPages();
  }

  // A draft token hidden by the mask from every row is as good as absent.
  __device__ bool seenByDraft(int token) const {
    const int draft = token - (cursor.request.len - cursor.request.tokens);
    if (p.mask == nullptr || draft < 0) return true;
    for (int i = 0; i < cursor.request.tokens; ++i) {
      if (cursor.request.len - cursor.request.tokens + i < 0) continue;
      if (p.mask[(cursor.request.row0 + i) * p.mask_words + draft / 32] >> (draft % 32) & 1)
        return true;
    }
    return false;
  }

  __device__ void findPages() {
    page = -1;
    in_page = 0;
    const int token =
        (cursor.request.first_tile + cursor.tile) * p.tile_tokens + team * C::kTokens + lane;
    if (lane < C::kTokens && token >= cursor.request.first && token < cursor.request.len &&
        seenByDraft(token)) {
      const int index = token / p.page_tokens;
      in_page = token - index * p.page_tokens;
      page = p.page_table != nullptr
                 ? p.page_table[int64_t(cursor.request_index) * p.page_table_stride + index]
                 : cursor.request_index;
    }
  }

  // Issues the next slot's copies and closes a copy group, an empty one past the end.
  __device__ void issue() {
    if (tiles_left > 0) {
      const xqaCacheStrides_t& strides = is_v ? p.v_strides : p.k_strides;
      const unsigned char* cache = static_cast<const unsigned char*>(is_v ? p.v_cache : p.k_cache);
      constexpr int kChunks = C::kRowBytes / 16;
      constexpr int kTokensPerWarp = 32 / kChunks > 0 ? 32 / kChunks : 1;
      constexpr int kBytes = C::kE4m3 ? 1 : 2;
      const int chunk = lane % kChunks;
      const int64_t head = cursor.kvHead(p) * strides.head;
#pragma unroll
      for (int first = 0; first < C::kTokens; first += kTokensPerWarp * C::kTeamWarps) {
        const int token = first + warp * kTokensPerWarp + lane / kChunks;
        const int id = __shfl_sync(~0u, page, token);
        const int offset_in_page = __shfl_sync(~0u, in_page, token);
        const int64_t offset =
            id < 0 ? 0 : id * strides.page + offset_in_page * strides.token + head;
        ptx::copyAsync16(ring + slot * C::kSlotBytes + swizzled<C::kRowBytes>(token, chunk),
                         cache + offset * kBytes + chunk * 16, id < 0 ? 0 : 16, policy);
      }
      if (is_v && --tiles_left > 0) {
        if (++cursor.tile == cursor.request.tiles) cursor.nextItem(p);
        findPages();
      }
      is_v = !is_v;
    }
    slot = slot + 1 == C::kSlots ? 0 : slot + 1;
    ptx::copyAsyncCommit();
  }
};

// Scores of a tile and the running softmax state of a warp's rows.
template <typename C>
struct Softmax {
  static constexpr int kRowMmas = C::kWarpRows / 8;
  static constexpr int kTokenMmas = C::kTokens / 16;
  static constexpr int kDimMmas = C::kHeadDim / 16;
  float max_log2[kRowMmas][2];
  float sum[kRowMmas][2];  // of this lane's tokens
  float out[kDimMmas][kRowMmas][4];

  __device__ void reset() {
#pragma unroll
    for (int n = 0; n < kRowMmas; ++n) {
      max_log2[n][0] = max_log2[n][1] = -CUDART_INF_F;
      sum[n][0] = sum[n][1] = 0.0f;
#pragma unroll
      for (int d = 0; d < kDimMmas; ++d) {
        out[d][n][0] = out[d][n][1] = out[d][n][2] = out[d][n][3] = 0.0f;
      }
    }
  }
};

// Q rows of the item's row block into the exchange buffer, in the contraction order of the cache's
// fragments.
template <typename C>
__device__ void loadQuery(const DecodeParams& p, const Cursor& c, unsigned char* to) {
  const uint16_t* q = static_cast<const uint16_t*>(p.q);
  constexpr int kChunks = C::kHeadDim / 8;
  const int rows = c.request.tokens * p.group_size;
  const int64_t base = p.q_offsets != nullptr ? c.request.row0 * p.q_strides.token
                                              : c.request_index * p.q_strides.batch;
  for (int i = threadIdx.x; i < C::kRowTile * kChunks; i += C::kThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const int global_row = c.rowBlock(p) * C::kRowTile + row;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (global_row < rows) {
      const int token = global_row / p.group_size;
      const int head = c.kvHead(p) * p.group_size + global_row % p.group_size;
      value = *reinterpret_cast<const uint4*>(q + base + token * p.q_strides.token +
                                              head * p.q_strides.head + chunk * 8);
    }
    if constexpr (C::kE4m3) {
      // Four neighbours of a lane are widened as one pair for k 2c and one for k 2c + 8.
      const int word = (chunk & 1) * 2;
      uint32_t* low = reinterpret_cast<uint32_t*>(to + swizzled<C::kHeadDim * 2>(row, chunk & ~1));
      uint32_t* high = reinterpret_cast<uint32_t*>(to + swizzled<C::kHeadDim * 2>(row, chunk | 1));
      low[word] = value.x;
      high[word] = value.y;
      low[word + 1] = value.z;
      high[word + 1] = value.w;
    } else {
      *reinterpret_cast<uint4*>(to + swizzled<C::kHeadDim * 2>(row, chunk)) = value;
    }
  }
}

// S^T [kTokens][kWarpRows] = K Q^T, raw.
template <typename C>
__device__ __forceinline__ void scores(float (&s)[C::kTokens / 16][C::kWarpRows / 8][4],
                                       uint32_t slot, uint32_t query, int first_row) {
  const int lane = threadIdx.x % 32;
  constexpr int kRowMmas = C::kWarpRows / 8;
  constexpr int kTokenMmas = C::kTokens / 16;
#pragma unroll
  for (int m = 0; m < kTokenMmas; ++m) {
#pragma unroll
    for (int n = 0; n < kRowMmas; ++n) s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0.0f;
  }
#pragma unroll
  for (int k = 0; k < C::kHeadDim / 32; ++k) {  // 32 of head_dim: two MMA steps
    uint32_t a[kTokenMmas][2][4];
#pragma unroll
    for (int m = 0; m < kTokenMmas; ++m) {
      const int token = m * 16 + lane % 16;
      if constexpr (C::kE4m3) {
        uint32_t r[4];
        ptx::loadMatrix4(r, slot + swizzled<C::kRowBytes>(token, k * 2 + lane / 16));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          a[m][i / 2][i % 2] = ptx::widenE4m3<C::kBf16>(r[i]);
          a[m][i / 2][i % 2 + 2] = ptx::widenE4m3<C::kBf16>(r[i] >> 16);
        }
      } else {
        ptx::loadMatrix4(a[m][0], slot + swizzled<C::kRowBytes>(token, k * 4 + lane / 16));
        ptx::loadMatrix4(a[m][1], slot + swizzled<C::kRowBytes>(token, k * 4 + 2 + lane / 16));
      }
    }
#pragma unroll
    for (int n = 0; n < kRowMmas; ++n) {
      uint32_t b[4];
      ptx::loadMatrix4(
          b, query + swizzled<C::kHeadDim * 2>(first_row + n * 8 + lane % 8, k * 4 + lane / 8));
#pragma unroll
      for (int m = 0; m < kTokenMmas; ++m) {
        ptx::mma<C::kBf16>(s[m][n], a[m][0], b[0], b[1]);
        ptx::mma<C::kBf16>(s[m][n], a[m][1], b[2], b[3]);
      }
    }
  }
}

__device__ __forceinline__ bool visible(const DecodeParams& p, const Request& r, int query_token,
                                        int token) {
  const int position = r.len - r.tokens + query_token;
  if (token >= r.len || position < 0) return false;
  if (p.window > 0 && token <= position - p.window) return false;
  const int draft = token - (r.len - r.tokens);
  if (draft < 0) return true;
  if (p.mask == nullptr) return draft <= query_token;
  return p.mask[(r.row0 + query_token) * p.mask_words + draft / 32] >> (draft % 32) & 1;
}

// Every row sees every token of the tile.
template <typename C>
__device__ __forceinline__ bool isInterior(const DecodeParams& p, const Request& r,
                                           int first_token) {
  return first_token >= r.first + (p.window > 0 ? r.tokens : 0) &&
         first_token + C::kTokens <= r.len - r.tokens;
}

// Raw scores to log2 logits; what a row does not see becomes -inf.
template <typename C>
__device__ __forceinline__ void scaleAndMask(const DecodeParams& p, const Cursor& c, float scale,
                                             float (&s)[C::kTokens / 16][C::kWarpRows / 8][4],
                                             int first_token, int first_row) {
  const int lane = threadIdx.x % 32;
  const Request& r = c.request;
  const bool interior = isInterior<C>(p, r, first_token);
#pragma unroll
  for (int n = 0; n < C::kWarpRows / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = c.rowBlock(p) * C::kRowTile + first_row + n * 8 + lane % 4 * 2 + i % 2;
      const int query_token = interior || r.tokens == 1 ? 0 : row / p.group_size;
#pragma unroll
      for (int m = 0; m < C::kTokens / 16; ++m) {
        float x = s[m][n][i] * scale;
        if (p.softcap > 0.0f) {
          const float e = exp2f(x * (2.0f * kLog2E / p.softcap));
          x = p.softcap * (1.0f - 2.0f / (e + 1.0f));
        }
        x *= kLog2E;
        if (!interior && !visible(p, r, query_token, first_token + m * 16 + lane / 4 + i / 2 * 8)) {
          x = -CUDART_INF_F;
        }
        s[m][n][i] = x;
      }
    }
  }
}

// Raises the running maxima where a logit is more than 8 (2^8) above, then turns logits into P^T
// fragments.
template <typename C>
__device__ __forceinline__ void weights(Softmax<C>& state,
                                        float (&s)[C::kTokens / 16][C::kWarpRows / 8][4],
                                        uint32_t (&prob)[C::kTokens / 16][C::kWarpRows / 8][2]) {
  constexpr int kRowMmas = C::kWarpRows / 8;
  constexpr int kTokenMmas = C::kTokens / 16;
  float top[kRowMmas][2];
  bool rose = false;
#pragma unroll
  for (int n = 0; n < kRowMmas; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      top[n][j] = -CUDART_INF_F;
#pragma unroll
      for (int m = 0; m < kTokenMmas; ++m) {
        top[n][j] = fmaxf(top[n][j], fmaxf(s[m][n][j], s[m][n][j + 2]));
      }
      rose |= top[n][j] > state.max_log2[n][j] + 8.0f;
    }
  }
  if (__any_sync(~0u, rose)) {
#pragma unroll
    for (int n = 0; n < kRowMmas; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float t = top[n][j];
        t = fmaxf(t, __shfl_xor_sync(~0u, t, 4));
        t = fmaxf(t, __shfl_xor_sync(~0u, t, 8));
        t = fmaxf(t, __shfl_xor_sync(~0u, t, 16));
        t = fmaxf(t, state.max_log2[n][j]);
        const float factor = weightLog2(state.max_log2[n][j], t);
        state.max_log2[n][j] = t;
        state.sum[n][j] *= factor;
#pragma unroll
        for (int d = 0; d < C::kHeadDim / 16; ++d) {
          state.out[d][n][j] *= factor;
          state.out[d][n][j + 2] *= factor;
        }
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kRowMmas; ++n) {
    const float max0 = state.max_log2[n][0] == -CUDART_INF_F ? 0.0f : state.max_log2[n][0];
    const float max1 = state.max_log2[n][1] == -CUDART_INF_F ? 0.0f : state.max_log2[n][1];
#pragma unroll
    for (int m = 0; m < kTokenMmas; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float w0 = exp2f(s[m][n][half * 2] - max0);
        const float w1 = exp2f(s[m][n][half * 2 + 1] - max1);
        state.sum[n][0] += w0;
        state.sum[n][1] += w1;
        prob[m][n][half] = ptx::transposeMatrix(ptx::pack<C::kBf16>(w0, w1));
      }
    }
  }
}

// O^T [kHeadDim][kWarpRows] += V^T P^T. For e4m3, accumulator half h of lane l is head_dim 16 d + 2
// (l / 4) + h, else 16 d + l / 4 + 8 h.
template <typename C>
__device__ __forceinline__ void accumulate(
    Softmax<C>& state, uint32_t slot,
    const uint32_t (&prob)[C::kTokens / 16][C::kWarpRows / 8][2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < C::kTokens / 16; ++m) {
#pragma unroll
    for (int d = 0; d < C::kHeadDim / 16; d += 2) {
      uint32_t a[2][4];
      if constexpr (C::kE4m3) {
        uint32_t r[4];
        ptx::loadMatrix4Transposed(
            r, slot + swizzled<C::kRowBytes>(m * 16 + lane % 16, d + lane / 16));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint32_t pairs = __byte_perm(r[i], 0, 0x3120);
          a[i / 2][i % 2 * 2] = ptx::widenE4m3<C::kBf16>(pairs);
          a[i / 2][i % 2 * 2 + 1] = ptx::widenE4m3<C::kBf16>(pairs >> 16);
        }
      } else {
        const int token = m * 16 + lane % 8 + lane / 16 * 8;
        ptx::loadMatrix4Transposed(a[0],
                                   slot + swizzled<C::kRowBytes>(token, d * 2 + lane / 8 % 2));
        ptx::loadMatrix4Transposed(a[1],
                                   slot + swizzled<C::kRowBytes>(token, d * 2 + 2 + lane / 8 % 2));
      }
#pragma unroll
      for (int n = 0; n < C::kWarpRows / 8; ++n) {
        ptx::mma<C::kBf16>(state.out[d][n], a[0], prob[m][n][0], prob[m][n][1]);
        ptx::mma<C::kBf16>(state.out[d + 1][n], a[1], prob[m][n][0], prob[m][n][1]);
      }
    }
  }
}

// True in the whole warp if the V slot holds an infinity or a NaN.
template <typename C>
__device__ __forceinline__ bool holdsNonFinite(uint32_t slot) {
  constexpr uint32_t kExponent = C::kE4m3 ? 0x7F : C::kBf16 ? 0x7F80 : 0x7C00;
  bool found = false;
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < C::kSlotBytes / 4; i += 32) {
    const uint32_t word = ptx::loadShared32(slot + i * 4);
#pragma unroll
    for (int shift = 0; shift < 32; shift += C::kE4m3 ? 8 : 16) {
      found |= (word >> shift & kExponent) == kExponent;
    }
  }
  return __any_sync(~0u, found);
}

// accumulate() for a tile whose rows see different tokens while V is not finite: the MMA would
// carry 0 * NaN into rows that do not see the token, so add what each row sees, element by element.
// Rare.
template <typename C>
__device__ __forceinline__ void accumulateVisible(
    const DecodeParams& p, const Cursor& c, Softmax<C>& state, uint32_t slot,
    const uint32_t (&prob)[C::kTokens / 16][C::kWarpRows / 8][2], int first_token, int first_row) {
  const int lane = threadIdx.x % 32;
  constexpr int kBytes = C::kE4m3 ? 1 : 2;
#pragma unroll 1
  for (int t = 0; t < C::kTokens; ++t) {
#pragma unroll
    for (int n = 0; n < C::kWarpRows / 8; ++n) {
      uint32_t fragment = 0;
#pragma unroll
      for (int part = 0; part < C::kTokens / 8; ++part) {
        if (t / 8 == part) fragment = prob[part / 2][n][part % 2];
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row_in_mma = lane % 4 * 2 + j;
        const uint32_t pair = __shfl_sync(~0u, fragment, row_in_mma * 4 + t % 8 / 2);
        const float weight = ptx::unpack<C::kBf16>(t % 2 == 0 ? pair : pair >> 16);
        const int row = c.rowBlock(p) * C::kRowTile + first_row + n * 8 + row_in_mma;
        if (!visible(p, c.request, row / p.group_size, first_token + t)) continue;
#pragma unroll
        for (int d = 0; d < C::kHeadDim / 16; ++d) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int dim = d * 16 + (C::kE4m3 ? lane / 4 * 2 + half : lane / 4 + half * 8);
            const uint32_t address =
                slot + swizzled<C::kRowBytes>(t, dim * kBytes / 16) + dim * kBytes % 16;
            const uint32_t word = ptx::loadShared32(address & ~3u) >> (address % 4 * 8);
            const float value =
                ptx::unpack<C::kBf16>(C::kE4m3 ? ptx::widenE4m3<C::kBf16>(word & 0xFF) : word);
            state.out[d][n][half * 2 + j] += weight * value;
          }
        }
      }
    }
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
  for (int n = 0; n < C::kWarpRows / 8; ++n) {
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
  float* merge = reinterpret_cast<float*>(smem.exchange);  // [kTeams][kRowTile][kChunk + 4]
  constexpr int kStride = C::kChunk + 4;
#pragma unroll
  for (int chunk = 0; chunk < C::kHeadDim; chunk += C::kChunk) {
    __syncthreads();  // the last reader of Q or of the chunk before is done
#pragma unroll
    for (int d = chunk / 16; d < (chunk + C::kChunk) / 16; ++d) {
#pragma unroll
      for (int n = 0; n < C::kWarpRows / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = first_row + n * 8 + lane % 4 * 2 + i % 2;
          const int dim = d * 16 + (C::kE4m3 ? lane / 4 * 2 + i / 2 : lane / 4 + i / 2 * 8) - chunk;
          merge[(team * C::kRowTile + row) * kStride + dim] = state.out[d][n][i];
        }
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < C::kRowTile * C::kChunk; i += C::kThreads) {
      const int row = i / C::kChunk;
      const int dim = i % C::kChunk;
      if (!rowExists(p, c, row)) continue;
      float top = -CUDART_INF_F;
#pragma unroll
      for (int t = 0; t < C::kTeams; ++t) top = fmaxf(top, smem.max_log2[t][row]);
      float total = 0.0f;
      float value = 0.0f;
#pragma unroll
      for (int t = 0; t < C::kTeams; ++t) {
        // A team without a visible key may still hold NaN from +-inf arithmetic of no row: weigh it
        // by zero only.
        const float w = weightLog2(smem.max_log2[t][row], top);
        total += w == 0.0f && smem.sum[t][row] == 0.0f ? 0.0f : smem.sum[t][row] * w;
        value += merge[(t * C::kRowTile + row) * kStride + dim] * w;
      }
      const bool first = chunk == 0 && dim == 0;
      if (partial != nullptr) {
        partial[row * C::kHeadDim + chunk + dim] = value;
        if (first) {
          partial[C::kRowTile * C::kHeadDim + row] = top;
          partial[C::kRowTile * (C::kHeadDim + 1) + row] = total;
        }
      } else {
        const OutputRow o = finishRow(p, c, row, top, total, first);
        storeElement(p, o.out + chunk + dim,
                     o.factor == 0.0f && total == 0.0f ? 0.0f : value * o.factor);
      }
    }
  }
}

template <typename C>
__global__ void __launch_bounds__(C::kThreads, 2) decode(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(128) unsigned char smem_bytes[];
  Smem<C>& smem = *reinterpret_cast<Smem<C>*>(smem_bytes);
  dependencyWait();
  launchDependents();
  smem.schedule.build_sync(p);
  const int64_t total = smem.schedule.total(p);
  const int blocks = int(min(int64_t(gridDim.x), total));
  if (int(blockIdx.x) >= blocks) return;
  const int64_t begin = blockStart(total, blockIdx.x, blocks);
  int64_t tiles_left = blockStart(total, blockIdx.x + 1, blocks) - begin;
  Cursor cursor = smem.schedule.locate(p, begin);

  const int warp = threadIdx.x / 32;
  const int team = warp / C::kTeamWarps;
  const int first_row = warp % C::kTeamWarps * C::kWarpRows;
  const uint32_t ring = ptx::sharedAddress(smem.ring[team]);
  const uint32_t query = ptx::sharedAddress(smem.exchange);
  Loader<C> loader(p, cursor, tiles_left, ring, team, warp % C::kTeamWarps);
#pragma unroll 1
  for (int i = 0; i < C::kSlots - 1; ++i) loader.issue();

  Softmax<C> state;
  int slot = 0;
  bool holds_first_tile = true;
  const auto nextSlot_sync = [&] {
    ptx::copyAsyncWait<C::kSlots - 2>();
    team_sync<C::kTeamWarps>(team);
    loader.issue();
    const uint32_t address = ring + slot * C::kSlotBytes;
    slot = slot + 1 == C::kSlots ? 0 : slot + 1;
    return address;
  };
  while (tiles_left > 0) {
    __syncthreads();  // the exchange buffer is free
    loadQuery<C>(p, cursor, smem.exchange);
    state.reset();
    __syncthreads();
    float scale = p.softmax_scale;
    if (p.q_scale != nullptr) scale *= p.q_scale[cursor.kvHead(p) * p.q_scale_stride];
    if (p.k_scale != nullptr) scale *= p.k_scale[cursor.kvHead(p) * p.k_scale_stride];
    const bool from_start = cursor.tile == 0;
    const int tiles = int(min(tiles_left, int64_t(cursor.request.tiles - cursor.tile)));
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      float s[C::kTokens / 16][C::kWarpRows / 8][4];
      uint32_t prob[C::kTokens / 16][C::kWarpRows / 8][2];
      scores<C>(s, nextSlot_sync(), query, first_row);
      const int token =
          (cursor.request.first_tile + cursor.tile + i) * p.tile_tokens + team * C::kTokens;
      scaleAndMask<C>(p, cursor, scale, s, token, first_row);
      weights<C>(state, s, prob);
      const uint32_t v_slot = nextSlot_sync();
      const bool rows_differ =
          cursor.request.tokens > 1 && !isInterior<C>(p, cursor.request, token);
      if (rows_differ && holdsNonFinite<C>(v_slot)) {
        accumulateVisible<C>(p, cursor, state, v_slot, prob, token, first_row);
      } else {
        accumulate<C>(state, v_slot, prob);
      }
    }
    const bool whole = from_start && cursor.tile + tiles == cursor.request.tiles;
    finishSegment_sync<C>(p, cursor, state, smem,
                          whole ? nullptr : partialSlot(p, blockIdx.x, holds_first_tile ? 0 : 1));
    holds_first_tile = false;
    tiles_left -= tiles;
    if (tiles_left > 0) cursor.nextItem(p);
  }
  ptx::copyAsyncWait<0>();
}

template <typename C>
constexpr KernelRecord makeRecord(const char* name) {
  return KernelRecord{name,      &decode<C>, C::kRowTile, C::kTokens,
                      C::kTeams, 1,          C::kThreads, int32_t(sizeof(Smem<C>))};
}

}  // namespace xqa::mma_sync
