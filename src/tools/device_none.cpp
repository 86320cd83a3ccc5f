// SPDX-License-Identifier: Apache-2.0
// A tool built without CUDA.
#include "arguments.h"
#include "device.h"

namespace tool {
namespace {

[[noreturn]] void refuse() { throw Failure("this tool was built without CUDA"); }

}  // namespace

void selectDevice(int32_t) { refuse(); }
size_t freeDeviceBytes() { refuse(); }
DeviceMemory::DeviceMemory(size_t) { refuse(); }
DeviceMemory::DeviceMemory(const void*, size_t) { refuse(); }
DeviceMemory::~DeviceMemory() = default;
void DeviceMemory::copyTo(void*, size_t) const { refuse(); }
void fillNormal(void*, xqaDtype_t, int64_t, uint64_t) { refuse(); }
void fillBytes(void*, int, size_t) { refuse(); }
void runOnStream(const std::function<void(xqaStream_t)>&) { refuse(); }
std::vector<double> timeGraph(int32_t, int32_t, const std::function<void(int32_t, xqaStream_t)>&) {
  refuse();
}
double timeHostCall(const std::function<void(xqaStream_t)>&) { refuse(); }
void launchRead(const void*, size_t, xqaStream_t) { refuse(); }
void launchEmpty(xqaStream_t) { refuse(); }

}  // namespace tool
