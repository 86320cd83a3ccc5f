// SPDX-License-Identifier: Apache-2.0
// A program of its own, which is skipped with fewer than two GPUs: device 1 first, then both, then
// two threads.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "dice.h"

namespace gpu {
namespace {

const bool kTwoDevices = requireDevices(2);

// Runs a problem on a device and gives what is wrong, or nothing.
std::string faultOn(int device, const ProblemSpec& spec) {
  try {
    XQA_CUDA_CHECK(cudaSetDevice(device));
    Worker worker;
    HostProblem problem = xqa::testing::buildProblem(spec);
    DeviceProblem on_device(&problem, &worker);
    on_device.run();
    int current = -1;
    XQA_CUDA_CHECK(cudaGetDevice(&current));
    if (current != device) return "the current device has changed";
    return on_device.judge();
  } catch (const std::exception& error) {
    return error.what();
  }
}

ProblemSpec specOf(ProblemSpec family) {
  family.num_kv_heads = 2;
  family.seq_lens = {3000, 1, 65};
  return family;
}

TEST(TwoDevices, SecondDeviceFirst) {
  for (const int device : {1, 0, 1}) {
    for (const ProblemSpec& family : allFamilies()) {
      const std::string fault = faultOn(device, specOf(family));
      EXPECT_TRUE(fault.empty()) << "device " << device << ": " << fault;
    }
  }
}

TEST(TwoDevices, PrepareKeepsTheCurrentDevice) {
  const xqaVariant_t variant = launchableVariants(launchableBackends().front()).front();
  for (const int current : {1, 0}) {
    XQA_CUDA_CHECK(cudaSetDevice(current));
    EXPECT_EQ(xqaPrepareVariant(variant, 1 - current, nullptr), XQA_STATUS_SUCCESS);
    int after = -1;
    XQA_CUDA_CHECK(cudaGetDevice(&after));
    EXPECT_EQ(after, current);
  }
}

TEST(TwoDevices, TwoThreads) {
  std::vector<std::thread> threads;
  for (const int device : {0, 1}) {
    threads.emplace_back([device] {
      XQA_CUDA_CHECK(cudaSetDevice(device));
      for (int repeat = 0; repeat < 5; ++repeat) {
        for (const ProblemSpec& family : allFamilies()) {
          const std::string fault = faultOn(device, specOf(family));
          EXPECT_TRUE(fault.empty()) << "device " << device << ": " << fault;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gpu
