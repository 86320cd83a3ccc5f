// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

namespace gpu {
namespace {

constexpr int kSkipped = 77;  // exit status that CTest reads as a skip
constexpr int32_t kOldestSm = 80;

int required_devices = 1;

struct Coverage {
  std::mutex mutex;
  std::set<std::string> variants;
  int64_t cases = 0;
  int64_t failed = 0;
};

Coverage& coverage() {
  static Coverage instance;
  return instance;
}

// Usable GPUs, or a sentence on why there is none.
int usableDevices(std::string* why_not) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    *why_not = std::string("no CUDA device: ") + cudaGetErrorString(error);
    return 0;
  }
  if (deviceInfo(0).sm < kOldestSm) {
    *why_not = "device 0 is below compute capability 8.0";
    return 0;
  }
  *why_not = std::to_string(count) + " CUDA devices of the " + std::to_string(required_devices) +
             " that are needed";
  return count;
}

size_t launchableCount() {
  size_t count = 0;
  for (const xqaBackend_t backend : {XQA_BACKEND_MMA_SYNC, XQA_BACKEND_SM90}) {
    count += launchableVariants(backend).size();
  }
  return count;
}

// One line of JSON per program; tests/gpu/summary.py merges them.
std::string summaryLine(const char* program, double seconds) {
  const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  const xqaDeviceInfo_t info = deviceInfo(0);
  Coverage& covered = coverage();
  std::string line = "{\"program\":\"" + std::string(program) + "\",\"device\":\"" + info.name +
                     "\",\"cuda_driver\":" + std::to_string(info.driver_version) + ",\"build\":\"" +
                     xqaGetBuildInfo() + "\",\"launchable\":" + std::to_string(launchableCount()) +
                     ",\"tests\":" + std::to_string(tests.test_to_run_count()) +
                     ",\"tests_failed\":" + std::to_string(tests.failed_test_count()) +
                     ",\"tests_skipped\":" + std::to_string(tests.skipped_test_count()) +
                     ",\"cases\":" + std::to_string(covered.cases) +
                     ",\"failed\":" + std::to_string(covered.failed) +
                     ",\"seconds\":" + std::to_string(seconds) + ",\"variants\":[";
  bool first = true;
  for (const std::string& name : covered.variants) {
    line += (first ? "\"" : ",\"") + name + "\"";
    first = false;
  }
  return line + "]}\n";
}

// Appends in one write, so that programs may run side by side.
bool appendSummary(const char* path, const std::string& line) {
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return false;
  const ssize_t written = write(file, line.data(), line.size());
  return close(file) == 0 && written == static_cast<ssize_t>(line.size());
}

}  // namespace

bool requireDevices(int count) {
  required_devices = count;
  return true;
}

xqaVariantInfo_t variantInfo(xqaVariant_t variant) {
  xqaVariantInfo_t info = {};
  info.struct_size = sizeof(info);
  if (xqaGetVariantInfo(variant, &info) != XQA_STATUS_SUCCESS) {
    throw std::runtime_error("xqaGetVariantInfo refuses a variant of the registry");
  }
  return info;
}

std::vector<xqaVariant_t> launchableVariants(xqaBackend_t backend) {
  int device = 0;
  XQA_CUDA_CHECK(cudaGetDevice(&device));
  const int32_t sm = deviceInfo(device).sm;
  std::vector<xqaVariant_t> variants;
  for (uint32_t i = 0; i < xqaVariantCount(); ++i) {
    const xqaVariantInfo_t info = variantInfo(xqaVariantAt(i));
    if (info.backend != backend || info.available == 0 || sm < info.sm_min) continue;
    if (info.sm_max != 0 && sm > info.sm_max) continue;
    variants.push_back(xqaVariantAt(i));
  }
  return variants;
}

std::vector<xqaBackend_t> launchableBackends() {
  std::vector<xqaBackend_t> backends;
  for (const xqaBackend_t backend : {XQA_BACKEND_MMA_SYNC, XQA_BACKEND_SM90}) {
    if (!launchableVariants(backend).empty()) backends.push_back(backend);
  }
  return backends;
}

const char* backendName(xqaBackend_t backend) {
  return backend == XQA_BACKEND_SM90 ? "sm90" : "mma_sync";
}

void recordCase(xqaVariant_t variant, bool passed) {
  const xqaVariantInfo_t info = variantInfo(variant);
  Coverage& covered = coverage();
  const std::lock_guard<std::mutex> lock(covered.mutex);
  covered.variants.insert(info.name);
  ++covered.cases;
  if (!passed) ++covered.failed;
}

void forEachCase(size_t count, const std::function<void(size_t, Worker&)>& task) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    try {
      Worker worker;
      for (size_t i = next++; i < count; i = next++) task(i, worker);
    } catch (const CudaError& error) {
      next = count;
      ADD_FAILURE() << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min(cores, count); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace gpu

// XQA_REQUIRE_GPU=N says that N GPUs are there: a program that needs no more of them must run.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* const required = std::getenv("XQA_REQUIRE_GPU");
  const bool must_run = required != nullptr && std::atoi(required) >= gpu::required_devices;
  std::string why_not;
  if (gpu::usableDevices(&why_not) < gpu::required_devices) {
    std::printf("%s: %s\n", must_run ? "FAILED" : "SKIPPED", why_not.c_str());
    return must_run ? EXIT_FAILURE : gpu::kSkipped;
  }
  const auto start = std::chrono::steady_clock::now();
  int status = RUN_ALL_TESTS();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  if (must_run && (tests.successful_test_count() == 0 || tests.skipped_test_count() > 0)) {
    std::printf("FAILED: XQA_REQUIRE_GPU is set, %d tests passed and %d were skipped\n",
                tests.successful_test_count(), tests.skipped_test_count());
    status = EXIT_FAILURE;
  }
  const char* const summary = std::getenv("XQA_GPU_SUMMARY");
  if (summary != nullptr) {
    const char* const slash = std::strrchr(argv[0], '/');
    const char* const program = slash == nullptr ? argv[0] : slash + 1;
    if (!gpu::appendSummary(summary, gpu::summaryLine(program, elapsed.count()))) {
      std::printf("FAILED: cannot append to %s\n", summary);
      status = EXIT_FAILURE;
    }
  }
  return status;
}
