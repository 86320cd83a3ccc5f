// SPDX-License-Identifier: Apache-2.0
// xqa bench: how fast problems run, against what reading the same bytes takes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "formats.h"
#include "json.h"
#include "measure.h"
#include "peers.h"

namespace tool {
namespace {

constexpr size_t kMaxPoolBytes = 10'000'000'000;

struct Row {
  ProblemSpec spec;
  Measurement measurement;
  const PeerTime* peer;

  bool measured() const { return measurement.us.median > 0; }
};

// A problem that cannot be measured becomes a row that says why, so that it does not end a sweep.
Row measureRow(const Inputs& inputs, const std::optional<xqaDeviceInfo_t>& device,
               DeviceBench* device_bench, const std::vector<PeerTime>& peers) {
  Row row = {inputs.spec, {}, fastestPeer(peers, inputs.spec)};
  try {
    const ChosenVariant variant = chooseVariant(inputs, device);
    row.measurement =
        variant.onHost() ? measureOnHost(inputs, variant) : device_bench->measure(inputs, variant);
  } catch (const Failure& failure) {
    row.measurement.failure = failure.what();
  }
  return row;
}

class CsvFile {
 public:
  explicit CsvFile(const std::string& path) : file_(std::fopen(path.c_str(), "w"), std::fclose) {
    if (!file_) throw UsageError("cannot write '" + path + "'");
    std::fputs(
        "variant,head_dim,group_size,kv_heads,q_tokens,page_tokens,layout,kv_dtype,math,batch,"
        "lengths,median_us,p10_us,p90_us,tbps,ceiling_pct,error\n",
        file_.get());
  }

  void write(const Row& row) {
    const ProblemSpec& spec = row.spec;
    const Measurement& m = row.measurement;
    std::fprintf(file_.get(), "%s,%d,%d,%d,%d,%d,%s,%s,%s,%d,%s,%.3f,%.3f,%.3f,%.4f,%.2f,%.3e\n",
                 m.variant.c_str(), spec.head_dim, spec.group_size, spec.kv_heads, spec.q_tokens,
                 spec.page_tokens, layoutName(spec.layout), dtypeName(spec.kvDtype()),
                 dtypeName(spec.mathDtype()), spec.batch, spec.lengths.text().c_str(), m.us.median,
                 m.us.p10, m.us.p90, m.terabytesPerSecond(), m.ceilingPercent(), m.error);
    std::fflush(file_.get());
  }

