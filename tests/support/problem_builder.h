// SPDX-License-Identifier: Apache-2.0
// Builds the buffers of a described decode problem in host memory, over the public C API alone.
//
//   ProblemSpec spec;
//   spec.seq_lens = {70, 0, 513};
//   HostProblem problem = buildProblem(spec);
//   xqaDecodeHost(&problem.key, &problem.shape, &problem.args, nullptr);
//   std::vector<double> out = problem.outRows(problem.out.data());
//
// A GPU test copies buffers() to the device and passes deviceArgs(), which keeps every offset (V
// inside the pool of K, q inside packed QKV). The same spec always gives the same bits, and the
// fill of unused slots changes nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "xqa/xqa.h"

namespace xqa::testing {

enum class CacheLayout {
  kNhd,          // [page, token, head, dim]
  kHnd,          // [page, head, token, dim]
  kInterleaved,  // NHD, each page of K followed by its page of V in one pool
  kPadded,       // NHD with gaps after heads, tokens and pages, other ones for K than for V
  kContiguous    // no page table: [request, token, head, dim]
};

enum class DraftMask {
  kCausal,  // no mask argument
  kFull,    // every draft token sees all of them
  kTree,    // each token sees itself and its ancestors
  kRandom   // each bit at even odds: some rows see no draft token, some draft tokens are unseen
};

// What a slot holds that no row sees: page tails, gaps, unmapped pages, tokens before the window.
enum class UnusedSlots { kZero, kNan };

struct ProblemSpec {
  int32_t head_dim = 128;
  int32_t group_size = 8;
  int32_t num_kv_heads = 1;
  xqaDtype_t q_dtype = XQA_DTYPE_F16;
  xqaDtype_t kv_dtype = XQA_DTYPE_DEFAULT;
  xqaDtype_t math_dtype = XQA_DTYPE_DEFAULT;
  xqaDtype_t out_dtype = XQA_DTYPE_DEFAULT;
  xqaBackend_t backend = XQA_BACKEND_DEFAULT;

  std::vector<int32_t> seq_lens = {128};  // one per request: its size is the batch
  int32_t q_tokens = 1;
  std::vector<int32_t> ragged_rows;  // rows of each request, at most q_tokens; empty: not ragged
  DraftMask mask = DraftMask::kCausal;
  bool strided_rows = false;  // q is a slice of packed QKV, rows of out have gaps

  int32_t page_tokens = 64;  // contiguous caches take their capacity from the longest request
  int32_t max_pages = 0;     // 0: what the longest request needs and one more
  CacheLayout layout = CacheLayout::kNhd;
  UnusedSlots unused_slots = UnusedSlots::kNan;
  bool shuffled_pages = true;  // false: page ids ascend

  int32_t window = 0;
  float softmax_scale = 0.0f;
  float softcap = 0.0f;
  bool sinks = false;
  float q_scale = 0.0f;  // 0: no such argument. Likewise below
  float k_scale = 0.0f;
  float v_scale = 0.0f;
  bool per_head_scales = false;  // one value per KV head, spread around the one above
  float out_scale = 0.0f;
  bool lse = true;
  uint64_t seed = 1;
};

// A buffer behind one or more pointers of xqaDecodeArgs_t.
struct Buffer {
  const char* name;
  void* data;
  size_t bytes;
  bool output;  // out and lse: the library writes them
};

// Owns the buffers; movable, not copyable (args points into it).
struct HostProblem {
  ProblemSpec spec;
  xqaVariantKey_t key = {};
  xqaDecodeShape_t shape = {};
  xqaDecodeArgs_t args = {};  // host pointers; workspace is NULL

  std::vector<uint8_t> q;       // the whole packed QKV if spec.strided_rows
  std::vector<uint8_t> k_pool;  // K, and V too if interleaved
  std::vector<uint8_t> v_pool;  // empty if interleaved
  std::vector<int32_t> q_offsets;
  std::vector<int32_t> page_table;  // -1 and INT32_MAX in every entry without a visible token
  std::vector<int32_t> seq_lens;
  std::vector<float> sinks;
  std::vector<uint32_t> mask;
  std::vector<float> q_scale, k_scale, v_scale, out_scale;
  std::vector<uint8_t> out;  // every element NaN before the call, gaps included
  std::vector<float> lse;    // likewise

