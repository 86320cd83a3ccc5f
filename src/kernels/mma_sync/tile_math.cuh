// SPDX-License-Identifier: Apache-2.0
// The math of one tile: S^T = K Q^T, masking, running softmax, O^T += V^T P^T. One warp, no
// synchronisation.
#pragma once

#include <math_constants.h>

#include "device/ptx.cuh"
#include "kernels/common/epilogue.cuh"
#include "kernels/mma_sync/config.cuh"

namespace xqa::mma_sync {

// The running softmax state of a warp's rows.
template <typename C>
struct Softmax {
  float max_log2[C::kRowMmas][2];
  float sum[C::kRowMmas][2];  // of this lane's tokens
  float out[C::kDimMmas][C::kRowMmas][4];

  __device__ void reset() {
#pragma unroll
    for (int n = 0; n < C::kRowMmas; ++n) {
      max_log2[n][0] = max_log2[n][1] = -CUDART_INF_F;
      sum[n][0] = sum[n][1] = 0.0f;
#pragma unroll
      for (int d = 0; d < C::kDimMmas; ++d) {
        out[d][n][0] = out[d][n][1] = out[d][n][2] = out[d][n][3] = 0.0f;
      }
    }
  }
};

// Fragments of Q^T: [two MMA steps of 16][rows / 8].
template <typename C>
struct QueryFragments {
  uint32_t b[C::kQueryInRegisters ? C::kHeadDim / 32 : 1][C::kRowMmas][4];

  __device__ __forceinline__ static void load(uint32_t (&to)[4], uint32_t query, int first_row,
                                              int k, int n) {
    const int lane = threadIdx.x % 32;
    ptx::loadMatrix4(
        to, query + swizzled<C::kHeadDim * 2>(first_row + n * 8 + lane % 8, k * 4 + lane / 8));
  }

