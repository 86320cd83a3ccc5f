// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "problem_builder.h"
#include "reference/dtype.h"

namespace xqa::testing {
namespace {

size_t index(int64_t value) { return static_cast<size_t>(value); }

size_t dtypeBytes(xqaDtype_t dtype) { return dtype == XQA_DTYPE_E4M3 ? 1 : 2; }

int64_t rowOffset(const HostProblem& problem, const xqaQueryStrides_t& strides, int32_t request,
                  int32_t query_token, int32_t q_head) {
  const int64_t head = q_head * strides.head;
  if (problem.q_offsets.empty()) {
    return request * strides.batch + query_token * strides.token + head;
  }
  return (problem.firstRowOf(request) + query_token) * strides.token + head;
}

int64_t cacheOffset(const HostProblem& problem, const xqaCacheStrides_t& strides, int32_t request,
                    int32_t token, int32_t kv_head) {
  const int32_t page_tokens = problem.shape.page_tokens;
  int64_t page = request;
  if (!problem.page_table.empty()) {
    page =
        problem.page_table[index(request * problem.shape.page_table_stride + token / page_tokens)];
  }
  return page * strides.page + (token % page_tokens) * strides.token + kv_head * strides.head;
}

void setRow(xqaDtype_t dtype, void* array, int64_t offset, int64_t elements, double value) {
  for (int64_t d = 0; d < elements; ++d) storeElement(dtype, array, offset + d, value);
}

const char* layoutName(CacheLayout layout) {
  switch (layout) {
    case CacheLayout::kNhd:
      return "nhd";
    case CacheLayout::kHnd:
      return "hnd";
    case CacheLayout::kInterleaved:
      return "interleaved";
    case CacheLayout::kPadded:
      return "padded";
    case CacheLayout::kContiguous:
      return "contiguous";
  }
  return "";
}

const char* maskName(DraftMask mask) {
  switch (mask) {
    case DraftMask::kCausal:
      return "causal";
    case DraftMask::kFull:
      return "full";
    case DraftMask::kTree:
      return "tree";
    case DraftMask::kRandom:
      return "random";
  }
  return "";
}

const char* dtypeText(xqaDtype_t dtype) {
  return dtype == XQA_DTYPE_F16 ? "f16" : dtype == XQA_DTYPE_BF16 ? "bf16" : "e4m3";
}

std::string listText(const std::vector<int32_t>& values) {
  std::string text;
  constexpr size_t kMaxListed = 16;
  for (size_t i = 0; i < std::min(values.size(), kMaxListed); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(values[i]);
  }
  return values.size() > kMaxListed ? text + "...x" + std::to_string(values.size()) : text;
}

}  // namespace

xqaDtype_t HostProblem::kvDtype() const {
  return spec.kv_dtype == XQA_DTYPE_DEFAULT ? spec.q_dtype : spec.kv_dtype;
}

xqaDtype_t HostProblem::outDtype() const {
  return spec.out_dtype == XQA_DTYPE_DEFAULT ? spec.q_dtype : spec.out_dtype;
}

int32_t HostProblem::rowsOf(int32_t request) const {
  if (q_offsets.empty()) return shape.q_tokens;
  return q_offsets[index(request) + 1] - q_offsets[index(request)];
}

int64_t HostProblem::firstRowOf(int32_t request) const {
  return q_offsets.empty() ? int64_t{request} * shape.q_tokens : q_offsets[index(request)];
}

int32_t HostProblem::lengthOf(int32_t request) const {
  const int64_t capacity = int64_t{shape.page_tokens} * std::max(1, shape.max_pages);
  const int64_t length = std::min<int64_t>(seq_lens[index(request)], capacity);
  return static_cast<int32_t>(std::max<int64_t>(0, length));
}

bool HostProblem::visible(int32_t request, int32_t query_token, int32_t token) const {
  const int32_t length = lengthOf(request);
  const int32_t prefix = length - rowsOf(request);
  const int32_t position = prefix + query_token;
  if (position < 0 || token < 0 || token >= length) return false;
  if (shape.window > 0 && int64_t{token} <= int64_t{position} - shape.window) return false;
  const int32_t draft = token - prefix;
  if (draft < 0) return true;
  if (mask.empty()) return draft <= query_token;
  const int64_t words = (shape.q_tokens + 31) / 32;
  const int64_t word = (firstRowOf(request) + query_token) * words + draft / 32;
  return (mask[index(word)] >> (draft % 32) & 1) != 0;
}

bool HostProblem::visibleToAny(int32_t request, int32_t token) const {
  for (int32_t i = 0; i < rowsOf(request); ++i) {
    if (visible(request, i, token)) return true;
  }
  return false;
}

int64_t HostProblem::queryOffset(int32_t request, int32_t query_token, int32_t q_head) const {
  return rowOffset(*this, shape.q_strides, request, query_token, q_head);
}

int64_t HostProblem::outOffset(int32_t request, int32_t query_token, int32_t q_head) const {
  return rowOffset(*this, shape.out_strides, request, query_token, q_head);
}

int64_t HostProblem::keyOffset(int32_t request, int32_t token, int32_t kv_head) const {
  return cacheOffset(*this, shape.k_strides, request, token, kv_head);
}

int64_t HostProblem::valueOffset(int32_t request, int32_t token, int32_t kv_head) const {
  return cacheOffset(*this, shape.v_strides, request, token, kv_head);
}

void HostProblem::setKey(int32_t request, int32_t token, int32_t kv_head, double value) {
  setRow(kvDtype(), k_pool.data(), keyOffset(request, token, kv_head), spec.head_dim, value);
}

void HostProblem::setValue(int32_t request, int32_t token, int32_t kv_head, double value) {
  std::vector<uint8_t>& pool = v_pool.empty() ? k_pool : v_pool;
  setRow(kvDtype(), pool.data(), v_offset + valueOffset(request, token, kv_head), spec.head_dim,
         value);
}

void HostProblem::setQuery(int32_t request, int32_t query_token, int32_t q_head, double value) {
  setRow(spec.q_dtype, q.data(), queryOffset(request, query_token, q_head), spec.head_dim, value);
}

void HostProblem::bindArgs() {
  const auto orNull = [](auto& buffer) { return buffer.empty() ? nullptr : buffer.data(); };
  std::vector<uint8_t>& pool = v_pool.empty() ? k_pool : v_pool;
  args = {};
  args.struct_size = sizeof(args);
  args.q = q.data();
  args.q_offsets = orNull(q_offsets);
  args.k_cache = k_pool.data();
  args.v_cache = pool.data() + index(v_offset) * dtypeBytes(kvDtype());
  args.page_table = orNull(page_table);
  args.seq_lens = orNull(seq_lens);
  args.sinks = orNull(sinks);
  args.mask = orNull(mask);
  args.q_scale = orNull(q_scale);
  args.k_scale = orNull(k_scale);
  args.v_scale = orNull(v_scale);
  args.out = out.data();
  args.out_scale = orNull(out_scale);
  args.lse = orNull(lse);
}

std::vector<Buffer> HostProblem::buffers() {
  std::vector<Buffer> all;
  const auto add = [&all](const char* name, auto& buffer, bool output) {
    if (buffer.empty()) return;
    all.push_back({name, buffer.data(), buffer.size() * sizeof(buffer[0]), output});
  };
  add("q", q, false);
  add("k_pool", k_pool, false);
  add("v_pool", v_pool, false);
  add("q_offsets", q_offsets, false);
  add("page_table", page_table, false);
  add("seq_lens", seq_lens, false);
  add("sinks", sinks, false);
  add("mask", mask, false);
  add("q_scale", q_scale, false);
  add("k_scale", k_scale, false);
  add("v_scale", v_scale, false);
  add("out_scale", out_scale, false);
  add("out", out, true);
  add("lse", lse, true);
  return all;
}

void HostProblem::resetOutputs() {
  out.resize(index(out_elements) * dtypeBytes(outDtype()));
  setRow(outDtype(), out.data(), 0, out_elements, std::nan(""));
  std::fill(lse.begin(), lse.end(), std::numeric_limits<float>::quiet_NaN());
}

std::vector<double> HostProblem::outRows(const void* out_buffer) const {
  std::vector<double> rows;
  rows.reserve(index(total_rows * shape.num_q_heads * spec.head_dim));
  for (int32_t b = 0; b < batch(); ++b) {
    for (int32_t i = 0; i < rowsOf(b); ++i) {
      for (int32_t h = 0; h < shape.num_q_heads; ++h) {
        const int64_t offset = outOffset(b, i, h);
        for (int32_t d = 0; d < spec.head_dim; ++d) {
          rows.push_back(loadElement(outDtype(), out_buffer, offset + d));
        }
      }
    }
  }
  return rows;
}

bool HostProblem::outGapsUntouched(const void* out_buffer) const {
  std::vector<uint8_t> gaps(index(out_elements), 1);
  for (int32_t b = 0; b < batch(); ++b) {
    for (int32_t i = 0; i < rowsOf(b); ++i) {
      for (int32_t h = 0; h < shape.num_q_heads; ++h) {
        std::fill_n(gaps.begin() + outOffset(b, i, h), spec.head_dim, uint8_t{0});
      }
    }
  }
  for (int64_t i = 0; i < out_elements; ++i) {
    if (gaps[index(i)] != 0 && !std::isnan(loadElement(outDtype(), out_buffer, i))) return false;
  }
  return true;
}

std::string HostProblem::describe() const {
  char text[400];
  std::snprintf(
      text, sizeof(text),
      "d%d g%d kv_heads=%d q=%s kv=%s math=%s out=%s q_tokens=%d mask=%s page=%d %s window=%d "
      "scale=%g softcap=%g sinks=%d scales=%g/%g/%g%s out_scale=%g lse=%d strided=%d seed=%llu",
      spec.head_dim, spec.group_size, spec.num_kv_heads, dtypeText(spec.q_dtype),
      dtypeText(kvDtype()),
      dtypeText(spec.math_dtype == XQA_DTYPE_DEFAULT ? spec.q_dtype : spec.math_dtype),
      dtypeText(outDtype()), spec.q_tokens, maskName(spec.mask), shape.page_tokens,
      layoutName(spec.layout), spec.window, static_cast<double>(spec.softmax_scale),
      static_cast<double>(spec.softcap), spec.sinks, static_cast<double>(spec.q_scale),
      static_cast<double>(spec.k_scale), static_cast<double>(spec.v_scale),
      spec.per_head_scales ? " per head" : "", static_cast<double>(spec.out_scale), spec.lse,
      spec.strided_rows, static_cast<unsigned long long>(spec.seed));
  std::string line = text;
  line += " lens=" + listText(spec.seq_lens);
  if (!spec.ragged_rows.empty()) line += " rows=" + listText(spec.ragged_rows);
  return line;
}

}  // namespace xqa::testing
