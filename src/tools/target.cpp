// SPDX-License-Identifier: Apache-2.0
#include "target.h"

#include "arguments.h"
#include "formats.h"

namespace tool {

xqaDiagnostic_t emptyDiagnostic() {
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  return diagnostic;
}

void requireSuccess(const char* function, xqaStatus_t status, const xqaDiagnostic_t& diagnostic) {
  if (status == XQA_STATUS_SUCCESS) return;
  throw Failure(std::string(function) + ": " + xqaGetStatusName(status) + ": " +
                (diagnostic.message[0] != '\0' ? diagnostic.message : xqaGetStatusString(status)));
}

std::optional<xqaDeviceInfo_t> openDevice(int32_t ordinal) {
  xqaDeviceInfo_t info = {};
  info.struct_size = sizeof(info);
  xqaDiagnostic_t diagnostic = emptyDiagnostic();
  const xqaStatus_t status = xqaGetDeviceInfo(ordinal, &info, &diagnostic);
  if (status == XQA_STATUS_NO_DEVICE && ordinal == 0) return std::nullopt;
  requireSuccess("xqaGetDeviceInfo", status, diagnostic);
  selectDevice(ordinal);
  return info;
}

ChosenVariant chooseVariant(const Inputs& inputs, const std::optional<xqaDeviceInfo_t>& device) {
  const xqaDeviceInfo_t* const info = device ? &*device : nullptr;
  ChosenVariant variant = {};
  variant.info.struct_size = sizeof(variant.info);
  const xqaStatus_t status = xqaFindVariant(&inputs.key, info, &inputs.shape, &variant.handle);
  if (status != XQA_STATUS_SUCCESS) {
    char text[512] = "";
    xqaExplainKey(&inputs.key, info, text, sizeof(text));
    throw Failure(std::string("xqaFindVariant: ") + xqaGetStatusName(status) + ": " + text);
  }
  requireSuccess("xqaGetVariantInfo", xqaGetVariantInfo(variant.handle, &variant.info),
                 emptyDiagnostic());
  return variant;
}

std::vector<uint64_t> makeHostPool(const Inputs& inputs) {
  const xqaDtype_t dtype = inputs.spec.kvDtype();
  const size_t elems = static_cast<size_t>(inputs.pool_elems);
  std::vector<uint64_t> pool(elems * dtypeBytes(dtype) / sizeof(uint64_t) + 2);
  for (size_t i = 0; i < elems; ++i) {
    storeElement(pool.data(), dtype, i,
                 static_cast<double>(inputs.poolValue(static_cast<int64_t>(i))));
  }
  return pool;
}

DeviceProblem::DeviceProblem(const Inputs& inputs, const ChosenVariant& variant,
                             const xqaDeviceInfo_t& device, void* pool)
    : inputs_(inputs),
      variant_(variant.handle),
      device_(device),
      args_(inputs.hostArgs(pool, nullptr, nullptr)),
      out_bytes_(static_cast<size_t>(inputs.outElems()) * dtypeBytes(inputs.spec.outDtype())),
      out_(out_bytes_),
      lse_(static_cast<size_t>(inputs.lseElems()) * sizeof(float)) {
  const auto place = [this](const auto& values) {
    using Element = typename std::decay_t<decltype(values)>::value_type;
    return static_cast<const Element*>(upload(values.data(), values.size() * sizeof(Element)));
  };
  args_.q = place(inputs.q);
  args_.q_offsets = place(inputs.q_offsets);
  args_.page_table = place(inputs.page_table);
  args_.seq_lens = place(inputs.seq_lens);
  args_.sinks = place(inputs.sinks);
  args_.mask = place(inputs.mask);
  args_.q_scale = place(inputs.q_scale);
  args_.k_scale = place(inputs.k_scale);
  args_.v_scale = place(inputs.v_scale);
  args_.out_scale = place(inputs.out_scale);
  args_.out = out_.data();
  args_.lse = inputs.spec.lse ? static_cast<float*>(lse_.data()) : nullptr;

  xqaDiagnostic_t diagnostic = emptyDiagnostic();
  requireSuccess(
      "xqaGetWorkspaceSize",
      xqaGetWorkspaceSize(variant_, &device_, &inputs.shape, &workspace_bytes_, &diagnostic),
      diagnostic);
  if (workspace_bytes_ > 0) workspace_ = DeviceMemory(workspace_bytes_);
  args_.workspace = workspace_.data();
  args_.workspace_bytes = workspace_bytes_;
  requireSuccess("xqaPrepareVariant", xqaPrepareVariant(variant_, device_.device, &diagnostic),
                 diagnostic);
}

const void* DeviceProblem::upload(const void* host, size_t bytes) {
  if (bytes == 0) return nullptr;
  memory_.emplace_back(host, bytes);
  return memory_.back().data();
}

void DeviceProblem::launch(int32_t rotation, xqaStream_t stream) const {
  xqaDecodeArgs_t args = args_;
  if (args.page_table != nullptr) {
    args.page_table += rotation * inputs_.table_entries;
  }
  const int64_t offset_bytes =
      rotation * inputs_.rotation_elems * static_cast<int64_t>(dtypeBytes(inputs_.spec.kvDtype()));
  args.k_cache = static_cast<const uint8_t*>(args.k_cache) + offset_bytes;
  args.v_cache = static_cast<const uint8_t*>(args.v_cache) + offset_bytes;
  xqaDiagnostic_t diagnostic = emptyDiagnostic();
  const xqaStatus_t status =
      xqaDecode(variant_, &device_, &inputs_.shape, &args, stream, &diagnostic);
  requireSuccess("xqaDecode", status, diagnostic);
}

xqaStatus_t DeviceProblem::refuse(xqaStream_t stream) const {
  xqaDecodeArgs_t args = args_;
  args.workspace_bytes = workspace_bytes_ - 1;
  return xqaDecode(variant_, &device_, &inputs_.shape, &args, stream, nullptr);
}

std::vector<uint64_t> DeviceProblem::output() const {
  std::vector<uint64_t> out(out_bytes_ / sizeof(uint64_t) + 1);
  out_.copyTo(out.data(), out_bytes_);
  return out;
}

std::vector<float> DeviceProblem::lse() const {
  std::vector<float> lse(static_cast<size_t>(inputs_.lseElems()));
  lse_.copyTo(lse.data(), lse.size() * sizeof(float));
  return lse;
}

void DeviceProblem::poisonOutput() const {
  constexpr int kNan = 0xFF;  // in every byte: NaN in f16, bf16, e4m3 and f32
  fillBytes(out_.data(), kNan, out_bytes_);
  fillBytes(lse_.data(), kNan, static_cast<size_t>(inputs_.lseElems()) * sizeof(float));
}

}  // namespace tool
