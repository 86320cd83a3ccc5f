// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>

#include "formats.h"
#include "random.h"
#include "target.h"

namespace tool {
namespace {

// Keys and values of a unit from token `first` on, [tokens, head_dim].
template <typename Store>
void gatherCache(const Inputs& in, const Unit& unit, int32_t first, int32_t end,
                 const Store& store) {
  const size_t dim = static_cast<size_t>(in.spec.head_dim);
  size_t to = 0;
  for (int32_t t = first; t < end; ++t) {
    const int64_t k = in.keyElement(unit.request, t, unit.kv_head);
    const int64_t v = in.valueElement(unit.request, t, unit.kv_head);
    for (size_t d = 0; d < dim; ++d, ++to) {
      store(to, in.poolValue(k + static_cast<int64_t>(d)),
            in.poolValue(v + static_cast<int64_t>(d)));
    }
  }
}

double scaleOf(const std::vector<float>& scales, int32_t kv_head) {
  if (scales.empty()) return 1.0;
  return static_cast<double>(scales.size() == 1 ? scales[0] : scales[static_cast<size_t>(kv_head)]);
}

// First query head of a unit among all heads.
int32_t firstQueryHead(const Inputs& in, const Unit& unit) {
  return unit.kv_head * in.spec.group_size + unit.first_head;
}

size_t queryElement(const Inputs& in, int64_t row, int32_t query_head) {
  return static_cast<size_t>((row * in.shape.num_q_heads + query_head) * in.spec.head_dim);
}

// Whether query row i of n sees token t; position and visibility as xqa.h defines them.
bool sees(const Inputs& in, const Unit& unit, int32_t i, int32_t n, int32_t seq_len, int32_t t) {
  const int32_t position = seq_len - n + i;
  if (position < 0) return false;
  if (in.spec.window > 0 && t <= position - in.spec.window) return false;
  const int32_t draft = t - (seq_len - n);
  if (draft < 0) return true;
  if (in.mask.empty()) return draft <= i;
  const int64_t row = in.firstRow(unit.request) + i;
  const size_t word = static_cast<size_t>(row * in.maskWords() + draft / 32);
  return (in.mask[word] >> (draft % 32) & 1) != 0;
}

double unitCost(const Inputs& in, int32_t request) {
  const int32_t length = in.seq_lens[static_cast<size_t>(request)];
  const int32_t rows = in.rows(request);
  return static_cast<double>(length - firstVisibleToken(length, rows, in.spec.window)) * rows *
         in.spec.head_dim;
}

// One logit vector at a time: plain and slow, for trust.
void denseRow(const ProblemSpec& spec, const std::vector<double>& q,
              const std::vector<double>& keys, const std::vector<double>& values,
              const std::vector<bool>& visible, double scale, const double* sink, double out_scale,
              double* out, double* lse) {
  const size_t dim = q.size();
  std::vector<double> logits(visible.size(), -std::numeric_limits<double>::infinity());
  double maximum = sink != nullptr ? *sink : -std::numeric_limits<double>::infinity();
  for (size_t t = 0; t < visible.size(); ++t) {
    if (!visible[t]) continue;
    double dot = 0;
    for (size_t d = 0; d < dim; ++d) dot += q[d] * keys[t * dim + d];
    const double cap = static_cast<double>(spec.softcap);
    logits[t] = cap > 0 ? cap * std::tanh(dot * scale / cap) : dot * scale;
    maximum = std::max(maximum, logits[t]);
  }
  std::fill_n(out, dim, 0.0);
  *lse = maximum;
  if (std::isinf(maximum)) return;  // no key and no sink
  double denominator = sink != nullptr ? std::exp(*sink - maximum) : 0.0;
  for (size_t t = 0; t < visible.size(); ++t) {
    if (!visible[t]) continue;
    const double weight = std::exp(logits[t] - maximum);
    denominator += weight;
    for (size_t d = 0; d < dim; ++d) out[d] += weight * values[t * dim + d];
  }
  for (size_t d = 0; d < dim; ++d) {
    out[d] = decode(spec.outDtype(), encode(spec.outDtype(), out[d] * out_scale / denominator));
  }
  *lse = maximum + std::log(denominator);
}

// Words of an array, and so its alignment, that hold elements of a dtype.
size_t wordsFor(size_t elems, xqaDtype_t dtype) {
  return elems * dtypeBytes(dtype) / sizeof(uint64_t) + 1;
}

// A unit's keys and values in a contiguous cache, [length, head_dim]; zero where no row looks.
struct HostCache {
  std::vector<uint64_t> k;
  std::vector<uint64_t> v;
};

HostCache encodeCache(const Inputs& in, const Unit& unit, int32_t rows, int32_t length) {
  const xqaDtype_t dtype = in.spec.kvDtype();
  const size_t dim = static_cast<size_t>(in.spec.head_dim);
  const int32_t first = firstVisibleToken(length, rows, in.spec.window);
  HostCache cache;
  cache.k.resize(wordsFor(static_cast<size_t>(length) * dim, dtype));
  cache.v.resize(cache.k.size());
  const size_t skipped = static_cast<size_t>(first) * dim;
  gatherCache(in, unit, first, length, [&](size_t i, float key, float value) {
    storeElement(cache.k.data(), dtype, skipped + i, static_cast<double>(key));
    storeElement(cache.v.data(), dtype, skipped + i, static_cast<double>(value));
  });
  return cache;
}

// The problem of a unit alone: one request, one KV head, a contiguous cache.
xqaDecodeShape_t unitShape(const Inputs& in, const Unit& unit, int32_t length) {
  xqaDecodeShape_t shape = in.shape;
  shape.batch = 1;
  shape.num_q_heads = unit.heads;
  shape.num_kv_heads = 1;
  shape.page_tokens = std::max(1, length);
  shape.max_pages = 1;
  shape.k_strides = {};
  shape.v_strides = {};
  const int64_t row = int64_t(in.shape.num_q_heads) * in.spec.head_dim;
  shape.q_strides = {row * in.spec.q_tokens, row, in.spec.head_dim};
  return shape;
}

// Tensors of a unit, but for offsets, cache and outputs.
xqaDecodeArgs_t unitArgs(const Inputs& in, const Unit& unit) {
  const int32_t head = firstQueryHead(in, unit);
  const int64_t row = in.firstRow(unit.request);
  const auto of_head = [&](const std::vector<float>& scales) {
    return scales.empty() ? nullptr : scales.data() + (scales.size() == 1 ? 0 : unit.kv_head);
  };
  xqaDecodeArgs_t args = in.hostArgs(nullptr, nullptr, nullptr);
  args.q = in.q.data() + queryElement(in, row, head);
  args.page_table = nullptr;
  args.seq_lens = &in.seq_lens[static_cast<size_t>(unit.request)];
  args.sinks = in.sinks.empty() ? nullptr : in.sinks.data() + head;
  args.mask = in.mask.empty() ? nullptr : in.mask.data() + row * in.maskWords();
  args.q_scale = of_head(in.q_scale);
  args.k_scale = of_head(in.k_scale);
  args.v_scale = of_head(in.v_scale);
  args.flags = 0;
  return args;
}

}  // namespace

std::vector<Unit> chooseUnits(const Inputs& in, double budget, size_t max_units) {
  double total = 0;
  for (int32_t b = 0; b < in.spec.batch; ++b) total += unitCost(in, b) * in.shape.num_q_heads;
  const size_t all = static_cast<size_t>(in.spec.batch) * static_cast<size_t>(in.spec.kv_heads);
  std::vector<Unit> units;
  if (total <= budget && all <= max_units) {
    for (int32_t b = 0; b < in.spec.batch; ++b) {
      for (int32_t h = 0; h < in.spec.kv_heads; ++h) {
        if (in.rows(b) > 0) units.push_back({b, h, 0, in.spec.group_size});
      }
    }
    return units;
  }
  // A random order without repetition is a sample of every length and head; the first unit always
  // fits.
  std::vector<int32_t> requests(static_cast<size_t>(in.spec.batch));
  for (size_t b = 0; b < requests.size(); ++b) {
    requests[b] = static_cast<int32_t>(b);
    std::swap(requests[b], requests[randomBits(in.spec.seed, b) % (b + 1)]);
  }
  for (size_t i = 0; i < all && units.size() < max_units; ++i) {
    const int32_t request = requests[i % requests.size()];
    const uint64_t turn = i / requests.size() + randomBits(in.spec.seed, i % requests.size());
    const int32_t kv_head = static_cast<int32_t>(turn % static_cast<uint64_t>(in.spec.kv_heads));
    if (in.rows(request) == 0) continue;
    const double head_cost = std::max(1.0, unitCost(in, request));
    int32_t heads =
        static_cast<int32_t>(std::min<double>(in.spec.group_size, std::floor(budget / head_cost)));
    if (heads < 1) {
      if (!units.empty()) continue;
      heads = 1;
    }
    const uint64_t places = static_cast<uint64_t>(in.spec.group_size - heads + 1);
    units.push_back({request, kv_head, static_cast<int32_t>(turn % places), heads});
    budget -= head_cost * heads;
  }
  return units;
}

UnitRows referenceRows(const Inputs& in, const Unit& unit) {
  const ProblemSpec& spec = in.spec;
  const int32_t rows = in.rows(unit.request);
  const int32_t length = in.seq_lens[static_cast<size_t>(unit.request)];
  const HostCache cache = encodeCache(in, unit, rows, length);
  const size_t out_rows = static_cast<size_t>(rows) * static_cast<size_t>(unit.heads);
  UnitRows expected;
  expected.out.resize(out_rows * static_cast<size_t>(spec.head_dim));
  std::vector<uint64_t> out(wordsFor(expected.out.size(), spec.outDtype()));
  std::vector<float> lse(spec.lse ? out_rows : 0);

  xqaVariantKey_t key = in.key;
  key.group_size = unit.heads;
  const xqaDecodeShape_t shape = unitShape(in, unit, length);
  const int32_t offsets[] = {0, rows};
  xqaDecodeArgs_t args = unitArgs(in, unit);
  args.q_offsets = spec.ragged ? offsets : nullptr;
  args.k_cache = cache.k.data();
  args.v_cache = cache.v.data();
  args.out = out.data();
  args.lse = spec.lse ? lse.data() : nullptr;
  xqaDiagnostic_t diagnostic = emptyDiagnostic();
  requireSuccess("xqaDecodeHost", xqaDecodeHost(&key, &shape, &args, &diagnostic), diagnostic);
  for (size_t i = 0; i < expected.out.size(); ++i) {
    expected.out[i] = loadElement(out.data(), spec.outDtype(), i);
  }
  expected.lse.assign(lse.begin(), lse.end());
  return expected;
}

UnitRows denseRows(const Inputs& in, const Unit& unit) {
  const ProblemSpec& spec = in.spec;
  const size_t dim = static_cast<size_t>(spec.head_dim);
  const int32_t rows = in.rows(unit.request);
  const int32_t length = in.seq_lens[static_cast<size_t>(unit.request)];
  const int32_t first = firstVisibleToken(length, rows, spec.window);
  std::vector<double> keys(static_cast<size_t>(length - first) * dim);
  std::vector<double> values(keys.size());
  const auto quantised = [&](float value) {
    return decode(spec.kvDtype(), encode(spec.kvDtype(), static_cast<double>(value)));
  };
  gatherCache(in, unit, first, length, [&](size_t i, float key, float value) {
    keys[i] = quantised(key);
    values[i] = quantised(value);
  });

  const double softmax_scale = spec.softmax_scale != 0.0f
                                   ? static_cast<double>(spec.softmax_scale)
                                   : 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  const double scale =
      softmax_scale * scaleOf(in.q_scale, unit.kv_head) * scaleOf(in.k_scale, unit.kv_head);
  const double out_scale = scaleOf(in.out_scale, 0) * scaleOf(in.v_scale, unit.kv_head);
  UnitRows expected;
  expected.out.resize(static_cast<size_t>(rows) * static_cast<size_t>(unit.heads) * dim);
  std::vector<double> lse(expected.out.size() / dim);
  std::vector<double> q(dim);
  std::vector<bool> visible(static_cast<size_t>(length - first));
  for (int32_t i = 0; i < rows; ++i) {
    for (size_t t = 0; t < visible.size(); ++t) {
      visible[t] = sees(in, unit, i, rows, length, first + static_cast<int32_t>(t));
    }
    for (int32_t h = 0; h < unit.heads; ++h) {
      const int32_t head = firstQueryHead(in, unit) + h;
      const size_t from = queryElement(in, in.firstRow(unit.request) + i, head);
      for (size_t d = 0; d < dim; ++d) q[d] = decode(spec.q_dtype, in.q[from + d]);
      const double sink =
          in.sinks.empty() ? 0.0 : static_cast<double>(in.sinks[static_cast<size_t>(head)]);
      const size_t row = static_cast<size_t>(i * unit.heads + h);
      denseRow(spec, q, keys, values, visible, scale, in.sinks.empty() ? nullptr : &sink, out_scale,
               expected.out.data() + row * dim, &lse[row]);
    }
  }
  if (spec.lse) expected.lse = std::move(lse);
  return expected;
}

UnitRows outputRows(const Inputs& in, const Unit& unit, const void* out, const float* lse) {
  const size_t dim = static_cast<size_t>(in.spec.head_dim);
  UnitRows rows;
  for (int32_t i = 0; i < in.rows(unit.request); ++i) {
    for (int32_t h = 0; h < unit.heads; ++h) {
      const int64_t row = in.firstRow(unit.request) + i;
      const size_t from = queryElement(in, row, firstQueryHead(in, unit) + h);
      for (size_t d = 0; d < dim; ++d) {
        rows.out.push_back(loadElement(out, in.spec.outDtype(), from + d));
      }
      if (in.spec.lse) rows.lse.push_back(static_cast<double>(lse[from / dim]));
    }
  }
  return rows;
}

Bounds boundsFor(const ProblemSpec& spec) {
  double error = spec.q_dtype == XQA_DTYPE_BF16 ? 6e-3 : 1e-3;
  const double lse_error = 2 * error;
  // Elements that straddle a rounding boundary move by a whole step of 1/8 to 1/16.
  if (spec.outDtype() == XQA_DTYPE_E4M3) error = 4e-2;
  return {error, 4 * error, lse_error};
}

void Comparison::addRow(const double* expected, const double* actual, size_t size) {
  double difference = 0;
  double magnitude = 0;
  for (size_t i = 0; i < size; ++i) {
    if (!std::isfinite(expected[i]) || !std::isfinite(actual[i])) {
      const bool same =
          (std::isnan(expected[i]) && std::isnan(actual[i])) || expected[i] == actual[i];
      if (!same) ++special_mismatches_;
      continue;
    }
    difference += (expected[i] - actual[i]) * (expected[i] - actual[i]);
    magnitude += expected[i] * expected[i];
  }
  difference_squares_ += difference;
  expected_squares_ += magnitude;
  // A row of zeros must be one exactly.
  const double row_error = magnitude > 0    ? std::sqrt(difference / magnitude)
                           : difference > 0 ? std::numeric_limits<double>::infinity()
                                            : 0.0;
  worst_row_ = std::max(worst_row_, row_error);
  ++rows_;
}

void Comparison::addLse(double expected, double actual) {
  if (std::isinf(expected) || !std::isfinite(actual)) {
    if (expected != actual) ++special_mismatches_;
    return;
  }
  worst_lse_ =
      std::max(worst_lse_, std::fabs(expected - actual) / std::max(1.0, std::fabs(expected)));
}

void Comparison::add(const UnitRows& expected, const UnitRows& actual, size_t row_size) {
  for (size_t i = 0; i < expected.out.size(); i += row_size) {
    addRow(expected.out.data() + i, actual.out.data() + i, row_size);
  }
  for (size_t i = 0; i < expected.lse.size(); ++i) addLse(expected.lse[i], actual.lse[i]);
}

double Comparison::error() const {
  if (expected_squares_ > 0) return std::sqrt(difference_squares_ / expected_squares_);
  return difference_squares_ > 0 ? std::numeric_limits<double>::infinity() : 0.0;
}

std::string Comparison::failure() const {
  char text[160] = "";
  if (rows_ == 0) {
    std::snprintf(text, sizeof(text), "nothing was compared");
  } else if (special_mismatches_ > 0) {
    std::snprintf(text, sizeof(text), "%lld values are NaN or infinite on one side only",
                  static_cast<long long>(special_mismatches_));
  } else if (!(error() <= bounds_.error)) {
    std::snprintf(text, sizeof(text), "error %.2e exceeds %.0e", error(), bounds_.error);
  } else if (!(worst_row_ <= bounds_.row_error)) {
    std::snprintf(text, sizeof(text), "a row has error %.2e, more than %.1e", worst_row_,
                  bounds_.row_error);
  } else if (!(worst_lse_ <= bounds_.lse_error)) {
    std::snprintf(text, sizeof(text), "a log-sum-exp has error %.2e, more than %.1e", worst_lse_,
                  bounds_.lse_error);
  }
  return text;
}

CheckResult checkOutput(const Inputs& in, const std::vector<Unit>& units, Expectation expectation,
                        const void* out, const float* lse) {
  const bool dense = expectation == Expectation::kDense;
  CheckResult result = {Comparison(boundsFor(in.spec)),
                        dense ? "dense float64 computation" : "xqaDecodeHost", 0, in.spec.batch,
                        in.total_rows * in.shape.num_q_heads};
  std::set<int32_t> requests;
  for (const Unit& unit : units) {
    result.comparison.add(dense ? denseRows(in, unit) : referenceRows(in, unit),
                          outputRows(in, unit, out, lse), static_cast<size_t>(in.spec.head_dim));
    requests.insert(unit.request);
  }
  result.checked_requests = static_cast<int64_t>(requests.size());
  return result;
}

}  // namespace tool
