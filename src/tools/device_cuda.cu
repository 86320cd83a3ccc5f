// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>

#include "arguments.h"
#include "device.h"
#include "random.h"

namespace tool {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw Failure(std::string(what) + ": " + cudaGetErrorString(error));
}

class Stream {
 public:
  Stream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

// One captured graph.
class Graph {
 public:
  Graph(const Stream& stream, int32_t launches,
        const std::function<void(int32_t, xqaStream_t)>& launch) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      for (int32_t i = 0; i < launches; ++i) launch(i, stream);
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      cudaGraphDestroy(graph);
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "cudaGraphInstantiate");
    check(cudaGraphUpload(executable_, stream), "cudaGraphUpload");
  }
  ~Graph() { cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(const Stream& stream) const {
    check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(const Stream& stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  double microsecondsSince(const Event& begin) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

int32_t multiprocessors() {
  int device = 0;
  int count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  return count;
}

constexpr int kThreads = 512;
constexpr int kBlocksPerMultiprocessor = 2;

template <typename Element>
__device__ Element encodeOnDevice(float value);
template <>
__device__ __half encodeOnDevice<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __nv_bfloat16 encodeOnDevice<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ __nv_fp8_storage_t encodeOnDevice<__nv_fp8_storage_t>(float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
}

template <typename Element>
__global__ void __launch_bounds__(kThreads) fillKernel(Element* to, int64_t elems, uint64_t seed) {
  const int64_t step = int64_t(gridDim.x) * kThreads;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < elems; i += step) {
    to[i] = encodeOnDevice<Element>(randomNormal(seed, static_cast<uint64_t>(i)));
  }
}

template <typename Element>
void launchFill(void* to, int64_t elems, uint64_t seed) {
  fillKernel<<<multiprocessors() * 4, kThreads>>>(static_cast<Element*>(to), elems, seed);
}

constexpr int kLoadsInFlight = 8;  // 16 bytes each, in every thread

// All threads read neighbouring chunks and step on together, so that small buffers occupy every SM
// too.
__global__ void __launch_bounds__(kThreads)
    readKernel(const uint4* from, int64_t chunks, uint32_t* never_written) {
  const int64_t step = int64_t(gridDim.x) * kThreads;
  uint32_t sum = 0;
  for (int64_t base = int64_t(blockIdx.x) * kThreads + threadIdx.x; base < chunks;
       base += step * kLoadsInFlight) {
    uint4 loaded[kLoadsInFlight];
#pragma unroll
    for (int j = 0; j < kLoadsInFlight; ++j) {
      const int64_t i = base + j * step;
      loaded[j] = i < chunks ? __ldcs(from + i) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int j = 0; j < kLoadsInFlight; ++j) {
      sum += loaded[j].x ^ loaded[j].y ^ loaded[j].z ^ loaded[j].w;
    }
  }
  // The compiler cannot know that the pointer is null, so it keeps the loads.
  if (never_written != nullptr) *never_written = sum;
}

__global__ void emptyKernel() {}

}  // namespace

void selectDevice(int32_t device) { check(cudaSetDevice(device), "cudaSetDevice"); }

size_t freeDeviceBytes() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return free_bytes;
}

DeviceMemory::DeviceMemory(size_t bytes) {
  check(cudaMalloc(&data_, std::max<size_t>(1, bytes)), "cudaMalloc");
}

DeviceMemory::DeviceMemory(const void* host, size_t bytes) : DeviceMemory(bytes) {
  check(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

DeviceMemory::~DeviceMemory() { cudaFree(data_); }

void DeviceMemory::copyTo(void* host, size_t bytes) const {
  check(cudaMemcpy(host, data_, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void fillNormal(void* to, xqaDtype_t dtype, int64_t elems, uint64_t seed) {
  if (dtype == XQA_DTYPE_F16) {
    launchFill<__half>(to, elems, seed);
  } else if (dtype == XQA_DTYPE_BF16) {
    launchFill<__nv_bfloat16>(to, elems, seed);
  } else {
    launchFill<__nv_fp8_storage_t>(to, elems, seed);
  }
  check(cudaGetLastError(), "fillKernel");
  check(cudaDeviceSynchronize(), "fillKernel");
}

void fillBytes(void* to, int value, size_t bytes) {
  check(cudaMemset(to, value, bytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaMemset");
}

void runOnStream(const std::function<void(xqaStream_t)>& work) {
  const Stream stream;
  work(stream);
  stream.synchronize();
}

std::vector<double> timeGraph(int32_t launches, int32_t replays,
                              const std::function<void(int32_t, xqaStream_t)>& launch) {
  const Stream stream;
  const Graph graph(stream, launches, launch);
  graph.launch(stream);  // warm-up
  std::vector<Event> marks(static_cast<size_t>(replays) + 1);
  marks[0].record(stream);
  for (size_t i = 1; i < marks.size(); ++i) {
    graph.launch(stream);
    marks[i].record(stream);
  }
  stream.synchronize();
  std::vector<double> samples;
  for (size_t i = 1; i < marks.size(); ++i) {
    samples.push_back(marks[i].microsecondsSince(marks[i - 1]) / launches);
  }
  return samples;
}

double timeHostCall(const std::function<void(xqaStream_t)>& work) {
  using Clock = std::chrono::steady_clock;
  constexpr int kBursts = 50;
  constexpr int kCalls = 100;  // well below the depth of a stream's queue, so that no call waits
  const Stream stream;
  work(stream);
  stream.synchronize();
  std::vector<double> samples;
  for (int burst = 0; burst < kBursts; ++burst) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) work(stream);
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
    samples.push_back(elapsed.count() / kCalls);
    stream.synchronize();
  }
  std::nth_element(samples.begin(), samples.begin() + kBursts / 2, samples.end());
  return samples[kBursts / 2];
}

void launchRead(const void* from, size_t bytes, xqaStream_t stream) {
  const int64_t chunks = static_cast<int64_t>(bytes / sizeof(uint4));
  const int64_t blocks = (chunks + kThreads - 1) / kThreads;
  const int64_t grid =
      std::min<int64_t>(std::max<int64_t>(1, blocks), multiprocessors() * kBlocksPerMultiprocessor);
  readKernel<<<static_cast<unsigned>(grid), kThreads, 0, stream>>>(static_cast<const uint4*>(from),
                                                                   chunks, nullptr);
  check(cudaGetLastError(), "readKernel");
}

void launchEmpty(xqaStream_t stream) {
  emptyKernel<<<1, 1, 0, stream>>>();
  check(cudaGetLastError(), "emptyKernel");
}

}  // namespace tool
