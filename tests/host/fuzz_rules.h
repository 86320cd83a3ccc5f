// SPDX-License-Identifier: Apache-2.0
// The rules of xqa.h for a host call, stated a second time and in 128-bit arithmetic, for the fuzz
// test.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "xqa/xqa.h"

namespace xqa_test {

__extension__ using Wide = __int128;

// The memory that the fuzz test has for a call.
constexpr size_t kTensorBytes = 1 << 14;  // half on each side of the first element
constexpr size_t kSmallCount = 256;       // entries of tables, masks and vectors
constexpr int32_t kPages = 4;             // page ids in use
constexpr Wide kMaxWork = 1 << 13;        // multiply-adds of a call

template <typename Enum>
int32_t getEnum(const Enum& field) {
  int32_t number;
  std::memcpy(&number, &field, sizeof(number));
  return number;
}

inline Wide magnitude(Wide value) { return value < 0 ? -value : value; }

struct Axis {
  Wide extent;
  Wide stride;
};

// Bytes that rows of a tensor reach from its first element, or -1 if a stride breaks a rule.
inline Wide reach(std::initializer_list<Axis> axes, Wide unit, Wide apart, Wide element_bytes) {
  Wide bytes = 0;
  for (const Axis& axis : axes) {
    if (axis.extent < 2) continue;
    if (axis.stride % unit != 0 || magnitude(axis.stride) < apart) return -1;
    bytes += (axis.extent - 1) * magnitude(axis.stride) * element_bytes;
  }
  return bytes <= INT64_MAX ? bytes : -1;
}

inline bool aligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// A second opinion on a call: must it be accepted, and is it small enough to run here?
struct Opinion {
  bool legal = false;
  bool small = true;

  Opinion() = default;
  Opinion(const xqaVariantKey_t& key, const xqaDecodeShape_t& s, const xqaDecodeArgs_t& a) {
    legal = keyIsLegal(key) && sizesAreLegal(key, s) && optionsAreLegal(key, s) &&
            argsAreLegal(s, a) && stridesAreLegal(key, s, a);
  }

  static bool keyIsLegal(const xqaVariantKey_t& key) {
    const int32_t q = getEnum(key.q_dtype), kv = getEnum(key.kv_dtype), m = getEnum(key.math_dtype);
    return key.head_dim % 8 == 0 && key.head_dim >= 8 && key.head_dim <= 1024 &&
           key.group_size >= 1 && (q == 1 || q == 2) && (kv == 0 || kv == q || kv == 3) &&
           (m == 0 || m == q || m == 3);
  }

  static Wide tokens(const xqaDecodeShape_t& s) { return s.q_tokens == 0 ? 1 : s.q_tokens; }
  static Wide pages(const xqaDecodeShape_t& s) { return s.max_pages == 0 ? 1 : s.max_pages; }

  static bool sizesAreLegal(const xqaVariantKey_t& key, const xqaDecodeShape_t& s) {
    return s.batch >= 0 && s.q_tokens >= 0 && s.num_kv_heads >= 1 && s.page_tokens >= 1 &&
           s.max_pages >= 0 && Wide{s.num_q_heads} == Wide{s.num_kv_heads} * key.group_size &&
           std::max(Wide{1}, Wide{s.batch}) * tokens(s) * s.num_q_heads <= INT32_MAX &&
           s.page_tokens * pages(s) <= INT32_MAX;
  }

  static bool optionsAreLegal(const xqaVariantKey_t& key, const xqaDecodeShape_t& s) {
    const int32_t out = getEnum(s.out_dtype);
    const auto bit = [](int32_t stride) { return stride == 0 || stride == 1; };
    return (out == 0 || out == 3 || out == getEnum(key.q_dtype)) && s.window >= 0 &&
           std::isfinite(s.softmax_scale) && std::isfinite(s.softcap) && s.softcap >= 0 &&
           bit(s.q_scale_stride) && bit(s.k_scale_stride) && bit(s.v_scale_stride) &&
           s.reserved == 0;
  }

