// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"

#include <algorithm>
#include <numeric>

#include "formats.h"
#include "random.h"

namespace tool {
namespace {

// Streams of random data, one for each use, besides the pool's own.
enum Stream : uint64_t { kPool, kQuery, kLengths, kPages, kSinks, kMask, kRagged };

uint64_t streamSeed(const ProblemSpec& spec, Stream stream) { return spec.seed * 8 + stream; }

void makeRows(Inputs* in) {
  const ProblemSpec& spec = in->spec;
  in->total_rows = int64_t(spec.batch) * spec.q_tokens;
  if (!spec.ragged) return;
  in->q_offsets.assign(1, 0);
  for (int32_t b = 0; b < spec.batch; ++b) {
    // The first request has the most, so that the maximum is what the shape says.
    const uint64_t bits = randomBits(streamSeed(spec, kRagged), static_cast<uint64_t>(b));
    const uint64_t rows = b == 0 ? static_cast<uint64_t>(spec.q_tokens)
                                 : bits % (static_cast<uint64_t>(spec.q_tokens) + 1);
    in->q_offsets.push_back(in->q_offsets.back() + static_cast<int32_t>(rows));
  }
  in->total_rows = in->q_offsets.back();
}

void makeMask(Inputs* in) {
  const ProblemSpec& spec = in->spec;
  if (spec.mask == DraftMask::kCausal) return;
  const size_t words = static_cast<size_t>(in->maskWords());
  in->mask.assign(static_cast<size_t>(in->total_rows) * words, 0);
  for (int32_t b = 0; b < spec.batch; ++b) {
    const uint32_t rows = static_cast<uint32_t>(in->rows(b));
    uint32_t* const first = in->mask.data() + static_cast<size_t>(in->firstRow(b)) * words;
    for (uint32_t i = 0; i < rows; ++i) {
      uint32_t* const row = first + i * words;
      if (spec.mask == DraftMask::kFull) {
        for (uint32_t j = 0; j < rows; ++j) row[j / 32] |= 1u << (j % 32);
        continue;
      }
      // A tree: each token sees itself and what its parent, an earlier token, sees.
      const uint64_t index = (static_cast<uint64_t>(b) << 32) | i;
      if (i > 0) {
        const uint64_t parent = randomBits(streamSeed(spec, kMask), index) % i;
        std::copy_n(first + parent * words, words, row);
      }
      row[i / 32] |= 1u << (i % 32);
    }
  }
}

std::vector<float> makeScale(const ProblemSpec& spec, float scale) {
  if (scale == 0.0f) return {};
  if (!spec.per_head_scales) return {scale};
  std::vector<float> scales(static_cast<size_t>(spec.kv_heads));
  for (size_t h = 0; h < scales.size(); ++h) {
    scales[h] = scale * (0.75f + 0.5f * static_cast<float>(h) / static_cast<float>(scales.size()));
  }
  return scales;
}

void makeSmallTensors(Inputs* in) {
  const ProblemSpec& spec = in->spec;
  in->q.resize(static_cast<size_t>(in->outElems()));
  for (size_t i = 0; i < in->q.size(); ++i) {
    const float value = randomNormal(streamSeed(spec, kQuery), i);
    in->q[i] = static_cast<uint16_t>(encode(spec.q_dtype, static_cast<double>(value)));
  }
  if (spec.sinks) {
    in->sinks.resize(static_cast<size_t>(in->shape.num_q_heads));
    for (size_t h = 0; h < in->sinks.size(); ++h) {
      // Around the log of a few hundred keys: heavy enough to matter in every head.
      in->sinks[h] = 5.0f + randomNormal(streamSeed(spec, kSinks), h);
    }
  }
  in->q_scale = makeScale(spec, spec.q_scale);
  in->k_scale = makeScale(spec, spec.k_scale);
  in->v_scale = makeScale(spec, spec.v_scale);
  if (spec.out_scale != 0.0f) in->out_scale = {spec.out_scale};
}

struct PageSpan {  // pages of a request that hold a visible token
  int32_t first;
  int32_t end;
};

PageSpan visiblePages(const Inputs& in, int32_t request) {
  const int32_t length = in.seq_lens[static_cast<size_t>(request)];
  const int32_t rows = in.rows(request);
  if (rows == 0 || length == 0) return {0, 0};
  const int32_t page = in.spec.page_tokens;
  return {firstVisibleToken(length, rows, in.spec.window) / page, (length + page - 1) / page};
}

// Strides of one page and of the pool: pages of all rotations, K first, V after it or beside it.
void layOutPages(Inputs* in, int64_t pages) {
  const ProblemSpec& spec = in->spec;
  xqaDecodeShape_t& shape = in->shape;
  const int64_t dim = spec.head_dim;
  const int64_t token = dim * spec.kv_heads;
  const int64_t page = token * shape.page_tokens;
  shape.k_strides = {page, token, dim};
  shape.v_strides = shape.k_strides;
  in->v_base = page * pages;
  in->pool_elems = 2 * in->v_base;
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
      in->v_base = page;
      break;
    case CacheLayout::kPadded:  // gaps of one and two tokens: K and V strides differ
      shape.k_strides.page = page + token;
      shape.v_strides.page = page + 2 * token;
      in->v_base = shape.k_strides.page * pages;
      in->pool_elems = in->v_base + shape.v_strides.page * pages;
      break;
  }
}

void makePagedCache(Inputs* in) {
  const ProblemSpec& spec = in->spec;
  const int32_t longest = *std::max_element(in->seq_lens.begin(), in->seq_lens.end());
  in->shape.page_tokens = spec.page_tokens;
  in->shape.max_pages = std::max(1, (longest + spec.page_tokens - 1) / spec.page_tokens);
  in->table_entries = int64_t(spec.batch) * in->shape.max_pages;
  int64_t pages = 0;
  for (int32_t b = 0; b < spec.batch; ++b) {
    pages += visiblePages(*in, b).end - visiblePages(*in, b).first;
  }
  pages = std::max<int64_t>(1, pages * in->rotations);
  layOutPages(in, pages);

  std::vector<int32_t> ids(static_cast<size_t>(pages));
  std::iota(ids.begin(), ids.end(), 0);
  for (size_t i = ids.size(); i > 1; --i) {
    std::swap(ids[i - 1], ids[randomBits(streamSeed(spec, kPages), i) % i]);
  }
  // Entries without a visible token are garbage that no variant may follow.
  in->page_table.assign(static_cast<size_t>(in->table_entries * in->rotations), -1);
  size_t next = 0;
  for (int64_t r = 0; r < in->rotations; ++r) {
    for (int32_t b = 0; b < spec.batch; ++b) {
      const PageSpan span = visiblePages(*in, b);
      int32_t* const row =
          in->page_table.data() + r * in->table_entries + int64_t(b) * in->shape.max_pages;
      for (int32_t p = span.first; p < span.end; ++p) row[p] = ids[next++];
    }
  }
}

void makeContiguousCache(Inputs* in) {
  const int32_t longest = *std::max_element(in->seq_lens.begin(), in->seq_lens.end());
  in->shape.page_tokens = std::max(1, longest);
  in->shape.max_pages = 1;
  in->table_entries = 0;
  layOutPages(in, int64_t(in->spec.batch) * in->rotations);
  in->rotation_elems = in->shape.k_strides.page * in->spec.batch;
}

int64_t cacheElement(const Inputs& in, const xqaCacheStrides_t& strides, int32_t request,
                     int32_t token, int32_t kv_head) {
  const int32_t page = token / in.shape.page_tokens;
  const int64_t id =
      in.page_table.empty()
          ? request
          : in.page_table[static_cast<size_t>(request) * static_cast<size_t>(in.shape.max_pages) +
                          static_cast<size_t>(page)];
  return id * strides.page + (token % in.shape.page_tokens) * strides.token +
         kv_head * strides.head;
}

template <typename T>
const T* dataOrNull(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

}  // namespace

int32_t firstVisibleToken(int32_t seq_len, int32_t rows, int32_t window) {
  return window == 0 ? 0 : std::max(0, seq_len - rows - window + 1);
}

Inputs buildInputs(const ProblemSpec& spec, int32_t rotations) {
  Inputs in = {};
  in.spec = spec;
  in.key = spec.key();
  in.rotations = rotations;
  in.shape.struct_size = sizeof(in.shape);
  in.shape.batch = spec.batch;
  in.shape.q_tokens = spec.q_tokens;
  in.shape.num_q_heads = spec.kv_heads * spec.group_size;
  in.shape.num_kv_heads = spec.kv_heads;
  in.shape.out_dtype = spec.out_dtype;
  in.shape.window = spec.window;
  in.shape.softmax_scale = spec.softmax_scale;
  in.shape.softcap = spec.softcap;
  const int32_t scale_stride = spec.per_head_scales ? 1 : 0;
  in.shape.q_scale_stride = spec.q_scale != 0.0f ? scale_stride : 0;
  in.shape.k_scale_stride = spec.k_scale != 0.0f ? scale_stride : 0;
  in.shape.v_scale_stride = spec.v_scale != 0.0f ? scale_stride : 0;

  in.seq_lens = spec.lengths.draw(spec.batch, streamSeed(spec, kLengths));
  makeRows(&in);
  makeMask(&in);
  makeSmallTensors(&in);
  for (int32_t b = 0; b < spec.batch; ++b) {
    const int32_t length = in.seq_lens[static_cast<size_t>(b)];
    if (in.rows(b) == 0) continue;
    in.visible_tokens += length - firstVisibleToken(length, in.rows(b), spec.window);
  }
  if (spec.layout == CacheLayout::kContiguous) {
    makeContiguousCache(&in);
  } else {
    makePagedCache(&in);
  }
  return in;
}

int32_t Inputs::rows(int32_t request) const {
  const size_t b = static_cast<size_t>(request);
  return q_offsets.empty() ? spec.q_tokens : q_offsets[b + 1] - q_offsets[b];
}

int64_t Inputs::firstRow(int32_t request) const {
  return q_offsets.empty() ? int64_t(request) * spec.q_tokens
                           : q_offsets[static_cast<size_t>(request)];
}

int64_t Inputs::visibleBytes() const {
  return 2 * visible_tokens * spec.kv_heads * spec.head_dim *
         static_cast<int64_t>(dtypeBytes(spec.kvDtype()));
}

int64_t Inputs::keyElement(int32_t request, int32_t token, int32_t kv_head) const {
  return cacheElement(*this, shape.k_strides, request, token, kv_head);
}

int64_t Inputs::valueElement(int32_t request, int32_t token, int32_t kv_head) const {
  return v_base + cacheElement(*this, shape.v_strides, request, token, kv_head);
}

uint64_t Inputs::poolSeed() const { return streamSeed(spec, kPool); }

float Inputs::poolValue(int64_t element) const {
  return randomNormal(poolSeed(), static_cast<uint64_t>(element));
}

xqaDecodeArgs_t Inputs::hostArgs(const void* pool, void* out, float* lse) const {
  xqaDecodeArgs_t args = {};
  args.struct_size = sizeof(args);
  args.q = q.data();
  args.q_offsets = dataOrNull(q_offsets);
  args.k_cache = pool;
  args.v_cache =
      static_cast<const uint8_t*>(pool) + v_base * static_cast<int64_t>(dtypeBytes(spec.kvDtype()));
  args.page_table = dataOrNull(page_table);
  args.seq_lens = seq_lens.data();
  args.sinks = dataOrNull(sinks);
  args.mask = dataOrNull(mask);
  args.q_scale = dataOrNull(q_scale);
  args.k_scale = dataOrNull(k_scale);
  args.v_scale = dataOrNull(v_scale);
  args.out = out;
  args.out_scale = dataOrNull(out_scale);
  args.lse = lse;
  args.flags = spec.pdl ? uint32_t{XQA_DECODE_PDL} : 0u;
  return args;
}

}  // namespace tool
