// SPDX-License-Identifier: Apache-2.0
// What the host knows of a compiled kernel. Each generated/kernels/*.cu exports one record; the
// table of families is generated/kernels.cpp (CUDA builds) or empty (builds without CUDA).
#pragma once

#include <cstdint>

namespace xqa {

struct DecodeParams;  // kernels/common/params.h
using KernelFunction = void (*)(DecodeParams);

struct KernelRecord {
  const char* name;         // mma_sync_d128_r8_qf16_kvf16_mf16
  KernelFunction function;  // the __global__ function's host stub
  int32_t row_tile;         // query rows of one tile: 8, 16, 32 or 64
  int32_t tile_tokens;      // KV tokens that one warp team takes at a time
  int32_t teams;            // warp teams of a block; each takes its own tokens or its own KV head
  int32_t max_head_group;   // most KV heads that a block takes side by side: 1, 2 or 4
  int32_t blocks_per_sm;    // blocks of an SM that has the shared memory for them
  int32_t threads;
  int32_t smem_bytes;  // dynamic shared memory of a block
};

inline constexpr int kRowTiles[] = {8, 16, 32, 64};
inline constexpr int kRowTileCount = 4;

// The kernels that serve one (backend, head_dim, q_dtype, kv_dtype, math_dtype), by row tile.
struct KernelFamily {
  const KernelRecord* by_row_tile[kRowTileCount];
};

// NULL if this build has no kernels for the family.
const KernelFamily* kernelFamily(int16_t family);

// "90 100 ...": SMs with machine code, then "+PTX" versions; "none" without CUDA.
const char* kernelArchitectures();

}  // namespace xqa
