// SPDX-License-Identifier: Apache-2.0
#include "problem_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "reference/dtype.h"

namespace xqa::testing {
namespace {

// One stream of random data for each use, so that a change of one property of a problem leaves the
// data of the others alone.
enum Stream : uint64_t { kQuery, kKey, kValue, kPages, kSinks, kMask, kStreams };

uint64_t streamSeed(const ProblemSpec& spec, Stream stream) {
  return spec.seed * kStreams + stream;
}

size_t dtypeBytes(xqaDtype_t dtype) { return dtype == XQA_DTYPE_E4M3 ? 1 : 2; }

size_t index(int64_t value) { return static_cast<size_t>(value); }

// `elements` copies of one value.
std::vector<uint8_t> filled(xqaDtype_t dtype, int64_t elements, double value) {
  uint8_t code[2] = {};
  storeElement(dtype, code, 0, value);
  std::vector<uint8_t> bytes(index(elements) * dtypeBytes(dtype), code[0]);
  for (size_t i = 1; dtypeBytes(dtype) == 2 && i < bytes.size(); i += 2) bytes[i] = code[1];
  return bytes;
}

// Codes of normal samples of one deviation. Rows of random data draw from it by 16 random bits an
// element: caches of many million elements are filled in the time that memory takes.
class NormalCodes {
 public:
  NormalCodes(xqaDtype_t dtype, double deviation) : dtype_(dtype), codes_(kSamples * 2) {
    constexpr uint64_t kTableSeed = 0x5EED;
    for (uint64_t i = 0; i < kSamples; ++i) {
      const double sample = deviation * randomNormal(kTableSeed, i);
      storeElement(dtype, codes_.data(), static_cast<int64_t>(i), sample);
    }
  }

  // Fills elements of a row that has its own index in a stream.
  void fill(void* array, int64_t offset, int32_t elements, uint64_t seed, int64_t row) const {
    const size_t bytes = dtypeBytes(dtype_);
    uint8_t* const to = static_cast<uint8_t*>(array) + index(offset) * bytes;
    const uint64_t first = static_cast<uint64_t>(row) * static_cast<uint64_t>((elements + 3) / 4);
    for (int32_t i = 0; i < elements; ++i) {
      const uint64_t bits = randomBits(seed, first + static_cast<uint64_t>(i / 4));
      const size_t sample = bits >> (16 * (i % 4)) & (kSamples - 1);
      std::copy_n(codes_.data() + sample * bytes, bytes, to + static_cast<size_t>(i) * bytes);
    }
  }

