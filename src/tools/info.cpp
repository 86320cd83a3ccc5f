// SPDX-License-Identifier: Apache-2.0
// xqa info: what the library is, what it contains, what the machine has.
#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "commands.h"
#include "formats.h"
#include "json.h"
#include "problem.h"
#include "target.h"

namespace tool {
namespace {

std::string versionText() {
  const uint32_t version = xqaGetVersion();
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::vector<xqaVariantInfo_t> allVariants() {
  std::vector<xqaVariantInfo_t> variants(xqaVariantCount());
  for (uint32_t i = 0; i < variants.size(); ++i) {
    variants[i].struct_size = sizeof(variants[i]);
    requireSuccess("xqaGetVariantInfo", xqaGetVariantInfo(xqaVariantAt(i), &variants[i]),
                   emptyDiagnostic());
  }
  return variants;
}

struct BackendSummary {
  int32_t variants = 0;
  int32_t available = 0;
  int32_t max_group_size = 0;
  std::set<int32_t> head_dims;
  std::set<std::string> dtypes;  // q/kv/math
};

std::map<xqaBackend_t, BackendSummary> summarise(const std::vector<xqaVariantInfo_t>& variants) {
  std::map<xqaBackend_t, BackendSummary> summaries;
  for (const xqaVariantInfo_t& variant : variants) {
    BackendSummary& summary = summaries[variant.backend];
    ++summary.variants;
    summary.available += variant.available;
    summary.max_group_size = std::max(summary.max_group_size, variant.group_size);
    summary.head_dims.insert(variant.head_dim);
    summary.dtypes.insert(std::string(dtypeName(variant.q_dtype)) + "/" +
                          dtypeName(variant.kv_dtype) + "/" + dtypeName(variant.math_dtype));
  }
  return summaries;
}

void writeVariant(const xqaVariantInfo_t& variant, Json* json) {
  json->beginObject()
      .member("name", variant.name)
      .member("head_dim", variant.head_dim)
      .member("group_size", variant.group_size)
      .member("q_dtype", dtypeName(variant.q_dtype))
      .member("kv_dtype", dtypeName(variant.kv_dtype))
      .member("math_dtype", dtypeName(variant.math_dtype))
      .member("backend", backendName(variant.backend))
      .member("available", variant.available != 0)
      .member("sm_min", variant.sm_min)
      .member("sm_max", variant.sm_max)
      .member("features", variant.features)
      .member("row_tile", variant.row_tile)
      .member("smem_bytes", variant.smem_bytes)
      .endObject();
}

int listVariants(const std::string& glob, bool as_json) {
  Json json;
  json.beginArray();
  int32_t listed = 0;
  for (const xqaVariantInfo_t& variant : allVariants()) {
    if (!glob.empty() && fnmatch(glob.c_str(), variant.name, 0) != 0) continue;
    ++listed;
    if (as_json) {
      writeVariant(variant, &json);
    } else {
      std::printf("%-48s %s\n", variant.name, variant.available != 0 ? "" : "(listed only)");
    }
  }
  json.endArray();
  if (as_json) std::printf("%s\n", json.text().c_str());
  if (listed == 0) throw Failure("no variant matches '" + glob + "'");
  return 0;
}

int explain(const std::string& text, const std::optional<xqaDeviceInfo_t>& device, bool as_json) {
  const xqaVariantKey_t key = parseKey(text);
  const xqaDeviceInfo_t* const info = device ? &*device : nullptr;
  std::string sentence(xqaExplainKey(&key, info, nullptr, 0), '\0');
  xqaExplainKey(&key, info, sentence.data(), sentence.size() + 1);
  xqaVariant_t variant = nullptr;
  const xqaStatus_t status = xqaFindVariant(&key, info, nullptr, &variant);
  if (!as_json) {
    std::printf("%s: %s\n", xqaGetStatusName(status), sentence.c_str());
    return 0;
  }
  Json json;
  json.beginObject()
      .member("status", xqaGetStatusName(status))
      .member("explanation", sentence)
      .endObject();
  std::printf("%s\n", json.text().c_str());
  return 0;
}

void printDevice(const xqaDeviceInfo_t& device) {
  std::printf("device     %s: compute capability %d.%d, %d SMs, %.0f GiB, L2 %.0f MiB\n",
              device.name, device.sm / 10, device.sm % 10, device.sm_count,
              static_cast<double>(device.memory_bytes) / (1 << 30),
              static_cast<double>(device.l2_bytes) / (1 << 20));
  std::printf("           shared memory %d KiB a block, %d KiB an SM; driver for CUDA %d.%d\n",
              device.smem_per_block_bytes / 1024, device.smem_per_sm_bytes / 1024,
              device.driver_version / 1000, device.driver_version % 1000 / 10);
}

void printSummary(const std::optional<xqaDeviceInfo_t>& device) {
  std::printf("libxqa     %s (ABI %d)\n", versionText().c_str(), XQA_ABI_VERSION);
  std::printf("build      %s\n", xqaGetBuildInfo());
  if (device) {
    printDevice(*device);
  } else {
    std::printf("device     none\n");
  }
  std::printf("variants   %u\n", xqaVariantCount());
  for (const auto& [backend, summary] : summarise(allVariants())) {
    std::string dims;
    for (const int32_t dim : summary.head_dims) dims += " " + std::to_string(dim);
    std::string dtypes;
    for (const std::string& dtype : summary.dtypes) dtypes += " " + dtype;
    std::printf("  %-9s%d (%d can be launched): head_dim%s, group size up to %d\n",
                backendName(backend), summary.variants, summary.available, dims.c_str(),
                summary.max_group_size);
    std::printf("           q/kv/math%s\n", dtypes.c_str());
  }
}

void writeSummary(const std::optional<xqaDeviceInfo_t>& device) {
  Json json;
  json.beginObject()
      .member("version", versionText())
      .member("abi_version", int32_t{XQA_ABI_VERSION})
      .member("build", xqaGetBuildInfo())
      .key("device");
  if (device) {
    json.beginObject()
        .member("name", device->name)
        .member("ordinal", device->device)
        .member("sm", device->sm)
        .member("sm_count", device->sm_count)
        .member("smem_per_block_bytes", device->smem_per_block_bytes)
        .member("smem_per_sm_bytes", device->smem_per_sm_bytes)
        .member("l2_bytes", device->l2_bytes)
        .member("memory_bytes", device->memory_bytes)
        .member("driver_version", device->driver_version)
        .endObject();
  } else {
    json.null();
  }
  json.member("variant_count", xqaVariantCount()).key("backends").beginObject();
  for (const auto& [backend, summary] : summarise(allVariants())) {
    json.key(backendName(backend))
        .beginObject()
        .member("variants", summary.variants)
        .member("available", summary.available)
        .member("max_group_size", summary.max_group_size)
        .key("head_dims")
        .beginArray();
    for (const int32_t dim : summary.head_dims) json.value(dim);
    json.endArray().key("dtypes").beginArray();
    for (const std::string& dtype : summary.dtypes) json.value(dtype);
    json.endArray().endObject();
  }
  json.endObject().endObject();
  std::printf("%s\n", json.text().c_str());
}

}  // namespace

const char* infoHelp() {
  return "xqa info: what the library is, what it contains, what the machine has\n"
         "\n"
         "  xqa info                     version, build, device, summary of the variants\n"
         "  xqa info --variants [GLOB]   the names of the variants, all or those that match\n"
         "  xqa info --explain KEY       whether a key has a variant here, and if not why; KEY is "
         "a\n"
         "                               variant's name or its parts, as in d80,g8,qf16,kve4m3\n"
         "  --device N                   CUDA device (0)\n"
         "  --json                       machine-readable output\n";
}

int infoCommand(Arguments arguments) {
  const bool as_json = arguments.takeFlag("--json");
  const int64_t ordinal =
      parseInteger("--device", arguments.takeValue("--device").value_or("0"), 0, 1023);
  const std::optional<std::string> key = arguments.takeValue("--explain");
  const std::optional<std::string> glob = arguments.takeOptionalValue("--variants");
  arguments.finish();
  if (key && glob) throw UsageError("--explain and --variants exclude each other");
  if (glob) return listVariants(*glob, as_json);
  const std::optional<xqaDeviceInfo_t> device = openDevice(static_cast<int32_t>(ordinal));
  if (key) return explain(*key, device, as_json);
  if (as_json) {
    writeSummary(device);
  } else {
    printSummary(device);
  }
  return 0;
}

}  // namespace tool
