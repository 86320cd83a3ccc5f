// SPDX-License-Identifier: Apache-2.0
// All that the tool itself does with CUDA. A tool built without CUDA links device_none.cpp, whose
// functions are never reached because no device is found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "xqa/xqa.h"

namespace tool {

// Makes a device current for the calls below.
void selectDevice(int32_t device);
size_t freeDeviceBytes();

// An allocation of device memory, aligned to 256 bytes.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(size_t bytes);
  DeviceMemory(const void* host, size_t bytes);  // filled from host memory
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();

  void* data() const { return data_; }
  void copyTo(void* host, size_t bytes) const;

 private:
  void swap(DeviceMemory& other) noexcept {
    void* const mine = data_;
    data_ = other.data_;
    other.data_ = mine;
  }

  void* data_ = nullptr;
};

// Element i becomes the encoding of randomNormal(seed, i).
void fillNormal(void* to, xqaDtype_t dtype, int64_t elems, uint64_t seed);
void fillBytes(void* to, int value, size_t bytes);

// Runs once on a stream of its own and waits.
void runOnStream(const std::function<void(xqaStream_t)>& work);

// Captures launch(0 .. launches - 1) into one graph and replays it: microseconds of a launch, the
// mean of each replay.
std::vector<double> timeGraph(int32_t launches, int32_t replays,
                              const std::function<void(int32_t, xqaStream_t)>& launch);

// Host time: microseconds of one work() that launches, over bursts that the launch queue swallows.
double timeHostCall(const std::function<void(xqaStream_t)>& work);

// Reads memory with 16-byte loads and does nothing else: the ceiling of what a decode kernel can
// reach.
void launchRead(const void* from, size_t bytes, xqaStream_t stream);
void launchEmpty(xqaStream_t stream);

}  // namespace tool
