// SPDX-License-Identifier: Apache-2.0
// Random keys, shapes, strides and struct sizes through the C API: no crash, no write on refusal,
// and no verdict that differs from a second statement of the rules (fuzz_rules.h).
//
// In ctest the inputs are pseudo-random and always the same. For libFuzzer, compile with clang and
// -DXQA_LIBFUZZER -fsanitize=fuzzer,address,undefined.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "fuzz_rules.h"
#include "xqa/xqa.h"

#ifndef XQA_LIBFUZZER
#include <gtest/gtest.h>
#endif

namespace {

using namespace xqa_test;

constexpr unsigned char kCanary = 0xA5;

// Draws from the input; zeros when it is used up.
class Source {
 public:
  Source(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint64_t bits(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && next_ < size_; ++i) value = value << 8 | data_[next_++];
    return value;
  }
  bool oneIn(uint32_t n) { return bits(2) % n == 1 % n; }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits(2) % static_cast<uint64_t>(high - low + 1));
  }
  int64_t of(std::initializer_list<int64_t> values) {
    return values.begin()[bits(1) % values.size()];
  }
  // Mostly the sensible value; now and then one that is likely to be refused or to overflow.
  int64_t mostly(int64_t sensible) {
    if (!oneIn(64)) return sensible;
    if (oneIn(4)) return static_cast<int64_t>(bits(8));
    return of({0, 1, -1, 2, 3, 7, -8, 8, 12, 100, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN,
               1 << 16, int64_t{1} << 31, int64_t{1} << 61});
  }
  int32_t mostly32(int64_t sensible) { return static_cast<int32_t>(mostly(sensible)); }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t next_ = 0;
};

// A struct with room for the tail of a newer version.
template <typename Struct>
struct Grown {
  Struct known = {};
  unsigned char tail[64] = {};

  void chooseSize(Source& source) {
    known.struct_size = sizeof(Struct);
    if (!source.oneIn(24)) return;
    if (source.oneIn(2)) {
      known.struct_size = static_cast<size_t>(source.between(0, sizeof(*this)));
      if (!source.oneIn(4)) known.struct_size &= ~size_t{7};
    } else {
      known.struct_size = static_cast<size_t>(source.of({0, 7, 4104, INT64_MAX - 7, -8}));
    }
    if (source.oneIn(2)) tail[source.between(0, sizeof(tail) - 1)] = 1;
  }
  // What the library must read, if the size is legal.
  bool read(Struct* to) const {
    *to = {};
    if (known.struct_size < sizeof(size_t) || known.struct_size > sizeof(*this)) return false;
    if (known.struct_size % sizeof(size_t) != 0) return false;
    for (size_t i = sizeof(Struct); i < known.struct_size; ++i) {
      if (tail[i - sizeof(Struct)] != 0) return false;
    }
    std::memcpy(to, &known, std::min(sizeof(Struct), known.struct_size));
    return true;
  }
};

template <typename Enum>
void setEnum(Enum* field, int64_t value) {
  const int32_t number = static_cast<int32_t>(value);
  std::memcpy(field, &number, sizeof(number));
}

struct Memory {
  alignas(256) unsigned char q[kTensorBytes] = {};
  alignas(256) unsigned char k[kTensorBytes] = {};
  alignas(256) unsigned char v[kTensorBytes] = {};
  alignas(256) unsigned char out[kTensorBytes];
  alignas(256) unsigned char lse[kSmallCount * 4];
  int32_t page_table[kSmallCount];
  int32_t seq_lens[kSmallCount];
  int32_t q_offsets[kSmallCount];
  uint32_t mask[kSmallCount];
  float values[kSmallCount];
};

struct Input {
  Grown<xqaVariantKey_t> key;
  Grown<xqaDecodeShape_t> shape;
  Grown<xqaDecodeArgs_t> args;
  Grown<xqaDeviceInfo_t> device;
  Memory memory;

