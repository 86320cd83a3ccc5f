// SPDX-License-Identifier: Apache-2.0
// Measures one problem: on a GPU with cold caches through a CUDA graph, on the host by the clock.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "inputs.h"
#include "target.h"

namespace tool {

struct Timing {
  double median;
  double p10;
  double p90;
};
Timing timingOf(std::vector<double> samples);

struct Measurement {
  std::string variant;
  Timing us;          // microseconds of a call
  double ceiling_us;  // of reading the same bytes
  double visible_bytes;
  double error;
  bool passed;
  std::string failure;

  double terabytesPerSecond() const { return visible_bytes / us.median * 1e-6; }
  double ceilingPercent() const { return 100.0 * ceiling_us / us.median; }
};

// A problem with as many copies of its cache as make it cold, within max_pool_bytes. On the host
// one copy.
Inputs buildColdInputs(const ProblemSpec& spec, const std::optional<xqaDeviceInfo_t>& device,
                       size_t max_pool_bytes);
size_t poolBytes(const Inputs& inputs);

// Measures on one GPU; holds the pool that every problem uses in turn.
class DeviceBench {
 public:
  DeviceBench(const xqaDeviceInfo_t& device, size_t pool_bytes);

  Measurement measure(const Inputs& inputs, const ChosenVariant& variant);
  static double emptyKernelMicroseconds();

 private:
  double ceilingMicroseconds(size_t bytes, size_t pool_bytes);

  xqaDeviceInfo_t device_;
  DeviceMemory pool_;
  std::map<size_t, double> ceilings_;  // by bytes
};

Measurement measureOnHost(const Inputs& inputs, const ChosenVariant& variant);

// What a call costs the host, in nanoseconds; negative: does not apply.
struct HostCost {
  std::string variant;
  double find_variant;
  double workspace_size;
  double refused_decode;  // all checks of xqaDecode, no launch
  double decode;          // the whole call, the driver's launches included
  double empty_launch;    // the runtime's launch of an empty kernel, for comparison
};
HostCost measureHostCost(const Inputs& inputs, const ChosenVariant& variant,
                         const std::optional<xqaDeviceInfo_t>& device);

}  // namespace tool
