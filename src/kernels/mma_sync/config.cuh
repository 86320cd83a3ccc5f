// SPDX-License-Identifier: Apache-2.0
// Sizes of a portable decode kernel, all at compile time, and its shared memory.
#pragma once

#include "core/kernels.h"
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
  // Warps that share a tile and split its rows: as few as keep the accumulators in registers.
  static constexpr int kTeamWarps = imax(1, kRowTile* kHeadDim / 4096);
  static constexpr int kTeams = 4 / kTeamWarps;
  static constexpr int kWarpRows = kRowTile / kTeamWarps;
  static constexpr int kRowBytes = kHeadDim * Cache::kBytes;
  static constexpr int kTokens = kRowBytes <= 128 && kWarpRows * kHeadDim < 4096 ? 32 : 16;
  static constexpr int kSlotBytes = kTokens * kRowBytes;
  // KV heads side by side: one token's bytes of neighbouring heads then arrive as one stretch of up
  // to 512 bytes.
  static constexpr int kMaxHeadGroup = kTeamWarps > 1 || kWarpRows* kHeadDim >= 4096
                                           ? 1
                                           : imin(4, imin(512 / kRowBytes,
                                                          imax(1, 8192 / (kRowTile * kHeadDim))));
  // The query fragments stay in registers where there is room, else they are read for every tile.
  static constexpr bool kQueryInRegisters = kWarpRows * kHeadDim <= 2048;
  static constexpr int kRowMmas = kWarpRows / 8;
  static constexpr int kTokenMmas = kTokens / 16;
  static constexpr int kDimMmas = kHeadDim / 16;
  static constexpr int kChunk =
      imin(kHeadDim, imax(16, 512 / kRowTile));  // of head_dim, in the merge
  __device__ static int headShift(const DecodeParams& p) {
    return kMaxHeadGroup == 1 ? 0 : p.head_shift;
  }
  static constexpr int kQueryBytes = kMaxHeadGroup * kRowTile * kHeadDim * 2;
  static constexpr int kMergeBytes = kTeams * kRowTile * (kChunk + 4) * 4;
  static constexpr int kExchangeBytes = imax(kQueryBytes, kMergeBytes);
  static constexpr int kStatsBytes = kRowTile * kTeams * (4 + 4 + 8);
  static constexpr int kFixedBytes = kExchangeBytes + kStatsBytes + int(sizeof(Schedule));
  // 99 KB is what a block gets on SM 8.6, 8.9 and 12.0. Two such blocks fit an SM of 8.0, 9.0
  // and 10.0 and leave room for a block of the merge kernel, whose index work then overlaps; three
  // smaller ones do not.
  static constexpr int kBlocksPerSm = 2;
  static constexpr int kSlots = imin(8, (99 * 1024 - kFixedBytes) / (kTeams * kSlotBytes));
  static_assert(kSlots >= 2, "no room for a ring");
};

template <typename C>
struct Smem {
  alignas(128) unsigned char ring[C::kTeams][C::kSlots][C::kSlotBytes];
  alignas(128) unsigned char exchange[C::kExchangeBytes];
  float max_log2[C::kTeams][C::kRowTile];  // later the weight of each team's sums
  float sum[C::kTeams][C::kRowTile];
  int64_t out_offset[C::kTeams][C::kRowTile];
  Schedule schedule;
};

// Byte offset of a 16-byte chunk in rows of kRowBytes: eight rows at one chunk hit distinct banks.
template <int kRowBytes>
__device__ __forceinline__ uint32_t swizzled(int row, int chunk) {
  const int turn = kRowBytes >= 128 ? row & 7 : (row >> 1) & 3;
  return static_cast<uint32_t>(row * kRowBytes + ((chunk ^ turn) << 4));
}

}  // namespace xqa::mma_sync
