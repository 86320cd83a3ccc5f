// SPDX-License-Identifier: Apache-2.0
// The launch path: plan, parameter block, decode kernel, merge kernel.
#include <cuda_runtime.h>

#include "kernels/combine/combine.h"
#include "kernels/common/params.h"
#include "runtime/runtime.h"

namespace xqa {
namespace {

struct Plan {
  const KernelRecord* kernel;
  int row_blocks;
  int head_group;
  int grid;
};

// Depends on shape and device only.
Plan makePlan(const KernelFamily& family, const xqaDeviceInfo_t& device, const Problem& problem) {
  Plan plan{};
  int tile = 0;
  while (tile + 1 < kRowTileCount && kRowTiles[tile] < problem.rows()) ++tile;
  plan.kernel = family.by_row_tile[tile];
  plan.row_blocks = (problem.rows() + kRowTiles[tile] - 1) / kRowTiles[tile];
  // Heads pay side by side where a token's bytes of one head are a short stretch and the next
  // head's follow.
  const int element_bytes = problem.key.kv_dtype == XQA_DTYPE_E4M3 ? 1 : 2;
  constexpr int kStretchBytes = 128;
  const bool adjacent = problem.k_strides.head == problem.key.head_dim &&
                        problem.v_strides.head == problem.key.head_dim;
  plan.head_group = 1;
  while (adjacent && plan.head_group < plan.kernel->max_head_group &&
         plan.head_group * problem.key.head_dim * element_bytes < kStretchBytes &&
         problem.num_kv_heads % (plan.head_group * 2) == 0) {
    plan.head_group *= 2;
  }
  constexpr int kReservedBytes = 1024;  // the system's share of each block
  const int fitting = device.smem_per_sm_bytes / (plan.kernel->smem_bytes + kReservedBytes);
  plan.grid =
      device.sm_count * (fitting < 1                            ? 1
                         : fitting < plan.kernel->blocks_per_sm ? fitting
                                                                : plan.kernel->blocks_per_sm);
  if (plan.grid > kMaxGrid) plan.grid = kMaxGrid;
  return plan;
}

// The workspace must not fall as q_tokens grows: the largest tile bounds every smaller one.
size_t workspaceBytes(const KernelFamily& family, const xqaDeviceInfo_t& device,
                      const Problem& problem) {
  if (problem.batch == 0) return 0;
  int largest = 0;
  while (largest + 1 < kRowTileCount && kRowTiles[largest] < problem.rows()) ++largest;
  size_t bytes = 0;
  for (int tile = 0; tile <= largest; ++tile) {
    Problem smaller = problem;
    smaller.q_tokens = 1;
    smaller.key.group_size = kRowTiles[tile];
    const Plan plan = makePlan(family, device, smaller);
    const size_t need = size_t(plan.grid) * 2 * size_t(plan.kernel->max_head_group) *
                        size_t(kRowTiles[tile]) * size_t(problem.key.head_dim + 2) * sizeof(float);
    if (need > bytes) bytes = need;
  }
  return bytes;
}

DecodeParams makeParams(const Plan& plan, const Problem& problem) {
  DecodeParams p{};
  p.q = problem.q;
  p.q_offsets = problem.q_offsets;
  p.k_cache = problem.k_cache;
  p.v_cache = problem.v_cache;
  p.page_table = problem.page_table;
  p.seq_lens = problem.seq_lens;
  p.sinks = problem.sinks;
  p.mask = problem.mask;
  p.q_scale = problem.q_scale;
  p.k_scale = problem.k_scale;
  p.v_scale = problem.v_scale;
  p.out = problem.out;
  p.out_scale = problem.out_scale;
  p.lse = problem.lse;
  p.workspace = static_cast<float*>(problem.workspace);
  p.q_strides = problem.q_strides;
  p.out_strides = problem.out_strides;
  p.k_strides = problem.k_strides;
  p.v_strides = problem.v_strides;
  p.page_table_stride = problem.page_table_stride;
  p.capacity_tokens = problem.capacityTokens();
  p.batch = problem.batch;
  p.q_tokens = problem.q_tokens;
  p.num_q_heads = problem.num_q_heads;
  p.num_kv_heads = problem.num_kv_heads;
  p.group_size = problem.key.group_size;
  p.head_dim = problem.key.head_dim;
  p.page_tokens = problem.page_tokens;
  p.window = problem.window;
  p.mask_words = problem.maskWords();
  p.row_tile = plan.kernel->row_tile;
  p.row_blocks = plan.row_blocks;
  while ((1 << p.head_shift) < plan.head_group) ++p.head_shift;
  const int tile_tokens = plan.kernel->tile_tokens * plan.kernel->teams / plan.head_group;
  while ((1 << p.tile_shift) < tile_tokens) ++p.tile_shift;
  p.grid = plan.grid;
  p.q_scale_stride = problem.q_scale_stride;
  p.k_scale_stride = problem.k_scale_stride;
  p.v_scale_stride = problem.v_scale_stride;
  p.query_is_bf16 = problem.key.q_dtype == XQA_DTYPE_BF16;
  p.out_is_e4m3 = problem.out_dtype == XQA_DTYPE_E4M3;
  p.softmax_scale = problem.softmax_scale;
  p.softcap = problem.softcap;
  return p;
}

cudaError_t launch(KernelFunction function, dim3 grid, int threads, int smem_bytes, bool dependent,
                   xqaStream_t stream, const DecodeParams& params) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = size_t(smem_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = dependent ? 1 : 0;
  return cudaLaunchKernelEx(&config, function, params);
}

}  // namespace

size_t decodeWorkspaceBytes(const KernelFamily& family, const xqaDeviceInfo_t& device,
                            const Problem& problem) {
  return workspaceBytes(family, device, problem);
}

xqaStatus_t launchDecode(const KernelFamily& family, const xqaDeviceInfo_t& device,
                         const Problem& problem, xqaStream_t stream, Diagnostic& diagnostic) {
  int current = -1;
  cudaError_t error = cudaGetDevice(&current);
  if (error != cudaSuccess) {
    return diagnostic.failCuda(error, "the current device is unknown: %s",
                               cudaGetErrorString(error));
  }
  if (current != device.device) {
    return diagnostic.fail(XQA_STATUS_INVALID_ARGUMENT,
                           "device->device is %d: it must be the current device, which is %d",
                           device.device, current);
  }
  const Plan plan = makePlan(family, device, problem);
  if (plan.kernel->smem_bytes > device.smem_per_block_bytes) {
    return diagnostic.fail(XQA_STATUS_ARCH_UNSUPPORTED,
                           "smem_per_block_bytes is %d: the kernel needs %d bytes of shared memory",
                           device.smem_per_block_bytes, plan.kernel->smem_bytes);
  }
  const DecodeParams params = makeParams(plan, problem);
  const bool programmatic = device.sm >= 90;
  error =
      cudaFuncSetAttribute(reinterpret_cast<const void*>(plan.kernel->function),
                           cudaFuncAttributeMaxDynamicSharedMemorySize, plan.kernel->smem_bytes);
  if (error == cudaSuccess) {
    error = launch(plan.kernel->function, dim3(unsigned(plan.grid)), plan.kernel->threads,
                   plan.kernel->smem_bytes, programmatic && (problem.flags & XQA_DECODE_PDL) != 0,
                   stream, params);
  }
  if (error == cudaSuccess) {
    const int64_t items =
        int64_t(problem.batch) * (problem.num_kv_heads / plan.head_group) * plan.row_blocks;
    if (items <= kFewItems && problem.q_offsets == nullptr) {
      const int rows =
          problem.rows() < plan.kernel->row_tile ? problem.rows() : plan.kernel->row_tile;
      error = launch(combineFewKernel(), dim3(unsigned(items), unsigned(rows * plan.head_group)),
                     kCombineFewThreads, 0, programmatic, stream, params);
    } else {
      error = launch(combineManyKernel(), dim3(unsigned(plan.grid > 1 ? plan.grid - 1 : 1)),
                     kCombineManyThreads, 0, programmatic, stream, params);
    }
  }
  if (error != cudaSuccess) {
    return diagnostic.failCuda(error, "the launch failed: %s", cudaGetErrorString(error));
  }
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t launchMerge(const xqaMergeArgs_t& args, xqaStream_t stream, Diagnostic& diagnostic) {
  const int64_t rows_per_block = kMergeThreads / 32;
  const int64_t blocks = (args.rows + rows_per_block - 1) / rows_per_block;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks < 65536 ? blocks : 65536));
  config.blockDim = dim3(kMergeThreads);
  config.stream = stream;
  const cudaError_t error = cudaLaunchKernelEx(&config, mergeKernel(), args);
  if (error != cudaSuccess) {
    return diagnostic.failCuda(error, "the launch failed: %s", cudaGetErrorString(error));
  }
  return XQA_STATUS_SUCCESS;
}

}  // namespace xqa
