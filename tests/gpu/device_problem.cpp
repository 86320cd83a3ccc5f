// SPDX-License-Identifier: Apache-2.0
#include "device_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

namespace gpu {
namespace {

const char* dtypeText(xqaDtype_t dtype) {
  return dtype == XQA_DTYPE_F16 ? "f16" : dtype == XQA_DTYPE_BF16 ? "bf16" : "e4m3";
}

void add(std::string* text, const char* key, const std::string& value) {
  *text += "," + std::string(key) + "=" + value;
}

void addFactor(std::string* text, const char* key, float factor) {
  if (factor == 0.0f) return;
  char value[32];
  std::snprintf(value, sizeof(value), "%.9g", static_cast<double>(factor));
  add(text, key, value);
}

// Lengths of a batch, once through if they repeat.
std::string lengthsText(const std::vector<int32_t>& lengths) {
  size_t period = 1;
  const auto repeats = [&] {
    return std::equal(lengths.begin() + static_cast<std::ptrdiff_t>(period), lengths.end(),
                      lengths.begin());
  };
  while (period < lengths.size() && !repeats()) ++period;
  std::string text;
  for (size_t i = 0; i < std::min(period, lengths.size()); ++i) {
    text += (i == 0 ? "" : "/") + std::to_string(std::max(0, lengths[i]));
  }
  return text;
}

// What the reference has to do: products of a query element and a cache element.
int64_t cost(const ProblemSpec& spec) {
  const int64_t tokens = std::accumulate(spec.seq_lens.begin(), spec.seq_lens.end(), int64_t{0});
  return tokens * spec.q_tokens * spec.group_size * spec.num_kv_heads * spec.head_dim;
}

}  // namespace

std::string reproduction(const HostProblem& problem) {
  constexpr const char* kLayouts[] = {"nhd", "hnd", "interleaved", "padded", "contiguous"};
  constexpr const char* kMasks[] = {"causal", "full", "tree", "tree"};
  const ProblemSpec& spec = problem.spec;
  std::string text = "xqa run --problem 'd=" + std::to_string(spec.head_dim);
  add(&text, "g", std::to_string(spec.group_size));
  add(&text, "kv_heads", std::to_string(spec.num_kv_heads));
  add(&text, "q", std::to_string(spec.q_tokens));
  add(&text, "batch", std::to_string(spec.seq_lens.size()));
  if (!problem.seq_lens.empty()) add(&text, "len", lengthsText(problem.seq_lens));
  add(&text, "page", std::to_string(spec.page_tokens));
  add(&text, "layout", kLayouts[static_cast<int>(spec.layout)]);
  add(&text, "qdtype", dtypeText(spec.q_dtype));
  if (spec.kv_dtype != XQA_DTYPE_DEFAULT) add(&text, "kv", dtypeText(spec.kv_dtype));
  if (spec.math_dtype != XQA_DTYPE_DEFAULT) add(&text, "math", dtypeText(spec.math_dtype));
  if (spec.out_dtype != XQA_DTYPE_DEFAULT) add(&text, "out", dtypeText(spec.out_dtype));
  if (spec.window != 0) add(&text, "window", std::to_string(spec.window));
  addFactor(&text, "scale", spec.softmax_scale);
  addFactor(&text, "softcap", spec.softcap);
  if (spec.sinks) add(&text, "sinks", "1");
  if (spec.mask != DraftMask::kCausal) add(&text, "mask", kMasks[static_cast<int>(spec.mask)]);
  if (!spec.ragged_rows.empty()) add(&text, "ragged", "1");
  addFactor(&text, "qscale", spec.q_scale);
  addFactor(&text, "kscale", spec.k_scale);
  addFactor(&text, "vscale", spec.v_scale);
  addFactor(&text, "oscale", spec.out_scale);
  if (spec.per_head_scales) add(&text, "perhead", "1");
  if (spec.lse) add(&text, "lse", "1");
  add(&text, "backend", backendName(spec.backend));
  add(&text, "seed", std::to_string(spec.seed));
  return text + "'  # " + problem.describe();
}

DeviceProblem::DeviceProblem(HostProblem* problem, Worker* worker)
    : problem_(problem), worker_(worker) {
  int ordinal = 0;
  XQA_CUDA_CHECK(cudaGetDevice(&ordinal));
  device_ = deviceInfo(ordinal);
  if (xqaFindVariant(&problem->key, &device_, &problem->shape, &variant_) != XQA_STATUS_SUCCESS) {
    throw std::runtime_error("no variant for " + reproduction());
  }
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  if (xqaGetWorkspaceSize(variant_, &device_, &problem->shape, &workspace_bytes_, &diagnostic) !=
      XQA_STATUS_SUCCESS) {
    throw std::runtime_error(std::string("xqaGetWorkspaceSize: ") + diagnostic.message + ": " +
                             reproduction());
  }
  for (const xqa::testing::Buffer& buffer : problem->buffers()) {
    const size_t offset = image_.add(buffer.data, buffer.bytes);
    offsets_[buffer.data] = offset;
    if (buffer.output) image_.allowWrites(offset, buffer.bytes);
  }
  workspace_offset_ = image_.add(nullptr, workspace_bytes_);
  image_.allowWrites(workspace_offset_, workspace_bytes_);
  image_.upload(&worker->memory, worker->stream);

  args = problem->deviceArgs(
      [this](const void* start) { return image_.device<void>(offsets_.at(start)); });
  args.workspace = workspace_bytes_ == 0 ? nullptr : image_.device<void>(workspace_offset_);
  args.workspace_bytes = workspace_bytes_;
}

void DeviceProblem::reset(unsigned char fill) {
  for (const xqa::testing::Buffer& buffer : problem_->buffers()) {
    if (!buffer.output) continue;
    XQA_CUDA_CHECK(cudaMemsetAsync(image_.device<void>(offsets_.at(buffer.data)), fill,
                                   buffer.bytes, worker_->stream));
  }
  if (workspace_bytes_ > 0) {
    XQA_CUDA_CHECK(cudaMemsetAsync(args.workspace, fill, workspace_bytes_, worker_->stream));
  }
}

void DeviceProblem::launch(const Stream& stream, uint32_t flags) {
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  args.flags = flags;
  const xqaStatus_t status =
      xqaDecode(variant_, &device_, &problem_->shape, &args, stream, &diagnostic);
  if (status == XQA_STATUS_SUCCESS) return;
  const std::string what = std::string("xqaDecode: ") + xqaGetStatusName(status) + ": " +
                           diagnostic.message + ": " + reproduction();
  if (status == XQA_STATUS_CUDA_ERROR) throw CudaError(what);
  throw std::runtime_error(what);
}

const Outputs& DeviceProblem::read() {
  try {
    image_.download(worker_->stream);
  } catch (const CudaError& error) {
    // An error of a kernel reaches every call in flight; each of them says which it was.
    throw CudaError(std::string(error.what()) + ", with this in flight: " + reproduction());
  }
  const auto copy = [&](const void* start, size_t bytes, std::vector<uint8_t>* to) {
    if (bytes == 0) return;
    const unsigned char* const from = image_.downloaded(offsets_.at(start));
    to->assign(from, from + bytes);
  };
  copy(problem_->out.data(), problem_->out.size(), &outputs_.out);
  copy(problem_->lse.data(), problem_->lse.size() * sizeof(float), &outputs_.lse);
  return outputs_;
}

Outputs DeviceProblem::readOutputs() const {
  Outputs outputs;
  const auto copy = [&](const void* start, size_t bytes, std::vector<uint8_t>* to) {
    if (bytes == 0) return;
    to->resize(bytes);
    XQA_CUDA_CHECK(cudaMemcpyAsync(to->data(), image_.device<void>(offsets_.at(start)), bytes,
                                   cudaMemcpyDeviceToHost, worker_->stream));
  };
  copy(problem_->out.data(), problem_->out.size(), &outputs.out);
  copy(problem_->lse.data(), problem_->lse.size() * sizeof(float), &outputs.lse);
  worker_->stream.synchronize();
  return outputs;
}

std::string DeviceProblem::judge() {
  const std::string fault = findFault();
  recordCase(variant_, fault.empty());
  return fault.empty() ? fault : fault + ": " + reproduction();
}

std::string DeviceProblem::findFault() const {
  const int64_t damage = image_.firstDamage();
  if (damage >= 0) return damageText(static_cast<size_t>(damage));
  if (!problem_->outGapsUntouched(outputs_.out.data())) {
    return "a gap between rows of out was written";
  }
  return judgeOutputs(problem_, outputs_);
}

// A changed byte lies in a buffer or in the guard zone behind it.
std::string DeviceProblem::damageText(size_t at) const {
  const char* name = "nothing";
  size_t offset = 0;
  const auto consider = [&](const char* candidate, size_t start) {
    if (start > at || start < offset) return;
    name = candidate;
    offset = start;
  };
  for (const xqa::testing::Buffer& buffer : problem_->buffers()) {
    consider(buffer.name, offsets_.at(buffer.data));
  }
  consider("workspace", workspace_offset_);
  return "byte " + std::to_string(at - offset) + " from the start of " + name +
         " was written, which is not an output";
}

void expectLikeReference(const std::vector<ProblemSpec>& specs) {
  std::vector<const ProblemSpec*> order;
  for (const ProblemSpec& spec : specs) order.push_back(&spec);
  std::stable_sort(order.begin(), order.end(),
                   [](const ProblemSpec* a, const ProblemSpec* b) { return cost(*a) > cost(*b); });
  forEachCase(order.size(), [&](size_t i, Worker& worker) {
    HostProblem problem = xqa::testing::buildProblem(*order[i]);
    DeviceProblem on_device(&problem, &worker);
    on_device.run();
    const std::string fault = on_device.judge();
    if (!fault.empty()) ADD_FAILURE() << fault;
  });
}

ProblemSpec specFor(xqaVariant_t variant) {
  const xqaVariantInfo_t info = variantInfo(variant);
  ProblemSpec spec;
  spec.head_dim = info.head_dim;
  spec.group_size = info.group_size;
  spec.q_dtype = info.q_dtype;
  spec.kv_dtype = info.kv_dtype;
  spec.math_dtype = info.math_dtype;
  spec.backend = info.backend;
  return spec;
}

std::vector<ProblemSpec> allFamilies() {
  std::vector<ProblemSpec> families;
  for (const xqaBackend_t backend : launchableBackends()) {
    for (const xqaVariant_t variant : launchableVariants(backend)) {
      ProblemSpec spec = specFor(variant);
      spec.group_size = ProblemSpec().group_size;
      const bool known = std::any_of(families.begin(), families.end(), [&](const ProblemSpec& f) {
        return f.backend == spec.backend && f.head_dim == spec.head_dim &&
               f.q_dtype == spec.q_dtype && f.kv_dtype == spec.kv_dtype &&
               f.math_dtype == spec.math_dtype;
      });
      if (!known) families.push_back(spec);
    }
  }
  return families;
}

}  // namespace gpu