  explicit Input(Source& source) {
    drawKey(source);
    drawShape(source);
    shape.chooseSize(source);
    drawMemory(source);
    drawArgs(source);
    device.known.sm = source.mostly32(source.of({70, 80, 86, 89, 90, 100, 120}));
    device.known.sm_count = source.mostly32(132);
    device.known.smem_per_block_bytes = source.mostly32(232448);
    device.known.smem_per_sm_bytes = source.mostly32(233472);
    key.chooseSize(source);
    args.chooseSize(source);
    device.chooseSize(source);
  }

  void drawKey(Source& source) {
    key.known.head_dim = source.mostly32(source.of({8, 16, 24, 64, 128, 256}));
    key.known.group_size = source.mostly32(source.between(1, 5));
    setEnum(&key.known.q_dtype, source.mostly(source.between(1, 2)));
    setEnum(&key.known.kv_dtype, source.mostly(source.of({0, 0, 3, 1})));
    setEnum(&key.known.math_dtype, source.mostly(source.of({0, 0, 0, 3, 2})));
    setEnum(&key.known.backend, source.mostly(source.of({0, 1, 2, 3})));
  }

  void drawShape(Source& source) {
    xqaDecodeShape_t& s = shape.known;
    s.batch = source.mostly32(source.between(0, 3));
    s.q_tokens = source.mostly32(source.between(0, 3));
    s.num_kv_heads = source.mostly32(source.between(1, 3));
    const Wide heads = Wide{s.num_kv_heads} * key.known.group_size;
    s.num_q_heads = source.mostly32(static_cast<int32_t>(heads));
    s.page_tokens = source.mostly32(source.between(1, 4));
    s.max_pages = source.mostly32(source.between(0, 3));
    s.page_table_stride = source.mostly(source.of({0, 0, 3, 4}));
    const int64_t dim = key.known.head_dim;
    const auto stride = [&](int64_t unit) { return source.mostly(unit * source.between(1, 6)); };
    if (source.oneIn(3)) s.q_strides = {stride(8), stride(8), stride(8)};
    if (source.oneIn(3)) s.out_strides = {stride(dim * 6), stride(dim), stride(dim)};
    if (source.oneIn(3)) s.k_strides = {stride(16), stride(16), stride(-16)};
    if (source.oneIn(3)) s.v_strides = {stride(16), stride(8), stride(16)};
    setEnum(&s.out_dtype, source.mostly(source.of({0, 0, 0, 3, 1, 4})));
    s.window = source.mostly32(source.of({0, 0, 1, 5}));
    const auto real = [&] {
      return source.oneIn(64)
                 ? static_cast<float>(source.of({-1, 1})) * (source.oneIn(2) ? INFINITY : NAN)
                 : static_cast<float>(source.mostly(source.between(0, 2)));
    };
    s.softmax_scale = real();
    s.softcap = real();
    s.q_scale_stride = source.mostly32(source.between(0, 1));
    s.k_scale_stride = source.mostly32(source.between(0, 1));
    s.v_scale_stride = source.mostly32(source.between(0, 1));
    s.reserved = source.mostly32(0);
  }

  // Table and length contents are the caller's duty: page ids are valid, lengths are anything.
  void drawMemory(Source& source) {
    std::memset(memory.out, kCanary, sizeof(memory.out));
    std::memset(memory.lse, kCanary, sizeof(memory.lse));
    int32_t row = 0;
    xqaDecodeShape_t read;
    shape.read(&read);
    const int32_t most = read.q_tokens > 0 ? std::min(read.q_tokens, 3) : 1;
    for (size_t i = 0; i < kSmallCount; ++i) {
      memory.page_table[i] = static_cast<int32_t>(i * 7 % kPages);
      memory.mask[i] = static_cast<uint32_t>(i * 2654435761u);
      memory.values[i] = 0.5f;
      memory.seq_lens[i] = static_cast<int32_t>(i % 5);
      memory.q_offsets[i] = row;
      row += i < 4 ? static_cast<int32_t>(source.between(0, most)) : 0;
    }
    for (size_t i = 0; i < 4; ++i) memory.seq_lens[i] = source.mostly32(source.between(0, 13));
  }

