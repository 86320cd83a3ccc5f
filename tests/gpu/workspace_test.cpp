// SPDX-License-Identifier: Apache-2.0
// Workspace, calls side by side, repeats and batch sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "dice.h"

namespace gpu {
namespace {

// Exactly the queried size between guard zones, which judge() checks; whatever it holds before a
// call, and whatever call of another batch and split used the same memory before.
TEST(Workspace, ContentsHaveNoInfluence) {
  const std::vector<ProblemSpec> families = allFamilies();
  forEachCase(families.size(), [&](size_t f, Worker& worker) {
    ProblemSpec spec = families[f];
    for (const int32_t batch : {1, 3, 200, 2}) {
      Dice dice(static_cast<uint64_t>(batch));
      spec.num_kv_heads = dice.pick({1, 2, 4});
      spec.q_tokens = dice.pick({1, 2});
      spec.seq_lens.clear();
      for (int32_t b = 0; b < batch; ++b) {
        spec.seq_lens.push_back(dice.below(batch > 10 ? 130 : 3000));
      }
      HostProblem problem = xqa::testing::buildProblem(spec);
      DeviceProblem on_device(&problem, &worker);
      const Outputs poisoned = on_device.run();
      const std::string fault = on_device.judge();
      if (!fault.empty()) ADD_FAILURE() << fault;
      for (const int fill : {0x00, 0x7F, 0xFF}) {
        on_device.reset(static_cast<unsigned char>(fill));
        on_device.launch();
        on_device.launch();  // finds what the first one left
        if (on_device.readOutputs() != poisoned) {
          ADD_FAILURE() << "bytes 0x" << std::hex << fill
                        << " in workspace and outputs change the result: "
                        << on_device.reproduction();
        }
      }
    }
  });
}

TEST(Workspace, SizeNeverFalls) {
  const xqaDeviceInfo_t device = deviceInfo(0);
  for (ProblemSpec spec : allFamilies()) {
    for (const int32_t group_size : {1, 8, 33, 128}) {
      spec.group_size = group_size;
      HostProblem problem = xqa::testing::buildProblem(spec);
      xqaVariant_t variant = nullptr;
      ASSERT_EQ(xqaFindVariant(&problem.key, &device, nullptr, &variant), XQA_STATUS_SUCCESS);
      const auto size = [&](int32_t batch, int32_t q_tokens) {
        problem.shape.batch = batch;
        problem.shape.q_tokens = q_tokens;
        size_t bytes = 0;
        EXPECT_EQ(xqaGetWorkspaceSize(variant, &device, &problem.shape, &bytes, nullptr),
                  XQA_STATUS_SUCCESS);
        return bytes;
      };
      size_t before = 0;
      for (const int32_t batch : {0, 1, 2, 3, 16, 131, 132, 133, 264, 1000, 70000}) {
        const size_t bytes = size(batch, 1);
        EXPECT_GE(bytes, before) << "batch " << batch << ": " << reproduction(problem);
        before = bytes;
      }
      before = 0;
      for (const int32_t q_tokens : {1, 2, 3, 4, 7, 8, 9, 16, 33, 64}) {
        const size_t bytes = size(4, q_tokens);
        EXPECT_GE(bytes, before) << "q " << q_tokens << ": " << reproduction(problem);
        before = bytes;
      }
    }
  }
}

TEST(Workspace, ThreadsAndStreamsAgreeWithSerialCalls) {
  std::vector<ProblemSpec> specs;
  Dice dice(7);
  for (ProblemSpec spec : allFamilies()) {
    spec.group_size = dice.pick({4, 8, 20});
    spec.num_kv_heads = dice.pick({1, 4});
    spec.seq_lens = {1 + dice.below(4000), 33, 700};
    specs.push_back(spec);
  }
  std::vector<HostProblem> problems;
  std::vector<Outputs> serial;
  for (const ProblemSpec& spec : specs) {
    Worker worker;
    problems.push_back(xqa::testing::buildProblem(spec));
    serial.push_back(DeviceProblem(&problems.back(), &worker).run());
  }
  constexpr int kRepeats = 25;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < problems.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        Worker worker;
        DeviceProblem on_device(&problems[i], &worker);
        int different = 0;
        for (int repeat = 0; repeat < kRepeats; ++repeat) {
          on_device.reset();
          on_device.launch();
          if (on_device.readOutputs() != serial[i]) ++different;
        }
        EXPECT_EQ(different, 0) << "of " << kRepeats
                                << " concurrent calls differ from a serial one: "
                                << on_device.reproduction();
        recordCase(on_device.variant(), different == 0);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Copies that fill the memory system on another stream change the order in which blocks run and
// finish.
TEST(Determinism, RepeatsBesideMemoryTraffic) {
  constexpr int kRepeats = 300;
  constexpr size_t kTrafficBytes = size_t{256} << 20;
  const DeviceBuffer from(kTrafficBytes);
  const DeviceBuffer to(kTrafficBytes);
  const Stream traffic;
  for (ProblemSpec spec : allFamilies()) {
    spec.num_kv_heads = 4;
    spec.q_tokens = 2;
    spec.seq_lens = {4099, 1, 700, 65, 2048};
    Worker worker;
    HostProblem problem = xqa::testing::buildProblem(spec);
    DeviceProblem on_device(&problem, &worker);
    const Outputs first = on_device.run();
    const std::string fault = on_device.judge();
    if (!fault.empty()) ADD_FAILURE() << fault;
    int different = 0;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      XQA_CUDA_CHECK(cudaMemcpyAsync(to.data(), from.data(), kTrafficBytes,
                                     cudaMemcpyDeviceToDevice, traffic));
      on_device.reset();
      on_device.launch();
      if (on_device.readOutputs() != first) ++different;
    }
    EXPECT_EQ(different, 0) << "of " << kRepeats << " repeats differ: " << on_device.reproduction();
    recordCase(on_device.variant(), different == 0);
  }
  traffic.synchronize();
}

TEST(LargeBatch, BeyondTheLimitsOfAGridDimension) {
  std::vector<ProblemSpec> specs;
  for (ProblemSpec spec : allFamilies()) {
    if (spec.head_dim == 256) continue;
    for (const int32_t batch : {65535, 65536, 70000}) {
      spec.group_size = batch == 65536 ? 1 : 2;
      spec.page_tokens = 1;
      spec.seq_lens.clear();
      for (int32_t b = 0; b < batch; ++b) spec.seq_lens.push_back(1 + b % 2);
      specs.push_back(spec);
    }
  }
  expectLikeReference(specs);
}

TEST(LargeBatch, NoRequestIsSuccessAndWritesNothing) {
  for (const ProblemSpec& family : allFamilies()) {
    Worker worker;
    HostProblem problem = xqa::testing::buildProblem(family);
    problem.shape.batch = 0;
    DeviceProblem on_device(&problem, &worker);
    EXPECT_EQ(on_device.workspaceBytes(), 0u);
    on_device.run();
    EXPECT_TRUE(on_device.untouched()) << on_device.reproduction();
    recordCase(on_device.variant(), on_device.untouched());
  }
}

}  // namespace
}  // namespace gpu