 private:
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

void printHeader(bool with_peers) {
  std::printf("%10s %10s %10s %8s %8s %8s ", "median us", "p10", "p90", "TB/s", "ceiling", "error");
  if (with_peers) std::printf("%9s %7s  ", "peer us", "speedup");
  std::printf("problem\n");
}

void printRow(const Row& row, bool with_peers) {
  const Measurement& m = row.measurement;
  if (!row.measured()) {
    std::printf("%10s %s: %s\n", "FAIL", problemText(row.spec).c_str(), m.failure.c_str());
    return;
  }
  std::printf("%10.2f %10.2f %10.2f %8.3f %7.1f%% %8.1e ", m.us.median, m.us.p10, m.us.p90,
              m.terabytesPerSecond(), m.ceilingPercent(), m.error);
  if (row.peer != nullptr) {
    std::printf("%9.1f %6.2fx  ", row.peer->microseconds, row.peer->microseconds / m.us.median);
  } else if (with_peers) {
    std::printf("%9s %7s  ", "-", "-");
  }
  std::printf("%s  [%s]\n", problemText(row.spec).c_str(), m.variant.c_str());
  if (!m.passed) std::printf("%10s FAIL: %s\n", "", m.failure.c_str());
  std::fflush(stdout);
}

void writeRow(const Row& row, Json* json) {
  const Measurement& m = row.measurement;
  json->beginObject()
      .member("problem", problemText(row.spec))
      .member("passed", m.passed)
      .member("failure", m.failure);
  if (row.measured()) {
    json->member("variant", m.variant)
        .member("median_us", m.us.median)
        .member("p10_us", m.us.p10)
        .member("p90_us", m.us.p90)
        .member("tbps", m.terabytesPerSecond())
        .member("ceiling_us", m.ceiling_us)
        .member("ceiling_pct", m.ceilingPercent())
        .member("error", m.error);
  }
  if (row.peer != nullptr) {
    json->member("peer_us", row.peer->microseconds).member("peer_kernel", row.peer->kernel);
  }
  json->endObject();
}

int benchHostCost(const std::vector<Inputs>& all, const std::optional<xqaDeviceInfo_t>& device,
                  bool as_json) {
  const auto cell = [](double nanoseconds) {
    return nanoseconds < 0 ? std::string("-") : std::to_string(std::lround(nanoseconds));
  };
  Json json;
  json.beginObject().key("host_cost_ns").beginArray();
  if (!as_json) {
    std::printf(
        "Nanoseconds of the host: finding a variant, the workspace size, a decode call up "
        "to\nits launches, the whole call, and the launch of an empty kernel.\n");
    std::printf("%8s %10s %8s %8s %8s  problem\n", "find", "workspace", "checks", "call", "empty");
  }
  for (const Inputs& inputs : all) {
    const HostCost cost = measureHostCost(inputs, chooseVariant(inputs, device), device);
    if (as_json) {
      json.beginObject()
          .member("problem", problemText(inputs.spec))
          .member("variant", cost.variant)
          .member("find_variant", cost.find_variant)
          .member("workspace_size", cost.workspace_size);
      if (cost.refused_decode >= 0) json.member("decode_checks", cost.refused_decode);
      if (cost.decode >= 0) {
        json.member("decode", cost.decode).member("empty_launch", cost.empty_launch);
      }
      json.endObject();
    } else {
      std::printf("%8s %10s %8s %8s %8s  %s  [%s]\n", cell(cost.find_variant).c_str(),
                  cell(cost.workspace_size).c_str(), cell(cost.refused_decode).c_str(),
                  cell(cost.decode).c_str(), cell(cost.empty_launch).c_str(),
                  problemText(inputs.spec).c_str(), cost.variant.c_str());
    }
  }
  json.endArray().endObject();
  if (as_json) std::printf("%s\n", json.text().c_str());
  return 0;
}

std::vector<ProblemSpec> chosenProblems(Arguments* arguments) {
  std::vector<ProblemSpec> specs;
  if (const auto path = arguments->takeValue("--problems")) specs = readProblems(*path);
  while (const auto text = arguments->takeValue("--problem")) {
    ProblemSpec spec;
    applyProblem(*text, &spec);
    specs.push_back(spec);
  }
  if (specs.empty()) throw UsageError("bench needs --problem 'key=value,...' or --problems FILE");
  for (const ProblemSpec& spec : specs) {
    if (spec.batch < 0 || spec.lengths.kind == Lengths::Kind::kUnset) {
      throw UsageError("problem '" + problemText(spec) + "': bench needs batch and len");
    }
  }
  return specs;
}

}  // namespace

const char* benchHelp() {
  return "xqa bench: measures decode attention with cold caches\n"
         "\n"
         "  xqa bench --problem 'KEY=VALUE,...'  one problem; may be repeated\n"
         "  xqa bench --problems FILE            problems of a file, one a line, # comments\n"
         "  --csv FILE                           writes the table as CSV\n"
         "  --peers FILE                         compares with times of other kernels: a CSV file\n"
         "                                       of microseconds,kernel,problem\n"
         "  --empty                              first measures an empty kernel in a graph\n"
         "  --host                               measures what a call costs the host instead\n"
         "  --device N                           CUDA device (0)\n"
         "  --json                               machine-readable output\n"
         "\n"
         "One CUDA graph of launches that rotate over copies of the cache beyond 400 MB and 4 "
         "times\n"
         "the L2, pages shuffled; each sample is the mean of a replay. The ceiling is a plain read "
         "of\n"
         "the same bytes, measured in the same way. TB/s counts K and V that are visible once. "
         "The\n"
         "error is the relative 2-norm of a sample against xqaDecodeHost. Without a GPU the host\n"
         "backend is measured by the clock. Exit status: 1 if a check failed.\n"
         "\n";
}

int benchCommand(Arguments arguments) {
  const bool as_json = arguments.takeFlag("--json");
  const bool host_cost = arguments.takeFlag("--host");
  const bool empty = arguments.takeFlag("--empty");
  const int64_t ordinal =
      parseInteger("--device", arguments.takeValue("--device").value_or("0"), 0, 1023);
  const std::optional<std::string> csv_path = arguments.takeValue("--csv");
  const std::optional<std::string> peers_path = arguments.takeValue("--peers");
  const std::vector<ProblemSpec> specs = chosenProblems(&arguments);
  arguments.finish();
  if (host_cost && (csv_path || peers_path || empty)) {
    throw UsageError("--host goes with --problem, --problems, --device and --json only");
  }
  const std::vector<PeerTime> peers = peers_path ? readPeers(*peers_path) : std::vector<PeerTime>();
  std::unique_ptr<CsvFile> csv = csv_path ? std::make_unique<CsvFile>(*csv_path) : nullptr;

  const std::optional<xqaDeviceInfo_t> device = openDevice(static_cast<int32_t>(ordinal));
  const size_t max_pool_bytes =
      device ? std::min(kMaxPoolBytes, freeDeviceBytes() / 10 * 9) : kMaxPoolBytes;
  std::vector<Inputs> all;
  size_t pool_bytes = 0;
  for (const ProblemSpec& spec : specs) {
    all.push_back(host_cost ? buildInputs(spec, 1) : buildColdInputs(spec, device, max_pool_bytes));
    pool_bytes = std::max(pool_bytes, poolBytes(all.back()));
  }
  if (host_cost) return benchHostCost(all, device, as_json);

  std::optional<DeviceBench> device_bench;
  if (device) device_bench.emplace(*device, pool_bytes);
  if (empty && !device) throw Failure("--empty needs a GPU");
  Json json;
  json.beginObject();
  if (empty) {
    const double us = DeviceBench::emptyKernelMicroseconds();
    json.member("empty_kernel_us", us);
    if (!as_json) std::printf("empty kernel in a graph: %.2f us\n", us);
  }
  json.key("rows").beginArray();
  if (!as_json) printHeader(peers_path.has_value());
  bool passed = true;
  for (const Inputs& inputs : all) {
    const Row row = measureRow(inputs, device, device_bench ? &*device_bench : nullptr, peers);
    passed = passed && row.measurement.passed;
    if (csv && row.measured()) csv->write(row);
    if (as_json) {
      writeRow(row, &json);
    } else {
      printRow(row, peers_path.has_value());
    }
  }
  json.endArray().endObject();
  if (as_json) std::printf("%s\n", json.text().c_str());
  return passed ? 0 : 1;
}

}  // namespace tool
