// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "check.h"
#include "formats.h"

namespace tool {
namespace {

using Clock = std::chrono::steady_clock;

// Multiply-adds and units that the check of a row may cost: a fraction of a second.
constexpr double kCheckBudget = 5e7;
constexpr size_t kMaxUnits = 2;

// Copies of the cache cover at least this much, and several times the L2.
constexpr double kColdBytes = 420e6;
constexpr double kColdL2Multiple = 4;
constexpr int32_t kMaxRotations = 4096;

// A graph has at least this many launches and takes at least this long.
constexpr int32_t kMinLaunches = 20;
constexpr double kMinGraphMicroseconds = 2000;
constexpr int32_t kReplays = 21;
// For the size of a graph only: what a launch takes at the least.
constexpr double kGuessedBytesPerMicrosecond = 4e6;
constexpr double kGuessedLaunchMicroseconds = 3;

int32_t launchesPerGraph(double bytes, int32_t rotations) {
  const double guess = kGuessedLaunchMicroseconds + bytes / kGuessedBytesPerMicrosecond;
  const int32_t wanted =
      std::max(kMinLaunches, static_cast<int32_t>(std::ceil(kMinGraphMicroseconds / guess)));
  return (wanted + rotations - 1) / rotations * rotations;
}

double microsecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// Nanoseconds of one call: the median over bursts.
template <typename Work>
double nanosecondsOf(const Work& work) {
  constexpr int kBursts = 51;
  constexpr int kCalls = 2000;
  std::vector<double> samples;
  for (int burst = 0; burst < kBursts; ++burst) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) work();
    samples.push_back(1e3 * microsecondsSince(begin) / kCalls);
  }
  return timingOf(std::move(samples)).median;
}

// Microseconds of one pass over memory with the widest loads that plain code gives.
double hostReadMicroseconds(const std::vector<uint64_t>& memory, double bytes) {
  const size_t words = std::min(memory.size(), static_cast<size_t>(bytes / sizeof(uint64_t)));
  const Clock::time_point begin = Clock::now();
  uint64_t sum = 0;
  for (size_t i = 0; i < words; ++i) sum ^= memory[i];
  const volatile uint64_t sink = sum;  // keeps the loop
  static_cast<void>(sink);
  return microsecondsSince(begin);
}

void setCheck(const CheckResult& check, Measurement* measurement) {
  measurement->error = check.comparison.error();
  measurement->passed = check.comparison.passed();
  measurement->failure = check.comparison.failure();
}

}  // namespace

