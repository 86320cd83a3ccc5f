// SPDX-License-Identifier: Apache-2.0
// xqaMergePartials: a warp merges a row, in the order of the parts.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <math_constants.h>

#include "kernels/combine/combine.h"

namespace xqa {
namespace {

__device__ float loadAs(const void* data, xqaDtype_t dtype, int64_t i) {
  if (dtype == XQA_DTYPE_F16) return __half2float(static_cast<const __half*>(data)[i]);
  if (dtype == XQA_DTYPE_BF16) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
  return static_cast<const float*>(data)[i];
}

__device__ void storeAs(void* data, xqaDtype_t dtype, int64_t i, float value) {
  if (dtype == XQA_DTYPE_F16) {
    static_cast<__half*>(data)[i] = __float2half(value);
  } else if (dtype == XQA_DTYPE_BF16) {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
  } else if (dtype == XQA_DTYPE_E4M3) {
    static_cast<__nv_fp8_e4m3*>(data)[i] = __nv_fp8_e4m3(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}

__global__ void __launch_bounds__(kMergeThreads) merge(const __grid_constant__ xqaMergeArgs_t a) {
  const int lane = threadIdx.x % 32;
  const int64_t warps = int64_t(gridDim.x) * (kMergeThreads / 32);
  for (int64_t row = int64_t(blockIdx.x) * (kMergeThreads / 32) + threadIdx.x / 32; row < a.rows;
       row += warps) {
    float top = -CUDART_INF_F;
    bool nan = false;
    for (int i = 0; i < a.num_parts; ++i) {
      const float lse = a.partial_lse[i * a.partial_lse_stride + row];
      nan |= isnan(lse);
      top = fmaxf(top, lse);
    }
    float sum = 0.0f;
    for (int i = 0; i < a.num_parts && top != -CUDART_INF_F; ++i) {
      sum += expf(a.partial_lse[i * a.partial_lse_stride + row] - top);
    }
    if (nan) sum = CUDART_NAN_F;
    for (int dim = lane; dim < a.head_dim; dim += 32) {
      float value = 0.0f;
      for (int i = 0; i < a.num_parts; ++i) {
        const float lse = a.partial_lse[i * a.partial_lse_stride + row];
        if (lse == -CUDART_INF_F)
          continue;  // a part without a visible key has no say, whatever it holds
        value += expf(lse - top) / sum *
                 loadAs(a.partial_out, a.partial_dtype,
                        i * a.partial_out_stride + row * a.head_dim + dim);
      }
      storeAs(a.out, a.out_dtype, row * a.head_dim + dim, value);
    }
    __syncwarp();  // lse may be the first part of partial_lse
    if (lane == 0 && a.lse != nullptr) {
      a.lse[row] = nan ? CUDART_NAN_F : top == -CUDART_INF_F ? top : top + logf(sum);
    }
  }
}

}  // namespace

MergeFunction mergeKernel() { return &merge; }

}  // namespace xqa
