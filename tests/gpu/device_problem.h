// SPDX-License-Identifier: Apache-2.0
// A host problem on the device: uploaded, run through a GPU variant, read back and judged against
// the reference.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device_image.h"
#include "judge.h"
#include "suite.h"
#include "support/problem_builder.h"

namespace gpu {

using xqa::testing::CacheLayout;
using xqa::testing::DraftMask;
using xqa::testing::ProblemSpec;
using xqa::testing::UnusedSlots;

// The command that runs a problem like this one, and after it what the command line cannot say.
std::string reproduction(const HostProblem& problem);

class DeviceProblem {
 public:
  // Finds the variant of problem.key and uploads the problem. problem and worker must outlive this
  // object.
  DeviceProblem(HostProblem* problem, Worker* worker);

  xqaVariant_t variant() const { return variant_; }
  const xqaDeviceInfo_t& device() const { return device_; }
  size_t workspaceBytes() const { return workspace_bytes_; }
  std::string reproduction() const { return gpu::reproduction(*problem_); }

  // Device pointers; every call of launch() passes them.
  xqaDecodeArgs_t args;

  // Fills out, lse and the workspace with poison, or with another byte.
  void reset(unsigned char fill = DeviceImage::kPoison);
  // Enqueues the call on the worker's stream, or on another. Throws if it is refused.
  void launch(uint32_t flags = 0) { launch(worker_->stream, flags); }
  void launch(const Stream& stream, uint32_t flags = 0);
  // Uploads one of the problem's vectors again after it was changed on the host (same size).
  template <typename T>
  void refresh(const std::vector<T>& values) {
    image_.update(offsets_.at(values.data()), values.data(), values.size() * sizeof(T),
                  worker_->stream);
  }

  // Waits for the worker's stream and reads everything back: what judge() needs.
  const Outputs& read();
  Outputs run(uint32_t flags = 0) {
    launch(flags);
    return read();
  }
  // The same without the inputs, for many repeats.
  Outputs readOutputs() const;

  // Compares what was read with the reference, and checks that nothing else was written. Empty: all
  // is right; else one line that names the fault and reproduces it. The case is counted.
  std::string judge();
  // Whether what was read is what was uploaded, outputs and workspace included.
  bool untouched() const { return image_.unchanged(); }

 private:
  std::string findFault() const;
  std::string damageText(size_t at) const;

  HostProblem* problem_;
  Worker* worker_;
  xqaVariant_t variant_ = nullptr;
  xqaDeviceInfo_t device_;
  size_t workspace_bytes_ = 0;
  size_t workspace_offset_ = 0;
  DeviceImage image_;
  std::map<const void*, size_t> offsets_;  // of the image, by the start of the host buffer
  Outputs outputs_;
};

// Builds, runs and judges problems on all cores, the most expensive first. Each fault is a failure.
void expectLikeReference(const std::vector<ProblemSpec>& specs);

// The key's part of a spec: the variant that is to run it.
ProblemSpec specFor(xqaVariant_t variant);

// One spec for each (backend, head_dim, q_dtype, kv_dtype, math_dtype) that the device can launch;
// group_size is the default.
std::vector<ProblemSpec> allFamilies();

}  // namespace gpu
