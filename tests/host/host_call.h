// SPDX-License-Identifier: Apache-2.0
// A small legal call on host memory and what it means to refuse one.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <ostream>
#include <string>

#include "xqa/xqa.h"

namespace xqa_test {

constexpr int32_t kMax32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr size_t kOutBytes = 4096;
constexpr unsigned char kCanary = 0xA5;

// A small legal call on host memory: 2 requests of 2 tokens, 2 KV heads of 4 query heads, pages of
// 4 tokens.
struct Call {
  xqaVariantKey_t key = {
      sizeof(xqaVariantKey_t), 16, 4, XQA_DTYPE_F16, XQA_DTYPE_DEFAULT, XQA_DTYPE_DEFAULT,
      XQA_BACKEND_DEFAULT};
  xqaDecodeShape_t shape = {};
  xqaDecodeArgs_t args = {};
  xqaDiagnostic_t diagnostic = {};

  alignas(256) uint16_t q[2 * 2 * 8 * 16] = {};
  alignas(256) uint16_t k[8 * 4 * 2 * 16] = {};
  alignas(256) uint16_t v[8 * 4 * 2 * 16] = {};
  alignas(256) unsigned char out[kOutBytes];
  alignas(256) unsigned char lse[kOutBytes];
  alignas(256) unsigned char workspace[512] = {};
  int32_t page_table[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  int32_t seq_lens[2] = {5, 12};
  int32_t q_offsets[3] = {0, 2, 3};
  uint32_t mask[4] = {1, 3, 1, 3};
  float values[8] = {1, 1, 1, 1, 1, 1, 1, 1};

  Call() {
    shape.struct_size = sizeof(shape);
    shape.batch = 2;
    shape.q_tokens = 2;
    shape.num_q_heads = 8;
    shape.num_kv_heads = 2;
    shape.page_tokens = 4;
    shape.max_pages = 3;
    args.struct_size = sizeof(args);
    args.q = q;
    args.k_cache = k;
    args.v_cache = v;
    args.page_table = page_table;
    args.seq_lens = seq_lens;
    args.out = out;
    args.lse = reinterpret_cast<float*>(lse);
    diagnostic.struct_size = sizeof(diagnostic);
    std::memset(out, kCanary, sizeof(out));
    std::memset(lse, kCanary, sizeof(lse));
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void makeContiguous() {  // capacity of 12 tokens in the same cache
    args.page_table = nullptr;
    shape.page_tokens = 12;
    shape.max_pages = 0;
  }

  xqaStatus_t run() { return xqaDecodeHost(&key, &shape, &args, &diagnostic); }

  static bool untouched(const unsigned char (&bytes)[kOutBytes]) {
    for (unsigned char byte : bytes) {
      if (byte != kCanary) return false;
    }
    return true;
  }
};

template <typename Pointer>
Pointer misaligned(Pointer pointer, uintptr_t by) {
  return reinterpret_cast<Pointer>(reinterpret_cast<uintptr_t>(pointer) + by);
}

template <typename Enum>
void setEnum(Enum* field, int32_t value) {  // any number, as a C caller can
  std::memcpy(field, &value, sizeof(value));
}

struct Refusal {
  const char* name;
  std::function<void(Call&)> change;
  xqaStatus_t status;
  const char* sentence;
};

inline std::ostream& operator<<(std::ostream& stream, const Refusal& refusal) {
  return stream << refusal.name;
}

template <typename Case>
std::string caseName(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

// The status, the sentence, nothing written, and the same status without a diagnostic.
inline void expectRefused(const Refusal& refusal) {
  Call call;
  refusal.change(call);
  EXPECT_EQ(call.run(), refusal.status);
  EXPECT_NE(std::string(call.diagnostic.message).find(refusal.sentence), std::string::npos)
      << "message: " << call.diagnostic.message << "\nwanted:  " << refusal.sentence;
  EXPECT_EQ(call.diagnostic.cuda_error, 0);
  EXPECT_TRUE(Call::untouched(call.out));
  EXPECT_TRUE(Call::untouched(call.lse));

  Call silent;
  refusal.change(silent);
  EXPECT_EQ(xqaDecodeHost(&silent.key, &silent.shape, &silent.args, nullptr), refusal.status);
}

}  // namespace xqa_test
