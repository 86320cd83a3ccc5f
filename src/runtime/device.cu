// SPDX-License-Identifier: Apache-2.0
// What the library asks of a device.
#include <cuda_runtime_api.h>

#include <cstring>

#include "kernels/combine/combine.h"
#include "runtime/runtime.h"

namespace xqa {

xqaStatus_t queryDevice(int32_t device, xqaDeviceInfo_t* info, Diagnostic& diagnostic) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();  // our own failed query, not another user's error
    diagnostic.failCuda(error, "no CUDA device: %s", cudaGetErrorString(error));
    return XQA_STATUS_NO_DEVICE;
  }
  if (device < 0 || device >= count) {
    return diagnostic.fail(XQA_STATUS_NO_DEVICE, "device is %d: the process sees %d CUDA devices",
                           device, count);
  }
  cudaDeviceProp properties;
  error = cudaGetDeviceProperties(&properties, device);
  int driver = 0;
  if (error == cudaSuccess) error = cudaDriverGetVersion(&driver);
  if (error != cudaSuccess) {
    return diagnostic.failCuda(error, "device %d cannot be queried: %s", device,
                               cudaGetErrorString(error));
  }
  xqaDeviceInfo_t result{};
  result.struct_size = sizeof(result);
  result.device = device;
  result.sm = properties.major * 10 + properties.minor;
  result.sm_count = properties.multiProcessorCount;
  result.smem_per_block_bytes = static_cast<int32_t>(properties.sharedMemPerBlockOptin);
  result.smem_per_sm_bytes = static_cast<int32_t>(properties.sharedMemPerMultiprocessor);
  result.l2_bytes = properties.l2CacheSize;
  result.driver_version = driver;
  result.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  std::strncpy(result.name, properties.name, sizeof(result.name) - 1);
  *info = result;
  return XQA_STATUS_SUCCESS;
}

xqaStatus_t prepareFamily(const KernelFamily& family, int32_t device, Diagnostic& diagnostic) {
  int previous = 0;
  cudaError_t error = cudaGetDevice(&previous);
  if (error == cudaSuccess) error = cudaSetDevice(device);
  if (error != cudaSuccess) {
    diagnostic.failCuda(error, "device %d cannot be used: %s", device, cudaGetErrorString(error));
    return XQA_STATUS_NO_DEVICE;
  }
  cudaFuncAttributes attributes;
  for (const KernelRecord* record : family.by_row_tile) {
    if (error != cudaSuccess) break;
    error = cudaFuncSetAttribute(reinterpret_cast<const void*>(record->function),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, record->smem_bytes);
    if (error == cudaSuccess) {
      error = cudaFuncSetAttribute(reinterpret_cast<const void*>(record->function),
                                   cudaFuncAttributePreferredSharedMemoryCarveout,
                                   cudaSharedmemCarveoutMaxShared);
    }
    if (error == cudaSuccess) {
      error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(record->function));
    }
  }
  for (const KernelFunction function : {combineFewKernel(), combineManyKernel()}) {
    if (error != cudaSuccess) break;
    // The same carve-out, so that they can start beside the decode kernel.
    error = cudaFuncSetAttribute(reinterpret_cast<const void*>(function),
                                 cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared);
    if (error == cudaSuccess) {
      error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(function));
    }
  }
  if (error == cudaSuccess) {
    error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(mergeKernel()));
  }
  (void)cudaSetDevice(previous);
  if (error != cudaSuccess) {
    return diagnostic.failCuda(error, "the kernels cannot be loaded on device %d: %s", device,
                               cudaGetErrorString(error));
  }
  return XQA_STATUS_SUCCESS;
}

}  // namespace xqa
