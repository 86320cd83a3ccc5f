// SPDX-License-Identifier: Apache-2.0
// A problem made concrete: lengths, page tables, strides, queries and small tensors in host memory.
// The cache itself is a pure function of the element index, so it can be made where it is wanted.
#pragma once

#include <cstdint>
#include <vector>

#include "problem.h"
#include "xqa/xqa.h"

namespace tool {

struct Inputs {
  ProblemSpec spec;
  xqaVariantKey_t key;
  xqaDecodeShape_t shape;

  // As xqaDecodeArgs_t documents them; empty: not passed.
  std::vector<uint16_t> q;
  std::vector<int32_t> q_offsets;
  std::vector<int32_t> seq_lens;
  std::vector<int32_t> page_table;  // [rotations, batch, max_pages]
  std::vector<float> sinks;
  std::vector<uint32_t> mask;
  std::vector<float> q_scale;
  std::vector<float> k_scale;
  std::vector<float> v_scale;
  std::vector<float> out_scale;

  // Rotations are copies of the batch's cache in other pages of the same pool, for measuring with
  // cold caches.
  int32_t rotations;
  int64_t pool_elems;      // one allocation holds K and V of all rotations
  int64_t v_base;          // element of the pool where V begins; K begins at 0
  int64_t rotation_elems;  // contiguous layout: from one rotation to the next; else 0
  int64_t table_entries;   // page table entries of one rotation
  int64_t visible_tokens;  // over all requests: what one call has to read
  int64_t total_rows;      // query tokens over all requests

  int32_t rows(int32_t request) const;      // query tokens of a request
  int64_t firstRow(int32_t request) const;  // its first row in q, out and mask
  int64_t visibleBytes() const;             // K and V once
  int32_t maskWords() const { return (spec.q_tokens + 31) / 32; }
  int64_t outElems() const { return total_rows * shape.num_q_heads * spec.head_dim; }
  int64_t lseElems() const { return spec.lse ? total_rows * shape.num_q_heads : 0; }

  // Element of the pool where a token's K (or, from v_base on, V) of a head begins, in rotation 0.
  int64_t keyElement(int32_t request, int32_t token, int32_t kv_head) const;
  int64_t valueElement(int32_t request, int32_t token, int32_t kv_head) const;

  // The value of an element of the pool before it is encoded.
  float poolValue(int64_t element) const;
  uint64_t poolSeed() const;

  // Arguments of rotation 0 on host memory; cache and output are the caller's.
  xqaDecodeArgs_t hostArgs(const void* pool, void* out, float* lse) const;
};

// batch and len must be set.
Inputs buildInputs(const ProblemSpec& spec, int32_t rotations);

// First token that any of a request's rows sees.
int32_t firstVisibleToken(int32_t seq_len, int32_t rows, int32_t window);

}  // namespace tool