  void drawArgs(Source& source) {
    xqaDecodeArgs_t& a = args.known;
    const auto pointer = [&](auto* from) {
      using Pointer = decltype(from);
      if (source.oneIn(96)) return Pointer{};
      const uintptr_t by = source.oneIn(96) ? static_cast<uintptr_t>(source.of({1, 2})) : 0;
      return reinterpret_cast<Pointer>(reinterpret_cast<uintptr_t>(from) + by);
    };
    const auto optional = [&](auto* from) {
      return source.oneIn(3) ? pointer(from) : decltype(from){};
    };
    a.q = pointer(memory.q + kTensorBytes / 2);
    a.k_cache = pointer(memory.k + kTensorBytes / 2);
    a.v_cache = pointer(memory.v + kTensorBytes / 2);
    a.out = pointer(memory.out + kTensorBytes / 2);
    a.seq_lens = pointer(memory.seq_lens);
    const bool paged = source.oneIn(32) != (shape.known.max_pages > 0);
    a.page_table = paged ? pointer(memory.page_table) : nullptr;
    a.q_offsets = optional(memory.q_offsets);
    a.mask = optional(memory.mask);
    a.sinks = optional(memory.values);
    a.q_scale = optional(memory.values);
    a.k_scale = optional(memory.values);
    a.v_scale = optional(memory.values);
    a.out_scale = optional(memory.values);
    a.lse = reinterpret_cast<float*>(optional(memory.lse));
    a.workspace = optional(memory.q);
    a.flags = static_cast<uint32_t>(source.mostly(source.of({0, 0, 1, 3, 2})));
    a.reserved = static_cast<uint32_t>(source.mostly(0));
  }
};

Opinion judge(const Input& input) {
  xqaVariantKey_t key;
  xqaDecodeShape_t shape;
  xqaDecodeArgs_t args;
  const bool readable = input.key.read(&key) && input.shape.read(&shape) && input.args.read(&args);
  return readable ? Opinion(key, shape, args) : Opinion();
}

bool untouched(const unsigned char* bytes, size_t size) {
  return size == 0 || (bytes[0] == kCanary && std::memcmp(bytes, bytes + 1, size - 1) == 0);
}

std::string decodeOnce(Input& input) {
  const Opinion opinion = judge(input);
  if (opinion.legal && !opinion.small) return "";
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  const xqaStatus_t status =
      xqaDecodeHost(&input.key.known, &input.shape.known, &input.args.known, &diagnostic);
  if ((status == XQA_STATUS_SUCCESS) != opinion.legal) {
    return std::string(opinion.legal ? "a legal call is refused: "
                                     : "an illegal call is accepted") +
           diagnostic.message;
  }
  if (opinion.legal) return diagnostic.message;
  if (diagnostic.message[0] == '\0') return "a refusal without a sentence";
  if (!untouched(input.memory.out, sizeof(input.memory.out)) ||
      !untouched(input.memory.lse, sizeof(input.memory.lse))) {
    return std::string("a refused call wrote: ") + diagnostic.message;
  }
  return "";
}

std::string findOnce(Input& input, Source& source) {
  const auto* const canary = reinterpret_cast<xqaVariant_t>(&input);
  xqaVariant_t variant = canary;
  const xqaDeviceInfo_t* device = source.oneIn(3) ? nullptr : &input.device.known;
  const xqaDecodeShape_t* shape = source.oneIn(2) ? nullptr : &input.shape.known;
  const xqaStatus_t status = xqaFindVariant(&input.key.known, device, shape, &variant);
  if (status != XQA_STATUS_SUCCESS) return variant == canary ? "" : "a failed lookup wrote";
  Grown<xqaVariantInfo_t> info;
  std::memset(info.tail, kCanary, sizeof(info.tail));
  info.known.struct_size = sizeof(size_t) * static_cast<size_t>(source.between(
                                                1, sizeof(xqaVariantInfo_t) / sizeof(size_t)));
  if (xqaGetVariantInfo(variant, &info.known) != XQA_STATUS_SUCCESS) return "info is refused";
  if (!untouched(info.tail, sizeof(info.tail))) return "info wrote past struct_size";
  info.known.struct_size = sizeof(info.known);
  xqaGetVariantInfo(variant, &info.known);
  xqaVariantKey_t key;
  if (!input.key.read(&key)) return "an unreadable key is found";
  const auto resolved = [](int32_t value, int32_t fallback) { return value ? value : fallback; };
  const int32_t q = getEnum(key.q_dtype);
  if (info.known.head_dim != key.head_dim || info.known.group_size != key.group_size ||
      info.known.q_dtype != q || info.known.kv_dtype != resolved(getEnum(key.kv_dtype), q) ||
      info.known.math_dtype != resolved(getEnum(key.math_dtype), q) ||
      info.known.backend != resolved(getEnum(key.backend), info.known.backend)) {
    return std::string("lookup is not exact: ") + info.known.name;
  }
  size_t bytes = 0;
  xqaGetWorkspaceSize(variant, &input.device.known, &input.shape.known, &bytes, nullptr);
  return "";
}

