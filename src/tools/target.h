// SPDX-License-Identifier: Apache-2.0
// Where a problem runs: a GPU or the host, through which variant, on which memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device.h"
#include "inputs.h"
#include "xqa/xqa.h"

namespace tool {

// The GPU of an ordinal, made current; nothing if there is none.
std::optional<xqaDeviceInfo_t> openDevice(int32_t ordinal);

// Throws a Failure that carries the status and the diagnostic's sentence.
void requireSuccess(const char* function, xqaStatus_t status, const xqaDiagnostic_t& diagnostic);
xqaDiagnostic_t emptyDiagnostic();

// The variant for a problem, or a Failure with the library's explanation.
struct ChosenVariant {
  xqaVariant_t handle;
  xqaVariantInfo_t info;
  bool onHost() const { return info.backend == XQA_BACKEND_HOST; }
};
ChosenVariant chooseVariant(const Inputs& inputs, const std::optional<xqaDeviceInfo_t>& device);

// The cache of all rotations in host memory.
std::vector<uint64_t> makeHostPool(const Inputs& inputs);

// A problem's tensors on the device, its cache in a pool that is the caller's.
class DeviceProblem {
 public:
  DeviceProblem(const Inputs& inputs, const ChosenVariant& variant, const xqaDeviceInfo_t& device,
                void* pool);

  // Launches one call on the cache of a rotation.
  void launch(int32_t rotation, xqaStream_t stream) const;
  // The same without a workspace: everything is checked, nothing is launched.
  xqaStatus_t refuse(xqaStream_t stream) const;
  size_t workspaceBytes() const { return workspace_bytes_; }

  std::vector<uint64_t> output() const;  // as bytes, packed
  std::vector<float> lse() const;
  // Fills output and log-sum-exp with NaN, so that what a call does not write shows.
  void poisonOutput() const;

 private:
  const void* upload(const void* host, size_t bytes);

  const Inputs& inputs_;
  xqaVariant_t variant_;
  xqaDeviceInfo_t device_;
  xqaDecodeArgs_t args_;  // of rotation 0
  size_t out_bytes_;
  size_t workspace_bytes_ = 0;
  std::vector<DeviceMemory> memory_;  // small tensors
  DeviceMemory out_;
  DeviceMemory lse_;
  DeviceMemory workspace_;
};

}  // namespace tool
