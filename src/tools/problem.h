// SPDX-License-Identifier: Apache-2.0
// A decode problem as the user writes it: comma-separated key=value pairs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "xqa/xqa.h"

namespace tool {

// KV lengths of the requests of a batch.
struct Lengths {
  enum class Kind { kUnset, kList, kUniform, kLogUniform };
  Kind kind = Kind::kUnset;
  std::vector<int32_t> values;  // kList: repeated to the batch; ranges: the two ends, both included

  // One length for each request; the seed draws ranges.
  std::vector<int32_t> draw(int32_t batch, uint64_t seed) const;
  std::string text() const;
  static Lengths parse(const std::string& text);
};

enum class CacheLayout { kNhd, kHnd, kInterleaved, kPadded, kContiguous };
enum class DraftMask { kCausal, kFull, kTree };

struct ProblemSpec {
  int32_t head_dim = 128;
  int32_t group_size = 8;
  int32_t kv_heads = 8;
  int32_t q_tokens = 1;
  int32_t batch = -1;  // unset
  Lengths lengths;
  int32_t page_tokens = 64;
  CacheLayout layout = CacheLayout::kNhd;
  xqaDtype_t q_dtype = XQA_DTYPE_F16;
  xqaDtype_t kv_dtype = XQA_DTYPE_DEFAULT;  // here and below DEFAULT is q_dtype
  xqaDtype_t math_dtype = XQA_DTYPE_DEFAULT;
  xqaDtype_t out_dtype = XQA_DTYPE_DEFAULT;
  int32_t window = 0;
  float softmax_scale = 0.0f;
  float softcap = 0.0f;
  bool sinks = false;
  DraftMask mask = DraftMask::kCausal;
  bool ragged = false;
  float q_scale = 0.0f;  // here and below 0: not passed
  float k_scale = 0.0f;
  float v_scale = 0.0f;
  float out_scale = 0.0f;
  bool per_head_scales = false;
  bool lse = false;
  bool pdl = false;
  xqaBackend_t backend = XQA_BACKEND_DEFAULT;
  uint64_t seed = 1;

  xqaDtype_t kvDtype() const { return kv_dtype == XQA_DTYPE_DEFAULT ? q_dtype : kv_dtype; }
  xqaDtype_t mathDtype() const { return math_dtype == XQA_DTYPE_DEFAULT ? q_dtype : math_dtype; }
  xqaDtype_t outDtype() const { return out_dtype == XQA_DTYPE_DEFAULT ? q_dtype : out_dtype; }
  xqaVariantKey_t key() const;
};

// Applies the pairs of a problem string to a problem.
void applyProblem(const std::string& text, ProblemSpec* spec);

// The shortest problem string that gives this problem: equal problems have equal texts.
std::string problemText(const ProblemSpec& spec);

// The grammar, one key a line, for --help.
std::string problemHelp();

const char* layoutName(CacheLayout layout);
const char* backendName(xqaBackend_t backend);

// A key from a variant name or from parts of one, such as "d80,g8,qf16,kve4m3" or
// "mma_sync_d128_g8_qf16_kvf16_mf16".
xqaVariantKey_t parseKey(const std::string& text);

}  // namespace tool