 private:
  static constexpr size_t kSamples = 1 << 16;
  xqaDtype_t dtype_;
  std::vector<uint8_t> codes_;
};

void makeRows(HostProblem* problem) {
  const ProblemSpec& spec = problem->spec;
  problem->total_rows = int64_t{problem->batch()} * spec.q_tokens;
  if (spec.ragged_rows.empty()) return;
  problem->q_offsets.assign(1, 0);
  for (const int32_t rows : spec.ragged_rows) {
    problem->q_offsets.push_back(problem->q_offsets.back() + rows);
  }
  problem->total_rows = problem->q_offsets.back();
}

void makeMask(HostProblem* problem) {
  const ProblemSpec& spec = problem->spec;
  if (spec.mask == DraftMask::kCausal) return;
  const size_t words = static_cast<size_t>((spec.q_tokens + 31) / 32);
  // At least one word, so that a problem without rows still passes a mask.
  problem->mask.assign(std::max<size_t>(1, index(problem->total_rows) * words), 0);
  for (int32_t b = 0; b < problem->batch(); ++b) {
    const uint32_t rows = static_cast<uint32_t>(problem->rowsOf(b));
    uint32_t* const first = problem->mask.data() + index(problem->firstRowOf(b)) * words;
    for (uint32_t i = 0; i < rows; ++i) {
      uint32_t* const row = first + i * words;
      const uint64_t bits = randomBits(streamSeed(spec, kMask), uint64_t{i} << 32 | uint64_t(b));
      if (spec.mask == DraftMask::kTree) {
        if (i > 0) std::copy_n(first + (bits % i) * words, words, row);  // a random parent
        row[i / 32] |= 1u << (i % 32);
        continue;
      }
      for (uint32_t j = 0; j < rows; ++j) {
        if (spec.mask == DraftMask::kRandom && (randomBits(bits, j) & 1) == 0) continue;
        row[j / 32] |= 1u << (j % 32);
      }
    }
  }
}

void makeScales(HostProblem* problem) {
  const ProblemSpec& spec = problem->spec;
  const auto make = [&spec](float value, std::vector<float>* scales, int32_t* stride) {
    if (value == 0.0f) return;
    const int32_t count = spec.per_head_scales ? spec.num_kv_heads : 1;
    for (int32_t h = 0; h < count; ++h) {
      scales->push_back(value * (1.0f + 0.25f * static_cast<float>(h)));
    }
    *stride = spec.per_head_scales ? 1 : 0;
  };
  make(spec.q_scale, &problem->q_scale, &problem->shape.q_scale_stride);
  make(spec.k_scale, &problem->k_scale, &problem->shape.k_scale_stride);
  make(spec.v_scale, &problem->v_scale, &problem->shape.v_scale_stride);
  if (spec.out_scale != 0.0f) problem->out_scale = {spec.out_scale};
  if (!spec.sinks) return;
  // Near the log of the number of keys: heavy enough to matter in every head.
  const int32_t longest = *std::max_element(spec.seq_lens.begin(), spec.seq_lens.end());
  for (int32_t h = 0; h < problem->shape.num_q_heads; ++h) {
    const double sample = randomNormal(streamSeed(spec, kSinks), static_cast<uint64_t>(h));
    problem->sinks.push_back(static_cast<float>(std::log(1.0 + std::max(0, longest)) + sample));
  }
}

void makeShape(HostProblem* problem) {
  const ProblemSpec& spec = problem->spec;
  xqaDecodeShape_t& shape = problem->shape;
  problem->key = {sizeof(problem->key), spec.head_dim,   spec.group_size, spec.q_dtype,
                  spec.kv_dtype,        spec.math_dtype, spec.backend};
  shape.struct_size = sizeof(shape);
  shape.batch = static_cast<int32_t>(spec.seq_lens.size());
  shape.q_tokens = spec.q_tokens;
  shape.num_q_heads = spec.num_kv_heads * spec.group_size;
  shape.num_kv_heads = spec.num_kv_heads;
  shape.out_dtype = spec.out_dtype;
  shape.window = spec.window;
  shape.softmax_scale = spec.softmax_scale;
  shape.softcap = spec.softcap;

  const int64_t dim = spec.head_dim;
  const int64_t heads = shape.num_q_heads;
  shape.q_strides = {spec.q_tokens * heads * dim, heads * dim, dim};
  shape.out_strides = shape.q_strides;
  if (!spec.strided_rows) return;
  const int64_t qkv = (heads + 2 * spec.num_kv_heads) * dim;
  shape.q_strides = {spec.q_tokens * qkv, qkv, dim};
  const int64_t out_head = dim + 8;
  const int64_t out_token = heads * out_head + 16;
  shape.out_strides = {spec.q_tokens * out_token + 8, out_token, out_head};
}

// Page size, capacity and strides; the pool is sized when its pages are counted.
void makeCacheLayout(HostProblem* problem) {
  const ProblemSpec& spec = problem->spec;
  xqaDecodeShape_t& shape = problem->shape;
  int32_t longest = 0;
  for (const int32_t length : spec.seq_lens) longest = std::max(longest, length);
  if (spec.layout == CacheLayout::kContiguous) {
    shape.page_tokens = longest + 3;
    shape.max_pages = 1;
  } else {
    const int32_t needed = (longest + spec.page_tokens - 1) / spec.page_tokens;
    shape.page_tokens = spec.page_tokens;
    shape.max_pages = spec.max_pages > 0 ? spec.max_pages : needed + 1;
    shape.page_table_stride = shape.max_pages + 1;
  }
  const int64_t dim = spec.head_dim;
  const int64_t token = dim * spec.num_kv_heads;
  const int64_t page = token * shape.page_tokens;
  shape.k_strides = {page, token, dim};
  shape.v_strides = shape.k_strides;
  switch (spec.layout) {
    case CacheLayout::kNhd:
    case CacheLayout::kContiguous:
      break;
    case CacheLayout::kHnd:
      shape.k_strides = {page, dim, dim * shape.page_tokens};
      shape.v_strides = shape.k_strides;
      break;
    case CacheLayout::kInterleaved:
      shape.k_strides.page = 2 * page;
      shape.v_strides.page = 2 * page;
      problem->v_offset = page;
      break;
    case CacheLayout::kPadded: {
      const int64_t k_token = spec.num_kv_heads * (dim + 16) + 32;
      const int64_t v_token = spec.num_kv_heads * (dim + 32) + 16;
      shape.k_strides = {k_token * shape.page_tokens + 48, k_token, dim + 16};
      shape.v_strides = {v_token * shape.page_tokens + 16, v_token, dim + 32};
      break;
    }
  }
}

// Gives a page of the pool to every page that holds a visible token, in random order.
void makePages(HostProblem* problem) {
  const ProblemSpec& spec = problem->spec;
  const xqaDecodeShape_t& shape = problem->shape;
  if (spec.layout == CacheLayout::kContiguous) {
    problem->pool_pages = std::max(1, shape.batch);
    return;
  }
  constexpr int32_t kGarbage[] = {-1, std::numeric_limits<int32_t>::max()};
  problem->page_table.resize(index(std::max(1, shape.batch) * shape.page_table_stride));
  for (size_t i = 0; i < problem->page_table.size(); ++i) problem->page_table[i] = kGarbage[i % 2];

  std::vector<size_t> mapped;
  for (int32_t b = 0; b < shape.batch; ++b) {
    int32_t last_page = -1;
    for (int32_t token = 0; token < problem->lengthOf(b); ++token) {
      const int32_t page = token / shape.page_tokens;
      if (page == last_page || !problem->visibleToAny(b, token)) continue;
      mapped.push_back(index(b * shape.page_table_stride + page));
      last_page = page;
    }
  }
  constexpr int64_t kSparePages = 2;
  problem->pool_pages = static_cast<int64_t>(mapped.size()) + kSparePages;
  std::vector<int32_t> ids(index(problem->pool_pages));
  std::iota(ids.begin(), ids.end(), 0);
  for (size_t i = ids.size(); spec.shuffled_pages && i > 1; --i) {
    std::swap(ids[i - 1], ids[randomBits(streamSeed(spec, kPages), i) % i]);
  }
  for (size_t i = 0; i < mapped.size(); ++i) problem->page_table[mapped[i]] = ids[i];
}

void fillCache(HostProblem* problem) {
  const ProblemSpec& spec = problem->spec;
  const xqaDecodeShape_t& shape = problem->shape;
  const double unused = spec.unused_slots == UnusedSlots::kNan ? std::nan("") : 0.0;
  problem->k_pool = filled(problem->kvDtype(), problem->pool_pages * shape.k_strides.page, unused);
  if (spec.layout != CacheLayout::kInterleaved) {
    problem->v_pool =
        filled(problem->kvDtype(), problem->pool_pages * shape.v_strides.page, unused);
  }
  std::vector<uint8_t>& v_pool = problem->v_pool.empty() ? problem->k_pool : problem->v_pool;
  const NormalCodes codes(problem->kvDtype(), 0.5);
  int64_t row = 0;
  for (int32_t b = 0; b < shape.batch; ++b) {
    for (int32_t token = 0; token < problem->lengthOf(b); ++token) {
      const bool used = problem->visibleToAny(b, token);
      for (int32_t h = 0; h < shape.num_kv_heads; ++h, ++row) {
        if (!used) continue;
        codes.fill(problem->k_pool.data(), problem->keyOffset(b, token, h), spec.head_dim,
                   streamSeed(spec, kKey), row);
        codes.fill(v_pool.data(), problem->v_offset + problem->valueOffset(b, token, h),
                   spec.head_dim, streamSeed(spec, kValue), row);
      }
    }
  }
}

void fillQueries(HostProblem* problem) {
  const ProblemSpec& spec = problem->spec;
  const xqaDecodeShape_t& shape = problem->shape;
  const int64_t token_elements = shape.q_strides.token;
  problem->q = filled(spec.q_dtype, std::max<int64_t>(1, problem->total_rows) * token_elements,
                      std::nan(""));
  const NormalCodes codes(spec.q_dtype, 1.0);
  int64_t row = 0;
  for (int32_t b = 0; b < shape.batch; ++b) {
    for (int32_t i = 0; i < problem->rowsOf(b); ++i) {
      for (int32_t h = 0; h < shape.num_q_heads; ++h, ++row) {
        codes.fill(problem->q.data(), problem->queryOffset(b, i, h), spec.head_dim,
                   streamSeed(spec, kQuery), row);
      }
    }
  }
}

void makeOutputs(HostProblem* problem) {
  const xqaDecodeShape_t& shape = problem->shape;
  const int64_t rows = std::max<int64_t>(1, problem->total_rows);
  problem->out_elements = rows * shape.out_strides.token;
  if (problem->q_offsets.empty()) {
    problem->out_elements = std::max(1, shape.batch) * shape.out_strides.batch;
  }
  if (problem->spec.lse) problem->lse.resize(index(rows * shape.num_q_heads));
  problem->resetOutputs();
}

}  // namespace

uint64_t randomBits(uint64_t seed, uint64_t index) {
  // The finaliser of SplitMix64 over a Weyl sequence.
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
  uint64_t bits = (seed * 0xD1342543DE82EF95 ^ 0xA0761D6478BD642F) + (index + 1) * kGolden;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EB;
  return bits ^ bits >> 31;
}

double randomNormal(uint64_t seed, uint64_t index) {
  // Box-Muller; the first uniform number is above 0.
  constexpr double kTwoPi = 6.283185307179586;
  const double radius = (static_cast<double>(randomBits(seed, 2 * index) >> 11) + 1) * 0x1p-53;
  const double angle = static_cast<double>(randomBits(seed, 2 * index + 1) >> 11) * 0x1p-53;
  return std::sqrt(-2.0 * std::log(radius)) * std::cos(kTwoPi * angle);
}

HostProblem buildProblem(const ProblemSpec& spec) {
  HostProblem problem;
  problem.spec = spec;
  problem.seq_lens = spec.seq_lens;
  makeShape(&problem);
  makeRows(&problem);
  makeMask(&problem);
  makeScales(&problem);
  makeCacheLayout(&problem);
  makePages(&problem);
  fillCache(&problem);
  fillQueries(&problem);
  makeOutputs(&problem);
  problem.bindArgs();
  return problem;
}

}  // namespace xqa::testing