  int64_t total_rows = 0;    // (request, query token) pairs
  int64_t pool_pages = 0;    // page ids are below it
  int64_t out_elements = 0;  // gaps included
  int64_t v_offset = 0;      // elements from the start of its pool to V

  HostProblem() = default;
  HostProblem(HostProblem&&) = default;
  HostProblem& operator=(HostProblem&&) = default;
  HostProblem(const HostProblem&) = delete;
  HostProblem& operator=(const HostProblem&) = delete;

  int32_t batch() const { return shape.batch; }
  xqaDtype_t kvDtype() const;
  xqaDtype_t outDtype() const;
  int32_t rowsOf(int32_t request) const;      // query tokens of a request
  int64_t firstRowOf(int32_t request) const;  // index of its first (request, query token) pair
  int32_t lengthOf(int32_t request) const;    // seq_len cut to 0 .. capacity

  // The visibility rule, by the text of xqaDecode.
  bool visible(int32_t request, int32_t query_token, int32_t token) const;
  bool visibleToAny(int32_t request, int32_t token) const;

  // Element offsets of rows of head_dim elements. Cache offsets need a mapped page and count from
  // args.k_cache and args.v_cache.
  int64_t queryOffset(int32_t request, int32_t query_token, int32_t q_head) const;
  int64_t outOffset(int32_t request, int32_t query_token, int32_t q_head) const;
  int64_t keyOffset(int32_t request, int32_t token, int32_t kv_head) const;
  int64_t valueOffset(int32_t request, int32_t token, int32_t kv_head) const;

  // Sets all head_dim elements of one K or V row, or of a row of q.
  void setKey(int32_t request, int32_t token, int32_t kv_head, double value);
  void setValue(int32_t request, int32_t token, int32_t kv_head, double value);
  void setQuery(int32_t request, int32_t query_token, int32_t q_head, double value);

  // Points args at the buffers again after one of them was replaced or resized.
  void bindArgs();

  // Non-empty buffers, inputs first.
  std::vector<Buffer> buffers();

  // args with every buffer moved: at(host start of the buffer) is its new start.
  template <typename At>
  xqaDecodeArgs_t deviceArgs(At at) const;

  // Fills out and lse with NaN again.
  void resetOutputs();

  // Decodes an out buffer laid out as this problem's into packed [total_rows, num_q_heads, dim].
  std::vector<double> outRows(const void* out_buffer) const;
  // The bytes of the gaps between rows of out that the call must leave alone are untouched.
  bool outGapsUntouched(const void* out_buffer) const;

  // One line that names every property of the problem.
  std::string describe() const;
};

HostProblem buildProblem(const ProblemSpec& spec);

// Random numbers by index, from a seed: no state, the same on every platform.
uint64_t randomBits(uint64_t seed, uint64_t index);
double randomNormal(uint64_t seed, uint64_t index);

template <typename At>
xqaDecodeArgs_t HostProblem::deviceArgs(At at) const {
  const auto move = [&at](auto*& pointer, const void* start) {
    if (pointer == nullptr) return;
    const char* const from = static_cast<const char*>(start);
    const auto offset = reinterpret_cast<const char*>(pointer) - from;
    using Pointer = std::remove_reference_t<decltype(pointer)>;
    pointer = reinterpret_cast<Pointer>(static_cast<char*>(at(start)) + offset);
  };
  xqaDecodeArgs_t moved = args;
  move(moved.q, q.data());
  move(moved.q_offsets, q_offsets.data());
  move(moved.k_cache, k_pool.data());
  move(moved.v_cache, v_pool.empty() ? k_pool.data() : v_pool.data());
  move(moved.page_table, page_table.data());
  move(moved.seq_lens, seq_lens.data());
  move(moved.sinks, sinks.data());
  move(moved.mask, mask.data());
  move(moved.q_scale, q_scale.data());
  move(moved.k_scale, k_scale.data());
  move(moved.v_scale, v_scale.data());
  move(moved.out, out.data());
  move(moved.out_scale, out_scale.data());
  move(moved.lse, lse.data());
  return moved;
}

}  // namespace xqa::testing
