// SPDX-License-Identifier: Apache-2.0
// xqa run: computes problems and checks the results.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "check.h"
#include "commands.h"
#include "formats.h"
#include "json.h"
#include "presets.h"
#include "target.h"

namespace tool {
namespace {

// Multiply-adds that a check may cost: one to two seconds of one core.
constexpr double kCheckBudget = 5e8;
constexpr size_t kMaxUnits = 1 << 16;

struct RunResult {
  std::string title;
  std::string problem;
  ChosenVariant variant;
  std::string device;
  double microseconds;
  double terabytes_per_second;
  CheckResult check;
  bool checks_lse;
};

// Sizes that nobody gave: a second or two on one core of the host, a realistic batch on a GPU.
// Lengths lie on both sides of a window.
void setDefaultSizes(bool on_gpu, ProblemSpec* spec) {
  if (spec->batch < 0) spec->batch = on_gpu ? 16 : 2;
  if (spec->lengths.kind != Lengths::Kind::kUnset) return;
  if (on_gpu) {
    spec->lengths = Lengths::parse("512..16384");
    return;
  }
  spec->lengths.kind = Lengths::Kind::kList;
  spec->lengths.values = {513, 200};
  if (spec->window > 0) {
    spec->lengths.values = {spec->window + 101, spec->window / 2 + 1};
  }
}

void runOnDevice(const Inputs& inputs, const xqaDeviceInfo_t& device, RunResult* result) {
  const xqaDtype_t dtype = inputs.spec.kvDtype();
  const DeviceMemory pool(static_cast<size_t>(inputs.pool_elems) * dtypeBytes(dtype));
  fillNormal(pool.data(), dtype, inputs.pool_elems, inputs.poolSeed());
  const DeviceProblem problem(inputs, result->variant, device, pool.data());
  problem.poisonOutput();
  runOnStream([&](xqaStream_t stream) { problem.launch(0, stream); });
  const std::vector<uint64_t> out = problem.output();
  const std::vector<float> lse = problem.lse();

  constexpr int32_t kLaunches = 20;
  constexpr int32_t kReplays = 5;
  std::vector<double> samples = timeGraph(
      kLaunches, kReplays, [&](int32_t, xqaStream_t stream) { problem.launch(0, stream); });
  std::nth_element(samples.begin(), samples.begin() + kReplays / 2, samples.end());
  result->microseconds = samples[kReplays / 2];
  result->check = checkOutput(inputs, chooseUnits(inputs, kCheckBudget, kMaxUnits),
                              Expectation::kLibraryReference, out.data(), lse.data());
}

void runOnHost(const Inputs& inputs, RunResult* result) {
  const std::vector<uint64_t> pool = makeHostPool(inputs);
  // NaN in every format, so that what a call does not write shows.
  std::vector<uint64_t> out(static_cast<size_t>(inputs.outElems()) / 4 + 1, ~uint64_t{0});
  std::vector<float> lse(static_cast<size_t>(inputs.lseElems()),
                         std::numeric_limits<float>::quiet_NaN());
  const xqaDecodeArgs_t args =
      inputs.hostArgs(pool.data(), out.data(), lse.empty() ? nullptr : lse.data());
  xqaDiagnostic_t diagnostic = emptyDiagnostic();
  const auto begin = std::chrono::steady_clock::now();
  const xqaStatus_t status =
      xqaDecode(result->variant.handle, nullptr, &inputs.shape, &args, nullptr, &diagnostic);
  const std::chrono::duration<double, std::micro> elapsed =
      std::chrono::steady_clock::now() - begin;
  requireSuccess("xqaDecode", status, diagnostic);
  result->microseconds = elapsed.count();
  result->check = checkOutput(inputs, chooseUnits(inputs, kCheckBudget, kMaxUnits),
                              Expectation::kDense, out.data(), lse.data());
}

RunResult runLayer(const Layer& layer, const std::optional<xqaDeviceInfo_t>& device) {
  ProblemSpec spec = layer.spec;
  setDefaultSizes(device.has_value() && spec.backend != XQA_BACKEND_HOST, &spec);
  const Inputs inputs = buildInputs(spec, 1);
  RunResult result = {layer.title,
                      problemText(spec),
                      chooseVariant(inputs, device),
                      "host",
                      0,
                      0,
                      {Comparison(boundsFor(spec)), "", 0, 0, 0},
                      spec.lse};
  if (result.variant.onHost()) {
    runOnHost(inputs, &result);
  } else {
    result.device = device->name;
    runOnDevice(inputs, *device, &result);
  }
  result.terabytes_per_second =
      static_cast<double>(inputs.visibleBytes()) / result.microseconds * 1e-6;
  return result;
}

void printResult(const RunResult& result) {
  const Comparison& comparison = result.check.comparison;
  if (!result.title.empty()) std::printf("%s\n", result.title.c_str());
  std::printf("  problem  %s\n", result.problem.c_str());
  std::printf("  variant  %s on %s\n", result.variant.info.name, result.device.c_str());
  std::printf("  time     %.1f us, %.4g GB/s of K and V%s\n", result.microseconds,
              1e3 * result.terabytes_per_second,
              result.variant.onHost() ? "" : " (repeated calls: L2 may be warm)");
  std::printf("  checked  %lld of %lld requests, %lld of %lld rows, against %s\n",
              static_cast<long long>(result.check.checked_requests),
              static_cast<long long>(result.check.total_requests),
              static_cast<long long>(comparison.comparedRows()),
              static_cast<long long>(result.check.total_rows), result.check.against);
  std::printf("  error    %.2e relative 2-norm (bound %.0e), worst row %.2e", comparison.error(),
              comparison.bounds().error, comparison.worstRow());
  if (result.checks_lse) std::printf(", worst lse %.2e", comparison.worstLse());
  std::printf("\n");
  if (comparison.passed()) {
    std::printf("  PASS\n");
  } else {
    std::printf("  FAIL: %s\n  reproduce: xqa run --problem '%s'\n", comparison.failure().c_str(),
                result.problem.c_str());
  }
}

void writeResult(const RunResult& result, Json* json) {
  const Comparison& comparison = result.check.comparison;
  json->beginObject()
      .member("title", result.title)
      .member("problem", result.problem)
      .member("variant", result.variant.info.name)
      .member("device", result.device)
      .member("microseconds", result.microseconds)
      .member("terabytes_per_second", result.terabytes_per_second)
      .member("checked_against", result.check.against)
      .member("checked_requests", result.check.checked_requests)
      .member("total_requests", result.check.total_requests)
      .member("checked_rows", comparison.comparedRows())
      .member("total_rows", result.check.total_rows)
      .member("error", comparison.error())
      .member("error_bound", comparison.bounds().error)
      .member("worst_row_error", comparison.worstRow())
      .member("worst_lse_error", comparison.worstLse())
      .member("passed", comparison.passed())
      .member("failure", comparison.failure())
      .endObject();
}

// The problems that the command line asks for.
std::vector<Layer> chosenLayers(Arguments* arguments) {
  const std::optional<std::string> model = arguments->takeValue("--model");
  const std::optional<std::string> tensor_parallel = arguments->takeValue("--tp");
  std::vector<Layer> layers(1);
  if (model) {
    const int64_t ranks = tensor_parallel ? parseInteger("--tp", *tensor_parallel, 1, 1024) : 1;
    layers = presetLayers(findPreset(*model), static_cast<int32_t>(ranks));
  } else if (tensor_parallel) {
    throw UsageError("--tp needs --model");
  }
  std::string overrides;
  if (const auto problem = arguments->takeValue("--problem")) {
    overrides = *problem;
  } else if (!model) {
    throw UsageError("run needs --problem 'key=value,...' or --model NAME");
  }
  for (const char* key : {"batch", "len", "kv", "q"}) {
    if (const auto value = arguments->takeValue(std::string("--") + key)) {
      overrides += (overrides.empty() ? "" : ",") + std::string(key) + "=" + *value;
    }
  }
  if (overrides.empty()) return layers;
  for (Layer& layer : layers) applyProblem(overrides, &layer.spec);
  return layers;
}

void listModels(bool as_json) {
  Json json;
  json.beginArray();
  for (const Preset& preset : presets()) {
    json.value(preset.name);
    if (!as_json) std::printf("%s\n", preset.name);
  }
  json.endArray();
  if (as_json) std::printf("%s\n", json.text().c_str());
}

}  // namespace

const char* runHelp() {
  return "xqa run: computes decode attention and checks the result\n"
         "\n"
         "  xqa run --problem 'KEY=VALUE,...'    one problem (see below)\n"
         "  xqa run --model NAME [--tp N]        every kind of attention layer of a model,\n"
         "                                       heads divided over N tensor-parallel ranks;\n"
         "                                       with --problem, its keys override the model's\n"
         "  --batch N  --len L  --kv DTYPE  --q N    the same as these keys in --problem\n"
         "  --models                             lists the models\n"
         "  --device N                           CUDA device (0); without a GPU the host computes\n"
         "  --json                               machine-readable output\n"
         "\n"
         "A GPU's result is compared with xqaDecodeHost, the host's with a dense computation in\n"
         "float64 of this tool. Exit status: 0 all passed, 1 a check failed or the library "
         "refused\n"
         "the problem, 2 wrong usage.\n"
         "\n";
}

int runCommand(Arguments arguments) {
  const bool as_json = arguments.takeFlag("--json");
  if (arguments.takeFlag("--models")) {
    arguments.finish();
    listModels(as_json);
    return 0;
  }
  const int64_t ordinal =
      parseInteger("--device", arguments.takeValue("--device").value_or("0"), 0, 1023);
  const std::vector<Layer> layers = chosenLayers(&arguments);
  arguments.finish();

  const std::optional<xqaDeviceInfo_t> device = openDevice(static_cast<int32_t>(ordinal));
  bool passed = true;
  Json json;
  json.beginObject().key("results").beginArray();
  for (const Layer& layer : layers) {
    const RunResult result = runLayer(layer, device);
    passed = passed && result.check.comparison.passed();
    if (as_json) {
      writeResult(result, &json);
    } else {
      printResult(result);
      std::fflush(stdout);
    }
  }
  json.endArray().member("passed", passed).endObject();
  if (as_json) std::printf("%s\n", json.text().c_str());
  return passed ? 0 : 1;
}

}  // namespace tool
