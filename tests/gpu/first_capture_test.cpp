// SPDX-License-Identifier: Apache-2.0
// A program of its own: the first call that the process ever makes of any kernel is inside a
// global-mode capture, where loading or allocating anything is an error. Prepare alone comes
// before.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "dice.h"

namespace gpu {
namespace {

TEST(FirstCapture, AfterPrepareOnly) {
  Dice dice(3);
  Worker worker;
  for (ProblemSpec spec : allFamilies()) {
    for (const int32_t group_size : {1, 12, 24, 48}) {  // every row tile
      spec.group_size = group_size;
      spec.seq_lens = {dice.pick({5, 3000}), 70};
      HostProblem problem = xqa::testing::buildProblem(spec);
      DeviceProblem on_device(&problem, &worker);
      xqaDiagnostic_t diagnostic = {};
      diagnostic.struct_size = sizeof(diagnostic);
      ASSERT_EQ(xqaPrepareVariant(on_device.variant(), on_device.device().device, &diagnostic),
                XQA_STATUS_SUCCESS)
          << diagnostic.message;
      const Graph graph(worker.stream, [&] { on_device.launch(); });
      graph.launch(worker.stream);
      on_device.read();
      const std::string fault = on_device.judge();
      EXPECT_TRUE(fault.empty()) << fault;
    }
  }

  // The merge kernels are loaded by any of those.
  constexpr int64_t kRows = 3;
  constexpr int32_t kDim = 64;
  const DeviceBuffer partial_out(2 * kRows * kDim * sizeof(float));
  const DeviceBuffer partial_lse(2 * kRows * sizeof(float));
  const DeviceBuffer out(kRows * kDim * sizeof(float));
  XQA_CUDA_CHECK(cudaMemsetAsync(partial_out.data(), 0, partial_out.bytes(), worker.stream));
  XQA_CUDA_CHECK(cudaMemsetAsync(partial_lse.data(), 0, partial_lse.bytes(), worker.stream));
  XQA_CUDA_CHECK(cudaMemsetAsync(out.data(), 0xFF, out.bytes(), worker.stream));
  worker.stream.synchronize();
  xqaMergeArgs_t merge = {};
  merge.struct_size = sizeof(merge);
  merge.num_parts = 2;
  merge.head_dim = kDim;
  merge.rows = kRows;
  merge.partial_dtype = XQA_DTYPE_F32;
  merge.partial_out = partial_out.data();
  merge.partial_lse = static_cast<const float*>(partial_lse.data());
  merge.out = out.data();
  xqaStatus_t status = XQA_STATUS_CUDA_ERROR;
  const Graph graph(worker.stream,
                    [&] { status = xqaMergePartials(&merge, worker.stream, nullptr); });
  ASSERT_EQ(status, XQA_STATUS_SUCCESS);
  graph.launch(worker.stream);
  std::vector<float> merged(kRows * kDim, -1.0f);
  XQA_CUDA_CHECK(cudaMemcpyAsync(merged.data(), out.data(), out.bytes(), cudaMemcpyDeviceToHost,
                                 worker.stream));
  worker.stream.synchronize();
  EXPECT_EQ(merged, std::vector<float>(kRows * kDim, 0.0f));
}

}  // namespace
}  // namespace gpu
