// SPDX-License-Identifier: Apache-2.0
// What GPU variants refuse: the status, a sentence, no node in a graph and no byte written. And
// what the library says of a device.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "dice.h"

namespace gpu {
namespace {

struct Call {
  xqaDeviceInfo_t device;
  xqaDecodeShape_t shape;
  xqaDecodeArgs_t args;
};

struct Refusal {
  const char* name;
  xqaStatus_t status;
  std::function<void(Call&)> spoil;
};

template <typename Pointer>
void misalign(Pointer& pointer, uintptr_t bytes) {
  pointer = reinterpret_cast<Pointer>(reinterpret_cast<uintptr_t>(pointer) + bytes);
}

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> list = {
      {"no workspace", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { c.args.workspace = nullptr; }},
      {"a byte too little workspace", XQA_STATUS_WORKSPACE_TOO_SMALL,
       [](Call& c) { --c.args.workspace_bytes; }},
      {"misaligned workspace", XQA_STATUS_INVALID_ARGUMENT,
       [](Call& c) { misalign(c.args.workspace, 128); }},
      {"no q", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { c.args.q = nullptr; }},
      {"no K", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { c.args.k_cache = nullptr; }},
      {"no V", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { c.args.v_cache = nullptr; }},
      {"no lengths", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { c.args.seq_lens = nullptr; }},
      {"no out", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { c.args.out = nullptr; }},
      {"no page table", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { c.args.page_table = nullptr; }},
      {"misaligned q", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { misalign(c.args.q, 8); }},
      {"misaligned K", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { misalign(c.args.k_cache, 8); }},
      {"misaligned V", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { misalign(c.args.v_cache, 8); }},
      {"misaligned out", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { misalign(c.args.out, 8); }},
      {"misaligned lse", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { misalign(c.args.lse, 2); }},
      {"an unknown flag", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { c.args.flags = 1u << 7; }},
      {"a flag without its companion", XQA_STATUS_INVALID_ARGUMENT,
       [](Call& c) { c.args.flags = XQA_DECODE_PDL_OLD_KV_READY; }},
      {"a mask with a window", XQA_STATUS_FEATURE_UNSUPPORTED,
       [](Call& c) {
         c.shape.window = 5;
         c.args.mask = reinterpret_cast<const uint32_t*>(c.args.seq_lens);
       }},
      {"heads that do not divide", XQA_STATUS_SHAPE_UNSUPPORTED,
       [](Call& c) { ++c.shape.num_q_heads; }},
      {"an odd page stride", XQA_STATUS_SHAPE_UNSUPPORTED,
       [](Call& c) { c.shape.k_strides.page += 4; }},
      {"an odd token stride", XQA_STATUS_SHAPE_UNSUPPORTED,
       [](Call& c) { c.shape.v_strides.token += 4; }},
      {"too many rows", XQA_STATUS_SHAPE_UNSUPPORTED, [](Call& c) { c.shape.batch = 1 << 30; }},
      {"a negative batch", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { c.shape.batch = -1; }},
      {"an output in f32", XQA_STATUS_FEATURE_UNSUPPORTED,
       [](Call& c) { c.shape.out_dtype = XQA_DTYPE_F32; }},
      {"an older device", XQA_STATUS_ARCH_UNSUPPORTED, [](Call& c) { c.device.sm = 75; }},
      {"no struct_size", XQA_STATUS_INVALID_ARGUMENT, [](Call& c) { c.args.struct_size = 0; }},
  };
  return list;
}

size_t nodesOf(cudaGraph_t graph) {
  size_t nodes = 0;
  XQA_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  return nodes;
}

TEST(Refusals, NothingIsLaunchedAndNothingWritten) {
  for (ProblemSpec spec : allFamilies()) {
    spec.num_kv_heads = 2;
    spec.q_tokens = 2;
    spec.seq_lens = {100, 3000};
    Worker worker;
    HostProblem problem = xqa::testing::buildProblem(spec);
    DeviceProblem on_device(&problem, &worker);
    ASSERT_GT(on_device.workspaceBytes(), 0u) << on_device.reproduction();
    for (const Refusal& refusal : refusals()) {
      Call call = {on_device.device(), problem.shape, on_device.args};
      refusal.spoil(call);
      xqaDiagnostic_t diagnostic = {};
      diagnostic.struct_size = sizeof(diagnostic);
      XQA_CUDA_CHECK(cudaStreamBeginCapture(worker.stream, cudaStreamCaptureModeGlobal));
      const xqaStatus_t captured = xqaDecode(on_device.variant(), &call.device, &call.shape,
                                             &call.args, worker.stream, &diagnostic);
      cudaGraph_t graph = nullptr;
      XQA_CUDA_CHECK(cudaStreamEndCapture(worker.stream, &graph));
      EXPECT_EQ(captured, refusal.status) << refusal.name << ": " << diagnostic.message;
      EXPECT_GT(std::strlen(diagnostic.message), 10u) << refusal.name;
      EXPECT_EQ(diagnostic.cuda_error, 0) << refusal.name;
      EXPECT_EQ(nodesOf(graph), 0u) << refusal.name << " was launched";
      XQA_CUDA_CHECK(cudaGraphDestroy(graph));
      EXPECT_EQ(xqaDecode(on_device.variant(), &call.device, &call.shape, &call.args, worker.stream,
                          nullptr),
                refusal.status)
          << refusal.name;
    }
    on_device.read();
    EXPECT_TRUE(on_device.untouched())
        << "a refused call wrote something: " << on_device.reproduction();
    on_device.run();  // the call that was spoilt is right
    const std::string fault = on_device.judge();
    EXPECT_TRUE(fault.empty()) << fault;
  }
}

TEST(Refusals, PrepareOfNoDevice) {
  const xqaVariant_t variant = launchableVariants(launchableBackends().front()).front();
  int count = 0;
  XQA_CUDA_CHECK(cudaGetDeviceCount(&count));
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  EXPECT_EQ(xqaPrepareVariant(variant, count, &diagnostic), XQA_STATUS_NO_DEVICE);
  EXPECT_GT(std::strlen(diagnostic.message), 10u);
  EXPECT_EQ(xqaPrepareVariant(variant, -1, nullptr), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(xqaPrepareVariant(nullptr, 0, nullptr), XQA_STATUS_INVALID_ARGUMENT);
}

TEST(DeviceInfo, AgreesWithTheRuntime) {
  int count = 0;
  XQA_CUDA_CHECK(cudaGetDeviceCount(&count));
  int current = 0;
  XQA_CUDA_CHECK(cudaGetDevice(&current));
  for (int device = 0; device < count; ++device) {
    const xqaDeviceInfo_t info = deviceInfo(device);
    cudaDeviceProp properties;
    XQA_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    EXPECT_EQ(info.struct_size, sizeof(info));
    EXPECT_EQ(info.device, device);
    EXPECT_EQ(info.sm, 10 * properties.major + properties.minor);
    EXPECT_EQ(info.sm_count, properties.multiProcessorCount);
    EXPECT_EQ(static_cast<size_t>(info.smem_per_block_bytes), properties.sharedMemPerBlockOptin);
    EXPECT_EQ(static_cast<size_t>(info.smem_per_sm_bytes), properties.sharedMemPerMultiprocessor);
    EXPECT_EQ(info.l2_bytes, properties.l2CacheSize);
    EXPECT_EQ(static_cast<size_t>(info.memory_bytes), properties.totalGlobalMem);
    EXPECT_EQ(std::string(info.name),
              std::string(properties.name).substr(0, sizeof(info.name) - 1));
    int driver = 0;
    XQA_CUDA_CHECK(cudaDriverGetVersion(&driver));
    EXPECT_EQ(info.driver_version, driver);
  }
  xqaDeviceInfo_t info = {};
  info.struct_size = sizeof(info);
  EXPECT_EQ(xqaGetDeviceInfo(count, &info, nullptr), XQA_STATUS_NO_DEVICE);
  EXPECT_EQ(xqaGetDeviceInfo(-1, &info, nullptr), XQA_STATUS_INVALID_ARGUMENT);
  int after = 0;
  XQA_CUDA_CHECK(cudaGetDevice(&after));
  EXPECT_EQ(after, current);
}

}  // namespace
}  // namespace gpu