  __device__ __forceinline__ void loadAll(uint32_t query, int first_row) {
    if constexpr (C::kQueryInRegisters) {
#pragma unroll
      for (int k = 0; k < C::kHeadDim / 32; ++k) {
#pragma unroll
        for (int n = 0; n < C::kRowMmas; ++n) load(b[k][n], query, first_row, k, n);
      }
    }
  }
};

// S^T [kTokens][kWarpRows] = K Q^T, raw.
template <typename C>
__device__ __forceinline__ void scores(float (&s)[C::kTokenMmas][C::kRowMmas][4], uint32_t slot,
                                       QueryFragments<C>& q, uint32_t query, int first_row) {
  const int lane = threadIdx.x % 32;
  // Two chains of MMAs where there are few: their latency would be the tile's longest stretch.
  constexpr int kChains = C::kTokenMmas * C::kRowMmas <= 2 ? 2 : 1;
  float part[kChains][C::kTokenMmas][C::kRowMmas][4] = {};
#pragma unroll
  for (int k = 0; k < C::kHeadDim / 32; ++k) {  // 32 of head_dim: two MMA steps
    uint32_t a[C::kTokenMmas][2][4];
#pragma unroll
    for (int m = 0; m < C::kTokenMmas; ++m) {
      const int token = m * 16 + lane % 16;
      if constexpr (C::kE4m3) {
        uint32_t r[4];
        ptx::loadMatrix4(r, slot + swizzled<C::kRowBytes>(token, k * 2 + lane / 16));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          ptx::widenE4m3<C::kBf16>(r[i], a[m][i / 2][i % 2], a[m][i / 2][i % 2 + 2]);
        }
      } else {
        ptx::loadMatrix4(a[m][0], slot + swizzled<C::kRowBytes>(token, k * 4 + lane / 16));
        ptx::loadMatrix4(a[m][1], slot + swizzled<C::kRowBytes>(token, k * 4 + 2 + lane / 16));
      }
    }
#pragma unroll
    for (int n = 0; n < C::kRowMmas; ++n) {
      constexpr bool kKept = C::kQueryInRegisters;
      uint32_t(&b)[4] = q.b[kKept ? k : 0][n];
      if constexpr (!kKept) QueryFragments<C>::load(b, query, first_row, k, n);
#pragma unroll
      for (int m = 0; m < C::kTokenMmas; ++m) {
        ptx::mma<C::kBf16>(part[0][m][n], a[m][0], b[0], b[1]);
        ptx::mma<C::kBf16>(part[kChains - 1][m][n], a[m][1], b[2], b[3]);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < C::kTokenMmas; ++m) {
#pragma unroll
    for (int n = 0; n < C::kRowMmas; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[m][n][i] =
            kChains == 2 ? part[0][m][n][i] + part[kChains - 1][m][n][i] : part[0][m][n][i];
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
         first_token + C::kTokens <= r.len - (r.tokens > 1 || p.mask != nullptr ? r.tokens : 0);
}

// Raw scores to log2 logits; what a row does not see becomes -inf.
template <typename C>
__device__ __forceinline__ void scaleAndMask(const DecodeParams& p, const Cursor& c, float scale,
                                             float (&s)[C::kTokenMmas][C::kRowMmas][4],
                                             int first_token, int first_row) {
  const int lane = threadIdx.x % 32;
  if (p.softcap > 0.0f) {
#pragma unroll
    for (int i = 0; i < C::kTokenMmas * C::kRowMmas * 4; ++i) {
      float& x = s[i / (C::kRowMmas * 4)][i / 4 % C::kRowMmas][i % 4];
      // c tanh(x) = c (1 - 2 / (e^2x + 1)): exact at both ends, absolute error 1e-7 c.
      x = p.softcap * kLog2E *
          (1.0f - 2.0f / (ptx::exp2(x * (scale * 2.0f * kLog2E / p.softcap)) + 1.0f));
    }
  } else {
#pragma unroll
    for (int i = 0; i < C::kTokenMmas * C::kRowMmas * 4; ++i) {
      s[i / (C::kRowMmas * 4)][i / 4 % C::kRowMmas][i % 4] *= scale * kLog2E;
    }
  }
  if (isInterior<C>(p, c.request, first_token)) return;
#pragma unroll
  for (int n = 0; n < C::kRowMmas; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int row = c.row_block * C::kRowTile + first_row + n * 8 + lane % 4 * 2 + j;
      const int query_token = c.request.tokens == 1 ? 0 : row / p.group_size;
#pragma unroll
      for (int m = 0; m < C::kTokenMmas * 2; ++m) {
        if (!visible(p, c.request, query_token, first_token + m * 8 + lane / 4)) {
          s[m / 2][n][m % 2 * 2 + j] = -CUDART_INF_F;
        }
      }
    }
  }
}

// Raises the running maxima where a logit is more than 8 (2^8) above, then turns logits into P^T
// fragments.
template <typename C>
__device__ __forceinline__ void weights(Softmax<C>& state,
                                        float (&s)[C::kTokenMmas][C::kRowMmas][4],
                                        uint32_t (&prob)[C::kTokenMmas][C::kRowMmas][2]) {
  float top[C::kRowMmas][2];
  bool rose = false;
#pragma unroll
  for (int n = 0; n < C::kRowMmas; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      top[n][j] = -CUDART_INF_F;
#pragma unroll
      for (int m = 0; m < C::kTokenMmas; ++m) {
        top[n][j] = fmaxf(top[n][j], fmaxf(s[m][n][j], s[m][n][j + 2]));
      }
      rose |= top[n][j] > state.max_log2[n][j] + 8.0f;
    }
  }
  if (__any_sync(~0u, rose)) {
#pragma unroll
    for (int n = 0; n < C::kRowMmas; ++n) {
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
        for (int d = 0; d < C::kDimMmas; ++d) {
          state.out[d][n][j] *= factor;
          state.out[d][n][j + 2] *= factor;
        }
      }
    }
  }
#pragma unroll
  for (int n = 0; n < C::kRowMmas; ++n) {
    const float max0 = state.max_log2[n][0] == -CUDART_INF_F ? 0.0f : state.max_log2[n][0];
    const float max1 = state.max_log2[n][1] == -CUDART_INF_F ? 0.0f : state.max_log2[n][1];
#pragma unroll
    for (int m = 0; m < C::kTokenMmas; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float w0 = ptx::exp2(s[m][n][half * 2] - max0);
        const float w1 = ptx::exp2(s[m][n][half * 2 + 1] - max1);
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
__device__ __forceinline__ void accumulate(Softmax<C>& state, uint32_t slot,
                                           const uint32_t (&prob)[C::kTokenMmas][C::kRowMmas][2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < C::kTokenMmas; ++m) {
#pragma unroll
    for (int d = 0; d < C::kDimMmas; d += 2) {
      uint32_t a[2][4];
      if constexpr (C::kE4m3) {
        uint32_t r[4];
        ptx::loadMatrix4Transposed(
            r, slot + swizzled<C::kRowBytes>(m * 16 + lane % 16, d + lane / 16));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          ptx::widenE4m3<C::kBf16>(__byte_perm(r[i], 0, 0x3120), a[i / 2][i % 2 * 2],
                                   a[i / 2][i % 2 * 2 + 1]);
        }
      } else {
        const int token = m * 16 + lane % 8 + lane / 16 * 8;
        ptx::loadMatrix4Transposed(a[0],
                                   slot + swizzled<C::kRowBytes>(token, d * 2 + lane / 8 % 2));
        ptx::loadMatrix4Transposed(a[1],
                                   slot + swizzled<C::kRowBytes>(token, d * 2 + 2 + lane / 8 % 2));
      }
#pragma unroll
      for (int n = 0; n < C::kRowMmas; ++n) {
        ptx::mma<C::kBf16>(state.out[d][n], a[0], prob[m][n][0], prob[m][n][1]);
        ptx::mma<C::kBf16>(state.out[d + 1][n], a[1], prob[m][n][0], prob[m][n][1]);
      }
    }
  }
}

}  // namespace xqa::mma_sync
