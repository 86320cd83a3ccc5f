// SPDX-License-Identifier: Apache-2.0
// CUDA graphs whose replays see new device data, and programmatic dependent launch.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "dice.h"

namespace gpu {
namespace {

// Global-mode captures forbid some CUDA calls in every thread: these tests use one.
TEST(GraphReplay, LengthsTablesAndScalesChange) {
  size_t index = 0;
  for (ProblemSpec spec : allFamilies()) {
    spec.seed = index++;
    spec.num_kv_heads = 2;
    spec.q_tokens = index % 2 == 0 ? 1 : 2;
    spec.page_tokens = 16;
    spec.k_scale = 0.7f;
    spec.seq_lens = {1100, 640};
    Worker worker;
    HostProblem problem = xqa::testing::buildProblem(spec);
    std::fill(problem.seq_lens.begin(), problem.seq_lens.end(), 1);
    DeviceProblem on_device(&problem, &worker);
    ASSERT_EQ(xqaPrepareVariant(on_device.variant(), on_device.device().device, nullptr),
              XQA_STATUS_SUCCESS);
    const Graph graph(worker.stream, [&] { on_device.launch(); });

    const auto replay = [&](const char* change) {
      on_device.refresh(problem.seq_lens);
      on_device.refresh(problem.page_table);
      on_device.refresh(problem.k_scale);
      on_device.reset();
      graph.launch(worker.stream);
      const Outputs replayed = on_device.read();
      const std::string fault = on_device.judge();
      EXPECT_TRUE(fault.empty()) << change << ": " << fault;
      on_device.reset();
      EXPECT_TRUE(on_device.run() == replayed)
          << change << ": a call and a replay differ: " << on_device.reproduction();
    };
    for (const int32_t length :
         {1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 257, 511, 513, 1023, 1025, 1100}) {
      problem.seq_lens = {length, std::max(0, 640 - length)};
      replay("length");
    }
    problem.k_scale[0] = 1.3f;
    replay("scale");
    // The second request moves to pages of the first.
    const auto row = problem.page_table.begin();
    std::copy_n(row + 2, 40, row + problem.shape.page_table_stride);
    problem.seq_lens = {77, 640};
    replay("page table");
  }
}

// Each call's output is the next call's query: a call that starts too early reads stale data.
class Chain {
 public:
  static constexpr int kCalls = 12;

  Chain(HostProblem* problem, Worker* worker) : on_device(problem, worker) {
    for (DeviceBuffer& buffer : links_) buffer = DeviceBuffer(problem->out.size());
  }

  void enqueue(uint32_t flags) {
    const void* const q = on_device.args.q;
    void* const out = on_device.args.out;
    for (int call = 0; call < kCalls; ++call) {
      if (call > 0) on_device.args.q = links_[(call - 1) % 2].data();
      on_device.args.out = call + 1 < kCalls ? links_[call % 2].data() : out;
      on_device.launch(flags);
    }
    on_device.args.q = q;
    on_device.args.out = out;
  }

  DeviceProblem on_device;

 private:
  DeviceBuffer links_[2];
};

TEST(DependentLaunch, ChainsGiveTheSameBits) {
  for (ProblemSpec spec : allFamilies()) {
    for (const bool split : {false, true}) {
      spec.num_kv_heads = 2;
      spec.softmax_scale = 0.4f;
      spec.v_scale = 6.0f;  // keeps the queries of a chain from fading
      spec.seq_lens = {split ? 3000 : 60, 33, 70, 1};
      Worker worker;
      HostProblem problem = xqa::testing::buildProblem(spec);
      Chain chain(&problem, &worker);
      DeviceProblem& on_device = chain.on_device;
      ASSERT_EQ(xqaPrepareVariant(on_device.variant(), on_device.device().device, nullptr),
                XQA_STATUS_SUCCESS);
      chain.enqueue(0);
      const Outputs plain = on_device.readOutputs();
      int different = 0;
      for (const uint32_t flags :
           {uint32_t{XQA_DECODE_PDL}, uint32_t{XQA_DECODE_PDL | XQA_DECODE_PDL_OLD_KV_READY}}) {
        const Graph graph(worker.stream, [&] { chain.enqueue(flags); });
        for (int repeat = 0; repeat < 20; ++repeat) {
          on_device.reset();
          chain.enqueue(flags);
          if (on_device.readOutputs() != plain) ++different;
          on_device.reset();
          graph.launch(worker.stream);
          if (on_device.readOutputs() != plain) ++different;
        }
      }
      EXPECT_EQ(different, 0) << "of 80 chains under dependent launch differ: "
                              << on_device.reproduction();
      recordCase(on_device.variant(), different == 0);

      on_device.reset();
      on_device.run(XQA_DECODE_PDL);
      const std::string fault = on_device.judge();
      EXPECT_TRUE(fault.empty()) << fault;
    }
  }
}

}  // namespace
}  // namespace gpu
