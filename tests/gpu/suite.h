// SPDX-License-Identifier: Apache-2.0
// What a GPU test program has covered, and the work pool that its cases run on.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cuda_objects.h"
#include "xqa/xqa.h"

namespace gpu {

// How many GPUs the program needs, if not one: call it from an initialiser. True.
bool requireDevices(int count);

// Variants of a backend that this build and the current device can launch, in registry order.
std::vector<xqaVariant_t> launchableVariants(xqaBackend_t backend);

xqaVariantInfo_t variantInfo(xqaVariant_t variant);

// GPU backends that have variants to launch: what every test is repeated for.
std::vector<xqaBackend_t> launchableBackends();

const char* backendName(xqaBackend_t backend);

// Counts a case for the summary: one problem whose results have been judged. Thread-safe.
void recordCase(xqaVariant_t variant, bool passed);

// What each worker thread owns: cases on different workers overlap on the GPU.
struct Worker {
  Stream stream;
  DeviceBuffer memory;
};

// Runs task(i, worker) for i in [0, count) on all CPU cores, in order of i. An exception of a task
// becomes a failure of the running test; a CUDA error also ends the rest, which could only repeat
// it.
void forEachCase(size_t count, const std::function<void(size_t, Worker&)>& task);

}  // namespace gpu