Timing timingOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double fraction) {
    return samples[static_cast<size_t>(std::lround(fraction * double(samples.size() - 1)))];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

size_t poolBytes(const Inputs& inputs) {
  return static_cast<size_t>(inputs.pool_elems) * dtypeBytes(inputs.spec.kvDtype());
}

Inputs buildColdInputs(const ProblemSpec& spec, const std::optional<xqaDeviceInfo_t>& device,
                       size_t max_pool_bytes) {
  Inputs inputs = buildInputs(spec, 1);
  if (!device || spec.backend == XQA_BACKEND_HOST) return inputs;
  const double target = std::max(kColdBytes, kColdL2Multiple * double(device->l2_bytes));
  const double bytes = std::max<double>(1.0, double(inputs.visibleBytes()));
  const double most = static_cast<double>(max_pool_bytes) / static_cast<double>(poolBytes(inputs));
  const double wanted = std::clamp(std::ceil(target / bytes), 2.0, double(kMaxRotations));
  const int32_t rotations = static_cast<int32_t>(std::max(1.0, std::min(wanted, most)));
  return rotations == 1 ? inputs : buildInputs(spec, rotations);
}

DeviceBench::DeviceBench(const xqaDeviceInfo_t& device, size_t pool_bytes)
    : device_(device), pool_(pool_bytes) {}

Measurement DeviceBench::measure(const Inputs& inputs, const ChosenVariant& variant) {
  fillNormal(pool_.data(), inputs.spec.kvDtype(), inputs.pool_elems, inputs.poolSeed());
  const DeviceProblem problem(inputs, variant, device_, pool_.data());
  problem.poisonOutput();

  Measurement result = {};
  result.variant = variant.info.name;
  result.visible_bytes = static_cast<double>(inputs.visibleBytes());
  result.us = timingOf(timeGraph(
      launchesPerGraph(result.visible_bytes, inputs.rotations), kReplays,
      [&](int32_t i, xqaStream_t stream) { problem.launch(i % inputs.rotations, stream); }));
  result.ceiling_us =
      ceilingMicroseconds(static_cast<size_t>(inputs.visibleBytes()), poolBytes(inputs));

  // The last call of the check is rotation 0, the one that the reference knows.
  problem.poisonOutput();
  runOnStream([&](xqaStream_t stream) { problem.launch(0, stream); });
  setCheck(
      checkOutput(inputs, chooseUnits(inputs, kCheckBudget, kMaxUnits),
                  Expectation::kLibraryReference, problem.output().data(), problem.lse().data()),
      &result);
  return result;
}

double DeviceBench::ceilingMicroseconds(size_t bytes, size_t pool_bytes) {
  const auto known = ceilings_.find(bytes);
  if (known != ceilings_.end()) return known->second;
  constexpr size_t kAlignment = 256;
  const size_t step = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const int32_t rotations = static_cast<int32_t>(std::clamp<size_t>(
      pool_bytes / std::max<size_t>(1, step), 1, static_cast<size_t>(kMaxRotations)));
  const uint8_t* const pool = static_cast<const uint8_t*>(pool_.data());
  const double us =
      timingOf(timeGraph(launchesPerGraph(double(bytes), rotations), kReplays,
                         [&](int32_t i, xqaStream_t stream) {
                           launchRead(pool + static_cast<size_t>(i % rotations) * step, bytes,
                                      stream);
                         }))
          .median;
  ceilings_[bytes] = us;
  return us;
}

double DeviceBench::emptyKernelMicroseconds() {
  constexpr int32_t kLaunches = 2000;
  return timingOf(timeGraph(kLaunches, kReplays,
                            [](int32_t, xqaStream_t stream) { launchEmpty(stream); }))
      .median;
}

Measurement measureOnHost(const Inputs& inputs, const ChosenVariant& variant) {
  constexpr int kMinSamples = 3;
  constexpr double kEnoughMicroseconds = 3e5;
  const std::vector<uint64_t> pool = makeHostPool(inputs);
  std::vector<uint64_t> out(static_cast<size_t>(inputs.outElems()) / 4 + 1, ~uint64_t{0});
  std::vector<float> lse(static_cast<size_t>(inputs.lseElems()));
  const xqaDecodeArgs_t args =
      inputs.hostArgs(pool.data(), out.data(), lse.empty() ? nullptr : lse.data());
  std::vector<double> samples;
  std::vector<double> reads;
  double spent = 0;
  Measurement result = {};
  result.variant = variant.info.name;
  result.visible_bytes = static_cast<double>(inputs.visibleBytes());
  while (samples.size() < kMinSamples || spent < kEnoughMicroseconds) {
    xqaDiagnostic_t diagnostic = emptyDiagnostic();
    const Clock::time_point begin = Clock::now();
    const xqaStatus_t status =
        xqaDecode(variant.handle, nullptr, &inputs.shape, &args, nullptr, &diagnostic);
    samples.push_back(microsecondsSince(begin));
    requireSuccess("xqaDecode", status, diagnostic);
    reads.push_back(hostReadMicroseconds(pool, result.visible_bytes));
    spent += samples.back();
  }
  result.us = timingOf(std::move(samples));
  result.ceiling_us = timingOf(std::move(reads)).median;
  setCheck(checkOutput(inputs, chooseUnits(inputs, kCheckBudget, kMaxUnits), Expectation::kDense,
                       out.data(), lse.data()),
           &result);
  return result;
}

HostCost measureHostCost(const Inputs& inputs, const ChosenVariant& variant,
                         const std::optional<xqaDeviceInfo_t>& device) {
  const xqaDeviceInfo_t* const info = device ? &*device : nullptr;
  HostCost cost = {variant.info.name, -1, -1, -1, -1, -1};
  cost.find_variant = nanosecondsOf([&] {
    xqaVariant_t found = nullptr;
    xqaFindVariant(&inputs.key, info, &inputs.shape, &found);
  });
  cost.workspace_size = nanosecondsOf([&] {
    size_t bytes = 0;
    xqaGetWorkspaceSize(variant.handle, info, &inputs.shape, &bytes, nullptr);
  });
  if (variant.onHost()) return cost;

  const DeviceMemory pool(poolBytes(inputs));
  fillNormal(pool.data(), inputs.spec.kvDtype(), inputs.pool_elems, inputs.poolSeed());
  const DeviceProblem problem(inputs, variant, *device, pool.data());
  if (problem.workspaceBytes() > 0) {
    cost.refused_decode = nanosecondsOf([&] { problem.refuse(nullptr); });
  }
  cost.decode = 1e3 * timeHostCall([&](xqaStream_t stream) { problem.launch(0, stream); });
  cost.empty_launch = 1e3 * timeHostCall([](xqaStream_t stream) { launchEmpty(stream); });
  return cost;
}

}  // namespace tool