std::string explainOnce(const Input& input, Source& source) {
  char text[512];
  std::memset(text, kCanary, sizeof(text));
  const size_t capacity = static_cast<size_t>(source.between(0, 400));
  const xqaDeviceInfo_t* device = source.oneIn(3) ? nullptr : &input.device.known;
  const size_t length = xqaExplainKey(&input.key.known, device, text, capacity);
  if (length == 0) return "an empty explanation";
  if (capacity > 0 && std::strlen(text) != std::min(length, capacity - 1)) {
    return "an explanation of another length than returned";
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(text);
  return untouched(bytes + capacity, sizeof(text) - capacity) ? "" : "explain wrote past capacity";
}

// Without pointers, so that only a merge of no rows may succeed on any machine.
std::string mergeOnce(Source& source) {
  Grown<xqaMergeArgs_t> args;
  args.known.num_parts = source.mostly32(source.between(1, 3));
  args.known.head_dim = source.mostly32(64);
  args.known.rows = source.mostly(source.between(0, 1));
  setEnum(&args.known.partial_dtype, source.mostly(source.of({1, 2, 4})));
  setEnum(&args.known.out_dtype, source.mostly(source.between(0, 4)));
  args.known.partial_out_stride = source.mostly(0);
  args.known.partial_lse_stride = source.mostly(0);
  args.chooseSize(source);
  xqaMergeArgs_t read;
  const bool may_succeed = args.read(&read) && read.rows == 0;
  const xqaStatus_t status = xqaMergePartials(&args.known, nullptr, nullptr);
  return status == XQA_STATUS_SUCCESS && !may_succeed ? "a merge of nothing succeeds" : "";
}

std::string fuzzOnce(const uint8_t* data, size_t size) {
  Source source(data, size);
  Input input(source);
  std::string fault = findOnce(input, source);
  if (fault.empty()) fault = explainOnce(input, source);
  if (fault.empty()) fault = mergeOnce(source);
  if (fault.empty()) fault = decodeOnce(input);
  return fault;
}

}  // namespace

#ifdef XQA_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string fault = fuzzOnce(data, size);
  if (fault.empty()) return 0;
  std::fprintf(stderr, "%s\n", fault.c_str());
  std::abort();
}

#else

namespace {

TEST(Fuzz, NoCrashAndNoAcceptedNonsense) {
  constexpr int kRounds = 200000;
  std::mt19937_64 random(20240607);
  std::vector<uint8_t> data(512);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < data.size(); i += sizeof(uint64_t)) {
      const uint64_t word = random();
      std::memcpy(&data[i], &word, sizeof(word));
    }
    ASSERT_EQ(fuzzOnce(data.data(), data.size()), "") << "round " << round;
    Source source(data.data(), data.size());
    const Opinion opinion = judge(Input(source));
    accepted += opinion.legal && opinion.small;
  }
  // The inputs are of use only if many pass all rules and many do not.
  EXPECT_GT(accepted, kRounds / 20);
  EXPECT_LT(accepted, kRounds / 2);
}

}  // namespace

#endif
