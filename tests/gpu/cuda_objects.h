// SPDX-License-Identifier: Apache-2.0
// Owners of CUDA resources. A failed CUDA call throws: after most of them nothing later can be
// trusted.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "xqa/xqa.h"

namespace gpu {

struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw CudaError(std::string(what) + ": " + cudaGetErrorName(error) + ", " +
                  cudaGetErrorString(error));
}
#define XQA_CUDA_CHECK(call) ::gpu::check((call), #call)

class Stream {
 public:
  Stream() { XQA_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator cudaStream_t() const { return stream_; }
  void synchronize() const { XQA_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t bytes) : bytes_(bytes) {
    if (bytes > 0) XQA_CUDA_CHECK(cudaMalloc(&data_, bytes));
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// What a callable enqueues on a stream, captured in global mode and ready to be replayed.
class Graph {
 public:
  template <typename Enqueue>
  Graph(const Stream& stream, Enqueue&& enqueue) {
    XQA_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    enqueue();
    XQA_CUDA_CHECK(cudaStreamEndCapture(stream, &graph_));
    XQA_CUDA_CHECK(cudaGraphInstantiate(&executable_, graph_, 0));
  }
  ~Graph() {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(const Stream& stream) const { XQA_CUDA_CHECK(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

inline xqaDeviceInfo_t deviceInfo(int32_t device) {
  xqaDeviceInfo_t info = {};
  info.struct_size = sizeof(info);
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  if (xqaGetDeviceInfo(device, &info, &diagnostic) != XQA_STATUS_SUCCESS) {
    throw CudaError(std::string("xqaGetDeviceInfo: ") + diagnostic.message);
  }
  return info;
}

}  // namespace gpu
