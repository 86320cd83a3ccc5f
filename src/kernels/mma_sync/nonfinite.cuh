// SPDX-License-Identifier: Apache-2.0
// V with infinities or NaN in a tile whose rows see different tokens.
#pragma once

#include "kernels/mma_sync/tile_math.cuh"

namespace xqa::mma_sync {

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
    const uint32_t (&prob)[C::kTokenMmas][C::kRowMmas][2], int first_token, int first_row) {
  const int lane = threadIdx.x % 32;
  constexpr int kBytes = C::kE4m3 ? 1 : 2;
#pragma unroll 1
  for (int t = 0; t < C::kTokens; ++t) {
#pragma unroll
    for (int n = 0; n < C::kRowMmas; ++n) {
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
        const int row = c.row_block * C::kRowTile + first_row + n * 8 + row_in_mma;
        if (!visible(p, c.request, row / p.group_size, first_token + t)) continue;
#pragma unroll
        for (int d = 0; d < C::kDimMmas; ++d) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int dim = d * 16 + (C::kE4m3 ? lane / 4 * 2 + half : lane / 4 + half * 8);
            const uint32_t address =
                slot + swizzled<C::kRowBytes>(t, dim * kBytes / 16) + dim * kBytes % 16;
            uint32_t word = ptx::loadShared32(address & ~3u) >> (address % 4 * 8);
            uint32_t unused;
            if constexpr (C::kE4m3) ptx::widenE4m3<C::kBf16>(word, word, unused);
            const float value = ptx::unpack<C::kBf16>(word);
            state.out[d][n][half * 2 + j] += weight * value;
          }
        }
      }
    }
  }
}

}  // namespace xqa::mma_sync