  static bool argsAreLegal(const xqaDecodeShape_t& s, const xqaDecodeArgs_t& a) {
    if (a.flags > 3 || a.flags == 2 || a.reserved != 0) return false;
    if (a.mask != nullptr && s.window != 0) return false;
    if (s.batch == 0) return true;
    for (const void* required : {a.q, a.k_cache, a.v_cache, static_cast<const void*>(a.out)}) {
      if (required == nullptr || !aligned(required, 16)) return false;
    }
    for (const void* word :
         {static_cast<const void*>(a.seq_lens), static_cast<const void*>(a.q_offsets),
          static_cast<const void*>(a.page_table), static_cast<const void*>(a.sinks),
          static_cast<const void*>(a.mask), static_cast<const void*>(a.q_scale),
          static_cast<const void*>(a.k_scale), static_cast<const void*>(a.v_scale),
          static_cast<const void*>(a.out_scale), static_cast<const void*>(a.lse)}) {
      if (!aligned(word, 4)) return false;
    }
    if (a.seq_lens == nullptr || !aligned(a.workspace, 256)) return false;
    return a.page_table == nullptr ? s.max_pages <= 1 : s.max_pages >= 1;
  }

  bool stridesAreLegal(const xqaVariantKey_t& key, const xqaDecodeShape_t& s,
                       const xqaDecodeArgs_t& a) {
    const Wide dim = key.head_dim, batch = s.batch;
    const bool e4m3_cache = getEnum(key.kv_dtype) == 3;
    const Wide cache_bytes = e4m3_cache ? 1 : 2;
    const Wide out_bytes = getEnum(s.out_dtype) == 3 ? 1 : 2;
    const Wide table_stride =
        s.page_table_stride == 0 || s.max_pages == 0 ? s.max_pages : s.page_table_stride;
    if (batch > 1 && table_stride < s.max_pages) return false;
    if (batch > 1 && (batch - 1) * table_stride * 4 > INT64_MAX) return false;

    const bool ragged = a.q_offsets != nullptr && batch > 0;
    const Wide batches = ragged ? 1 : batch, rows = ragged ? batch * tokens(s) : tokens(s);
    const auto rowReach = [&](xqaQueryStrides_t t, Wide apart, Wide bytes) {
      if (t.batch == 0 && t.token == 0 && t.head == 0) {
        const Wide head = dim, token = head * s.num_q_heads;
        return reach({{batches, token * tokens(s)}, {rows, token}, {s.num_q_heads, head}}, 8, apart,
                     bytes);
      }
      return reach({{batches, t.batch}, {rows, t.token}, {s.num_q_heads, t.head}}, 8, apart, bytes);
    };
    // Page ids are below kPages here; the library must judge the stride as soon as there may be
    // two.
    const bool paged = a.page_table != nullptr && batch > 0;
    const Wide page_rule = paged || s.max_pages > 1 ? std::max(Wide{2}, batch) : batch;
    const auto cacheReach = [&](xqaCacheStrides_t t, Wide extent) {
      Wide page = t.page, token = t.token, head = t.head;
      if (page == 0 && token == 0 && head == 0) {
        head = dim;
        token = head * s.num_kv_heads;
        page = token * s.page_tokens;
        if (page > INT64_MAX) return Wide{-1};
      }
      return reach({{extent, page}, {s.page_tokens, token}, {s.num_kv_heads, head}},
                   e4m3_cache && dim % 16 == 0 ? 16 : 8, 0, cache_bytes);
    };
    const Wide q = rowReach(s.q_strides, 0, 2), out = rowReach(s.out_strides, dim, out_bytes);
    if (q < 0 || out < 0) return false;
    if (cacheReach(s.k_strides, page_rule) < 0 || cacheReach(s.v_strides, page_rule) < 0) {
      return false;
    }
    const Wide pages_used = paged ? kPages : batch;
    const Wide half = kTensorBytes / 2 - 2048;  // less a row of 1024 elements
    const Wide k = cacheReach(s.k_strides, pages_used), v = cacheReach(s.v_strides, pages_used);
    const Wide heads = batch * tokens(s) * s.num_q_heads;
    small = q <= half && out <= half && k >= 0 && k <= half && v >= 0 && v <= half &&
            heads <= Wide{kSmallCount} && batch < Wide{kSmallCount} && tokens(s) <= 32 &&
            magnitude(batch * table_stride) + s.max_pages <= Wide{kSmallCount} &&
            heads * s.page_tokens * pages(s) * dim <= kMaxWork;
    return true;
  }
};

}  // namespace xqa_test
