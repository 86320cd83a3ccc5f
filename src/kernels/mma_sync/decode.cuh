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

#include <type_traits>

#include "kernels/mma_sync/loader.cuh"
#include "kernels/mma_sync/nonfinite.cuh"
#include "kernels/mma_sync/segment.cuh"

namespace xqa::mma_sync {

// Among the warps that fill a slice's rings.
__device__ __forceinline__ void loaders_sync(int slice, int warps) {
  if (warps == 1) {
    __syncwarp();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(slice + 1), "r"(warps * 32) : "memory");
  }
}

template <typename C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocksPerSm)
    decode(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(128) unsigned char smem_bytes[];
  Smem<C>& smem = *reinterpret_cast<Smem<C>*>(smem_bytes);
  dependencyWait();
  launchDependents();
  smem.schedule.build_sync(p);
  const EvenSplit split(smem.schedule.total(p), gridDim.x);
  if (int(blockIdx.x) >= split.blocks) return;
  const int64_t begin = split.start(blockIdx.x);
  int64_t tiles_left = split.start(blockIdx.x + 1) - begin;
  Cursor cursor = smem.schedule.locate_sync(p, begin);

  const int warp = threadIdx.x / 32;
  const int team = warp / C::kTeamWarps;
  const int first_row = warp % C::kTeamWarps * C::kWarpRows;
  // Of the teams, 2^head_shift neighbours have a KV head each and the same tokens; they load
  // together.
  const int slice = team >> C::headShift(p);
  const int member = team & ((1 << C::headShift(p)) - 1);
  const int loaders = C::kTeamWarps > 1 ? C::kTeamWarps : 1 << C::headShift(p);
  const uint32_t ring = ptx::sharedAddress(smem.ring[team]);
  const uint32_t query = ptx::sharedAddress(smem.exchange) + member * C::kRowTile * C::kHeadDim * 2;
  Loader<C> loader(p, cursor, tiles_left, ptx::sharedAddress(smem.ring[team - member]), slice,
                   warp & (loaders - 1));
  constexpr int kAhead = C::kSlots - 1;  // slots that are in flight while one is used
#pragma unroll 1
  for (int i = 0; i < kAhead / 2; ++i) {
    loader.template issue<false>(2 * i);
    loader.template issue<true>(2 * i + 1);
  }
  if constexpr (kAhead % 2 == 1) loader.template issue<false>(kAhead - 1);

  Softmax<C> state;
  QueryFragments<C> q;
  int slot = 0;
  bool holds_first_tile = true;
  const auto nextSlot_sync = [&](auto is_v) {
    ptx::copyAsyncWait<kAhead - 1>();
    loaders_sync(slice, loaders);
    // Into the slot before, which every warp has left.
    loader.template issue<(decltype(is_v)::value != (kAhead % 2 == 1))>(slot == 0 ? kAhead
                                                                                  : slot - 1);
    const uint32_t address = ring + slot * C::kSlotBytes;
    slot = slot == kAhead ? 0 : slot + 1;
    return address;
  };
  while (tiles_left > 0) {
    __syncthreads();  // the exchange buffer is free
    loadQuery<C>(p, cursor, smem.exchange);
    state.reset();
    __syncthreads();
    q.loadAll(query, first_row);
    const int kv_head = (cursor.head_group << C::headShift(p)) + member;
    float scale = p.softmax_scale;
    if (p.q_scale != nullptr) scale *= p.q_scale[kv_head * p.q_scale_stride];
    if (p.k_scale != nullptr) scale *= p.k_scale[kv_head * p.k_scale_stride];
    const bool from_start = cursor.tile == 0;
    const int tiles = int(min(tiles_left, int64_t(cursor.request.tiles - cursor.tile)));
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      float s[C::kTokenMmas][C::kRowMmas][4];
      uint32_t prob[C::kTokenMmas][C::kRowMmas][2];
      scores<C>(s, nextSlot_sync(std::false_type{}), q, query, first_row);
      const int token =
          ((cursor.request.first_tile + cursor.tile + i) << p.tile_shift) + slice * C::kTokens;
      scaleAndMask<C>(p, cursor, scale, s, token, first_row);
      weights<C>(state, s, prob);
      const uint32_t v_slot = nextSlot_sync(std::true_type{});
      const bool rows_differ =
          cursor.request.tokens > 1 && !isInterior<C>(p, cursor.request, token);
      if (rows_differ && holdsNonFinite<C>(v_slot)) {
        accumulateVisible<C>(p, cursor, state, v_slot, prob, token, first_row);
      } else {
        accumulate<C>(state, v_slot, prob);
      }
    }
    const bool whole = from_start && cursor.tile + tiles == cursor.request.tiles;
    finishSegment_sync<C>(
        p, cursor, state, smem,
        whole ? nullptr : partialSlot(p, blockIdx.x, holds_first_tile ? 0 : 1, 0));
    holds_first_tile = false;
    tiles_left -= tiles;
    if (tiles_left > 0) cursor.nextItem(p);
  }
  ptx::copyAsyncWait<0>();
}

template <typename C>
constexpr KernelRecord makeRecord(const char* name) {
  return KernelRecord{name,
                      &decode<C>,
                      C::kRowTile,
                      C::kTokens,
                      C::kTeams,
                      C::kMaxHeadGroup,
                      C::kBlocksPerSm,
                      C::kThreads,
                      int32_t(sizeof(Smem<C>))};
}

}  // namespace xqa::mma_sync
