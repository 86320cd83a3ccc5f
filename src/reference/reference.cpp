// SPDX-License-Identifier: Apache-2.0
// The formulas of xqaDecode, term by term. A chunk of the query rows that share a KV head goes over
// the keys twice, first for the maxima, then for the weights, so that no running maximum is ever
// corrected. Keys and values are decoded once for a whole chunk, a tile of tokens at a time.
#include "reference/reference.h"

#include <cmath>
#include <limits>

#include "reference/dtype.h"

namespace xqa {
namespace {

constexpr int kLanes = 8;          // head_dim and tokens of a tile are multiples of it
constexpr int kChunkElems = 8192;  // row x head_dim, for any head_dim up to 1024
constexpr int kMaxChunkRows = 64;
constexpr int kTileElems = 8192;  // token x head_dim
constexpr int kMaxTileTokens = 32;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Eight sums in registers. Spelled out in pairs, the size of a register on every 64-bit machine:
// left to itself the compiler vectorises along the wrong dimension, at a third of the speed.
struct Lanes {
  using Pair = double __attribute__((vector_size(16), may_alias));
  static constexpr int kPairs = kLanes / 2;
  Pair pairs[kPairs] = {};

  void addProduct(double factor, const double* values) {
    for (int i = 0; i < kPairs; ++i) {
      pairs[i] += factor * *reinterpret_cast<const Pair*>(values + 2 * i);
    }
  }
  double operator[](int lane) const { return pairs[lane / 2][lane % 2]; }
};

// One request and KV head; its query rows are (query token, head in the group), heads innermost.
struct Group {
  int32_t request;
  int32_t kv_head;
  int32_t tokens;     // query tokens of the request
  int64_t first_row;  // of the request, in units of query tokens, over all requests
  int32_t length;     // KV tokens, the query tokens included
};

// Query rows first .. first + count of a group, in float64.
struct Chunk {
  int64_t first;
  int count;
  double query[kChunkElems];  // [count][head_dim]
  double sum[kChunkElems];    // [count][head_dim], of weight * value
  double maximum[kMaxChunkRows];
  double denominator[kMaxChunkRows];
  bool sees_key[kMaxChunkRows];
};

// Tokens that some row of a chunk sees: no other slot is read.
struct Tile {
  int count;
  int32_t tokens[kMaxTileTokens];
  // Keys: [kMaxTileTokens / kLanes][head_dim][kLanes]. Values: [kMaxTileTokens][head_dim].
  alignas(16) double elements[kTileElems];
};

int roundedDown(int value, int unit) { return value / unit * unit; }

int smaller(int a, int b) { return a < b ? a : b; }

int32_t queryToken(const Problem& problem, const Chunk& chunk, int row) {
  return static_cast<int32_t>((chunk.first + row) / problem.key.group_size);
}

int32_t queryHead(const Problem& problem, const Group& group, const Chunk& chunk, int row) {
  const int64_t head_in_group = (chunk.first + row) % problem.key.group_size;
  return static_cast<int32_t>(int64_t{group.kv_head} * problem.key.group_size + head_in_group);
}

bool isVisible(const Problem& problem, const Group& group, int32_t query_token, int32_t token) {
  const int32_t prefix = group.length - group.tokens;  // negative if it has less KV than queries
  const int32_t position = prefix + query_token;
  if (position < 0) return false;
  if (problem.window > 0 && token <= position - problem.window) return false;
  if (token < prefix) return true;
  const int32_t draft = token - prefix;
  if (problem.mask == nullptr) return draft <= query_token;
  const int64_t row = group.first_row + query_token;
  const uint32_t word = problem.mask[row * problem.maskWords() + draft / 32];
  return (word >> (draft % 32) & 1) != 0;
}

// Element offset of a row of head_dim elements in a cache.
int64_t cacheOffset(const Problem& problem, const xqaCacheStrides_t& strides, const Group& group,
                    int32_t token) {
  int64_t page = group.request;
  if (problem.page_table != nullptr) {
    const int64_t entry = group.request * problem.page_table_stride + token / problem.page_tokens;
    page = problem.page_table[entry];
  }
  return page * strides.page + token % problem.page_tokens * strides.token +
         group.kv_head * strides.head;
}

int64_t rowOffset(const Problem& problem, const xqaQueryStrides_t& strides, const Group& group,
                  int32_t query_token, int32_t head) {
  const int64_t row = problem.q_offsets != nullptr
                          ? (group.first_row + query_token) * strides.token
                          : group.request * strides.batch + query_token * strides.token;
  return row + head * strides.head;
}

template <typename Format, typename Code>
void decodeCodes(const Code* codes, int count, double* to, int step) {
  for (int i = 0; i < count; ++i) to[i * step] = Format::decode(codes[i]);
}

// Decodes a row of elements to every step-th place.
void decodeRow(xqaDtype_t dtype, const void* array, int64_t offset, int count, double* to,
               int step) {
  if (dtype == XQA_DTYPE_E4M3) {
    decodeCodes<E4m3>(static_cast<const uint8_t*>(array) + offset, count, to, step);
  } else if (dtype == XQA_DTYPE_F16) {
    decodeCodes<F16>(static_cast<const uint16_t*>(array) + offset, count, to, step);
  } else {
    decodeCodes<Bf16>(static_cast<const uint16_t*>(array) + offset, count, to, step);
  }
}

void loadKeys(const Problem& problem, const Group& group, Tile* tile) {
  const int dim = problem.key.head_dim;
  for (int lane = 0; lane < tile->count; ++lane) {
    double* const to = tile->elements + lane / kLanes * kLanes * dim + lane % kLanes;
    decodeRow(problem.key.kv_dtype, problem.k_cache,
              cacheOffset(problem, problem.k_strides, group, tile->tokens[lane]), dim, to, kLanes);
  }
}

void loadValues(const Problem& problem, const Group& group, Tile* tile) {
  const int dim = problem.key.head_dim;
  for (int lane = 0; lane < tile->count; ++lane) {
    decodeRow(problem.key.kv_dtype, problem.v_cache,
              cacheOffset(problem, problem.v_strides, group, tile->tokens[lane]), dim,
              tile->elements + lane * dim, 1);
  }
}

// Calls body(tile) for tile after tile of the tokens that some row of the chunk sees, in order.
template <typename Body>
void forEachTile(const Problem& problem, const Group& group, const Chunk& chunk, Tile* tile,
                 Body body) {
  const int capacity =
      smaller(kMaxTileTokens, roundedDown(kTileElems / problem.key.head_dim, kLanes));
  const int32_t first_query = queryToken(problem, chunk, 0);
  const int32_t last_query = queryToken(problem, chunk, chunk.count - 1);
  int32_t token = 0;
  if (problem.window > 0) {
    const int64_t position = int64_t{group.length} - group.tokens + first_query;
    if (position >= problem.window) token = static_cast<int32_t>(position - problem.window + 1);
  }
  tile->count = 0;
  for (; token < group.length; ++token) {
    int32_t query = first_query;
    while (query <= last_query && !isVisible(problem, group, query, token)) ++query;
    if (query > last_query) continue;
    tile->tokens[tile->count++] = token;
    if (tile->count < capacity) continue;
    body();
    tile->count = 0;
  }
  if (tile->count > 0) body();
}

// Calls use(lane, logit) for every key of the tile that the row sees.
template <typename Use>
void forEachLogit(const Problem& problem, const Group& group, const Chunk& chunk, int row,
                  double scale, const Tile& tile, Use use) {
  const int dim = problem.key.head_dim;
  const int32_t query_token = queryToken(problem, chunk, row);
  const double* const query = chunk.query + row * dim;
  for (int first = 0; first < tile.count; first += kLanes) {
    const double* const keys = tile.elements + first * dim;
    Lanes dots;
    for (int d = 0; d < dim; ++d) dots.addProduct(query[d], keys + d * kLanes);
    for (int lane = 0; lane < smaller(kLanes, tile.count - first); ++lane) {
      if (!isVisible(problem, group, query_token, tile.tokens[first + lane])) continue;
      double logit = scale * dots[lane];
      const double cap = static_cast<double>(problem.softcap);
      if (problem.softcap > 0.0f) logit = cap * std::tanh(logit / cap);
      use(first + lane, logit);
    }
  }
}

double scaleOf(const float* scales, int32_t stride, int32_t kv_head) {
  return scales == nullptr ? 1.0 : static_cast<double>(scales[int64_t{stride} * kv_head]);
}

double sinkOf(const Problem& problem, int32_t head) {
  return problem.sinks == nullptr ? -kInfinity : static_cast<double>(problem.sinks[head]);
}

// exp(logit - maximum). A logit of -inf weighs nothing, even if it is the maximum.
double weightOf(double logit, double maximum) {
  return logit == -kInfinity ? 0.0 : std::exp(logit - maximum);
}

void startChunk(const Problem& problem, const Group& group, Chunk* chunk) {
  const int dim = problem.key.head_dim;
  for (int row = 0; row < chunk->count; ++row) {
    const int32_t head = queryHead(problem, group, *chunk, row);
    const int64_t offset =
        rowOffset(problem, problem.q_strides, group, queryToken(problem, *chunk, row), head);
    decodeRow(problem.key.q_dtype, problem.q, offset, dim, chunk->query + row * dim, 1);
    for (int d = 0; d < dim; ++d) chunk->sum[row * dim + d] = 0.0;
    chunk->sees_key[row] = false;
    const double sink = sinkOf(problem, head);
    chunk->maximum[row] = sink > -kInfinity ? sink : -kInfinity;  // a NaN is no maximum
  }
}

// Adds weight * value over a row's visible keys of a tile to its sum.
void addValues(const int* lanes, const double* weights, int count, const double* values, int dim,
               double* sum) {
  for (int d = 0; d < dim; d += kLanes) {
    Lanes partial;
    for (int key = 0; key < count; ++key) {
      partial.addProduct(weights[key], values + lanes[key] * dim + d);
    }
    for (int lane = 0; lane < kLanes; ++lane) sum[d + lane] += partial[lane];
  }
}

void findMaxima(const Problem& problem, const Group& group, double scale, Tile* tile,
                Chunk* chunk) {
  forEachTile(problem, group, *chunk, tile, [&] {
    loadKeys(problem, group, tile);
    for (int row = 0; row < chunk->count; ++row) {
      forEachLogit(problem, group, *chunk, row, scale, *tile, [&](int, double logit) {
        chunk->sees_key[row] = true;
        if (logit > chunk->maximum[row]) chunk->maximum[row] = logit;
      });
    }
  });
}

void addWeightedValues(const Problem& problem, const Group& group, double scale, Tile* tile,
                       Chunk* chunk) {
  const int dim = problem.key.head_dim;
  // Of each row, the keys of a tile that it sees.
  int lanes[kMaxChunkRows][kMaxTileTokens];
  double weights[kMaxChunkRows][kMaxTileTokens];
  int counts[kMaxChunkRows];
  for (int row = 0; row < chunk->count; ++row) {
    const double sink = sinkOf(problem, queryHead(problem, group, *chunk, row));
    chunk->denominator[row] = weightOf(sink, chunk->maximum[row]);
  }
  forEachTile(problem, group, *chunk, tile, [&] {
    loadKeys(problem, group, tile);
    for (int row = 0; row < chunk->count; ++row) {
      int count = 0;
      double partial = 0.0;
      forEachLogit(problem, group, *chunk, row, scale, *tile, [&](int lane, double logit) {
        lanes[row][count] = lane;
        weights[row][count] = weightOf(logit, chunk->maximum[row]);
        partial += weights[row][count++];
      });
      counts[row] = count;
      chunk->denominator[row] += partial;
    }
    loadValues(problem, group, tile);
    for (int row = 0; row < chunk->count; ++row) {
      addValues(lanes[row], weights[row], counts[row], tile->elements, dim, chunk->sum + row * dim);
    }
  });
}

void writeChunk(const Problem& problem, const Group& group, const Chunk& chunk) {
  const int dim = problem.key.head_dim;
  const double scale = scaleOf(problem.out_scale, 0, 0) *
                       scaleOf(problem.v_scale, problem.v_scale_stride, group.kv_head);
  for (int row = 0; row < chunk.count; ++row) {
    const int32_t query_token = queryToken(problem, chunk, row);
    const int32_t head = queryHead(problem, group, chunk, row);
    const bool sees_key = chunk.sees_key[row];
    const double denominator = chunk.denominator[row];
    const int64_t offset = rowOffset(problem, problem.out_strides, group, query_token, head);
    for (int d = 0; d < dim; ++d) {
      const double sum = chunk.sum[row * dim + d];
      // The denominator is 0 if every logit is -inf; the sum is then 0, or NaN by a NaN in V.
      const double mean = denominator == 0.0 ? sum : sum / denominator;
      storeElement(problem.out_dtype, problem.out, offset + d, sees_key ? scale * mean : 0.0);
    }
    if (problem.lse == nullptr) continue;
    const double lse =
        sees_key ? chunk.maximum[row] + std::log(denominator) : sinkOf(problem, head);
    const int64_t index = (group.first_row + query_token) * problem.num_q_heads + head;
    problem.lse[index] = static_cast<float>(lse);
  }
}

void decodeGroup(const Problem& problem, const Group& group) {
  const int64_t rows = int64_t{group.tokens} * problem.key.group_size;
  const int capacity = smaller(kMaxChunkRows, kChunkElems / problem.key.head_dim);
  const double scale = static_cast<double>(problem.softmax_scale) *
                       scaleOf(problem.q_scale, problem.q_scale_stride, group.kv_head) *
                       scaleOf(problem.k_scale, problem.k_scale_stride, group.kv_head);
  Chunk chunk;
  Tile tile;
  for (double& element : tile.elements) element = 0.0;  // unused lanes take part in the products
  for (chunk.first = 0; chunk.first < rows; chunk.first += chunk.count) {
    const int64_t rest = rows - chunk.first;
    chunk.count = rest < capacity ? static_cast<int>(rest) : capacity;
    startChunk(problem, group, &chunk);
    findMaxima(problem, group, scale, &tile, &chunk);
    addWeightedValues(problem, group, scale, &tile, &chunk);
    writeChunk(problem, group, chunk);
  }
}

}  // namespace

void referenceDecode(const Problem& problem) {
  const int64_t capacity_tokens = problem.capacityTokens();
  for (int32_t request = 0; request < problem.batch; ++request) {
    Group group = {};
    group.request = request;
    group.tokens = problem.q_tokens;
    group.first_row = int64_t{request} * problem.q_tokens;
    if (problem.q_offsets != nullptr) {
      group.first_row = problem.q_offsets[request];
      group.tokens = problem.q_offsets[request + 1] - problem.q_offsets[request];
    }
    const int32_t length = problem.seq_lens[request];
    group.length =
        length < 0 ? 0 : static_cast<int32_t>(length < capacity_tokens ? length : capacity_tokens);
    for (group.kv_head = 0; group.kv_head < problem.num_kv_heads; ++group.kv_head) {
      decodeGroup(problem, group);
    }
  }
}

}  // namespace xqa
