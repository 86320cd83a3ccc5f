// SPDX-License-Identifier: Apache-2.0
// Size-first structs of older and newer callers: what is read, what is written and what is left
// alone.
#include "core/struct_io.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "xqa/xqa.h"

namespace {

constexpr unsigned char kCanary = 0xA5;

// A caller's struct of any size, in a buffer that ends in canaries.
template <typename Struct>
class SizedStruct {
 public:
  explicit SizedStruct(size_t size, unsigned char fill = 0)
      : size_(size), storage_((size + kGuardBytes) / sizeof(uint64_t) + 1) {
    std::memset(bytes(), fill, size);
    std::memset(bytes() + size, kCanary, storage_.size() * sizeof(uint64_t) - size);
    if (size >= sizeof(size_t)) setSize(size);
  }
  SizedStruct(const Struct& value, size_t size) : SizedStruct(size) {
    std::memcpy(bytes(), &value, size < sizeof(Struct) ? size : sizeof(Struct));
    setSize(size);
  }

  void setSize(size_t size) { std::memcpy(bytes(), &size, sizeof(size)); }
  Struct* get() { return reinterpret_cast<Struct*>(bytes()); }
  unsigned char* bytes() { return reinterpret_cast<unsigned char*>(storage_.data()); }
  bool guardIntact() {
    for (size_t i = size_; i < storage_.size() * sizeof(uint64_t); ++i) {
      if (bytes()[i] != kCanary) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuardBytes = 512;  // more than any struct of the API
  size_t size_;
  std::vector<uint64_t> storage_;
};

xqaVariantKey_t hostKey() {
  return {sizeof(xqaVariantKey_t), 64, 8, XQA_DTYPE_F16, XQA_DTYPE_F16, XQA_DTYPE_F16,
          XQA_BACKEND_HOST};
}

xqaVariant_t hostVariant() {
  const xqaVariantKey_t key = hostKey();
  xqaVariant_t variant = nullptr;
  EXPECT_EQ(xqaFindVariant(&key, nullptr, nullptr, &variant), XQA_STATUS_SUCCESS);
  return variant;
}

TEST(ReadStruct, SmallerReadsAsZero) {
  xqaVariantKey_t key = hostKey();
  SizedStruct<xqaVariantKey_t> older(key, offsetof(xqaVariantKey_t, q_dtype));
  xqaVariantKey_t read;
  std::memset(&read, kCanary, sizeof(read));
  ASSERT_TRUE(xqa::readStruct(older.get(), &read));
  EXPECT_EQ(read.struct_size, sizeof(read));
  EXPECT_EQ(read.head_dim, 64);
  EXPECT_EQ(read.group_size, 8);
  EXPECT_EQ(read.q_dtype, XQA_DTYPE_DEFAULT);
  EXPECT_EQ(read.backend, XQA_BACKEND_DEFAULT);
}

TEST(ReadStruct, LargerOnlyWithZeroTail) {
  const xqaVariantKey_t key = hostKey();
  const size_t size = sizeof(key) + 24;
  xqaVariantKey_t read;
  SizedStruct<xqaVariantKey_t> newer(key, size);
  EXPECT_TRUE(xqa::readStruct(newer.get(), &read));
  EXPECT_EQ(read.backend, XQA_BACKEND_HOST);
  for (size_t i = sizeof(key); i < size; ++i) {
    newer.bytes()[i] = 1;
    EXPECT_FALSE(xqa::readStruct(newer.get(), &read)) << "byte " << i;
    newer.bytes()[i] = 0;
  }
}

TEST(ReadStruct, RefusesNullAndImplausibleSizes) {
  xqaVariantKey_t read;
  EXPECT_FALSE(xqa::readStruct<xqaVariantKey_t>(nullptr, &read));
  for (size_t size : {size_t{0}, size_t{7}, size_t{20}, xqa::kMaxStructBytes + 8, SIZE_MAX - 7}) {
    xqaVariantKey_t key = hostKey();
    key.struct_size = size;
    EXPECT_FALSE(xqa::readStruct(&key, &read)) << size;
  }
}

TEST(WriteStruct, NeverWritesPastTheCallersSize) {
  xqaVariantInfo_t full = {};
  full.struct_size = sizeof(full);
  ASSERT_EQ(xqaGetVariantInfo(hostVariant(), &full), XQA_STATUS_SUCCESS);
  for (size_t size = sizeof(size_t); size <= sizeof(xqaVariantInfo_t) + 64;
       size += sizeof(size_t)) {
    SizedStruct<xqaVariantInfo_t> info(size, kCanary);
    ASSERT_EQ(xqaGetVariantInfo(hostVariant(), info.get()), XQA_STATUS_SUCCESS);
    size_t kept = 0;
    std::memcpy(&kept, info.bytes(), sizeof(kept));
    EXPECT_EQ(kept, size);
    const size_t known = size < sizeof(full) ? size : sizeof(full);
    EXPECT_EQ(std::memcmp(info.bytes() + sizeof(size_t),
                          reinterpret_cast<unsigned char*>(&full) + sizeof(size_t),
                          known - sizeof(size_t)),
              0)
        << size;
    for (size_t i = sizeof(full); i < size; ++i) EXPECT_EQ(info.bytes()[i], 0) << size;
    EXPECT_TRUE(info.guardIntact()) << size;
  }
}

TEST(WriteStruct, RefusesImplausibleSizesAndWritesNothing) {
  for (size_t size : {size_t{0}, size_t{7}, size_t{20}, xqa::kMaxStructBytes + 8, SIZE_MAX - 7}) {
    SizedStruct<xqaVariantInfo_t> info(sizeof(xqaVariantInfo_t), kCanary);
    info.setSize(size);
    EXPECT_EQ(xqaGetVariantInfo(hostVariant(), info.get()), XQA_STATUS_INVALID_ARGUMENT);
    for (size_t i = sizeof(size_t); i < sizeof(xqaVariantInfo_t); ++i) {
      ASSERT_EQ(info.bytes()[i], kCanary) << size;
    }
  }
  EXPECT_EQ(xqaGetVariantInfo(hostVariant(), nullptr), XQA_STATUS_INVALID_ARGUMENT);
}

// A sentence is cut to what the caller's struct holds, zero-terminated, and nothing lies past it.
TEST(Diagnostic, FitsEveryStructSize) {
  const std::string sentence = "key is NULL: it is required";
  for (size_t size = 0; size <= sizeof(xqaDiagnostic_t) + 16; ++size) {
    SizedStruct<xqaDiagnostic_t> diagnostic(size > 8 ? size : 8, kCanary);
    diagnostic.setSize(size);
    ASSERT_EQ(xqaDecodeHost(nullptr, nullptr, nullptr, diagnostic.get()),
              XQA_STATUS_INVALID_ARGUMENT);
    EXPECT_TRUE(diagnostic.guardIntact()) << size;
    constexpr size_t kOffset = offsetof(xqaDiagnostic_t, message);
    if (size <= kOffset) continue;
    if (size % sizeof(size_t) != 0) {
      EXPECT_EQ(diagnostic.bytes()[kOffset], kCanary) << size;
      continue;
    }
    const size_t capacity = size - kOffset < sizeof(xqaDiagnostic_t::message)
                                ? size - kOffset
                                : sizeof(xqaDiagnostic_t::message);
    const char* message = reinterpret_cast<const char*>(diagnostic.bytes()) + kOffset;
    ASSERT_LT(strnlen(message, capacity), capacity) << "not terminated at size " << size;
    EXPECT_EQ(std::string(message), sentence.substr(0, capacity - 1));
  }
}

template <typename Struct, typename Function>
void expectNewerTailRefused(const Struct& value, Function call, const char* name) {
  SizedStruct<Struct> newer(value, sizeof(Struct) + 8);
  EXPECT_EQ(call(newer.get(), nullptr), XQA_STATUS_SUCCESS) << name;
  newer.bytes()[sizeof(Struct) + 7] = 1;
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  EXPECT_EQ(call(newer.get(), &diagnostic), XQA_STATUS_INVALID_ARGUMENT) << name;
  const std::string wanted = std::string(name) + " struct_size is " +
                             std::to_string(sizeof(Struct) + 8) + " and the tail after the " +
                             std::to_string(sizeof(Struct)) + " bytes";
  EXPECT_EQ(std::string(diagnostic.message).substr(0, wanted.size()), wanted);
}

TEST(NewerCaller, EveryStructOfDecode) {
  const xqaVariantKey_t key = hostKey();
  xqaDecodeShape_t shape = {};  // a batch of 0, so that no pointers are needed
  shape.struct_size = sizeof(shape);
  shape.num_q_heads = 8;
  shape.num_kv_heads = 1;
  shape.page_tokens = 16;
  xqaDecodeArgs_t args = {};
  args.struct_size = sizeof(args);
  expectNewerTailRefused(
      key,
      [&](const xqaVariantKey_t* newer, xqaDiagnostic_t* diagnostic) {
        return xqaDecodeHost(newer, &shape, &args, diagnostic);
      },
      "key");
  expectNewerTailRefused(
      shape,
      [&](const xqaDecodeShape_t* newer, xqaDiagnostic_t* diagnostic) {
        return xqaDecodeHost(&key, newer, &args, diagnostic);
      },
      "shape");
  expectNewerTailRefused(
      args,
      [&](const xqaDecodeArgs_t* newer, xqaDiagnostic_t* diagnostic) {
        return xqaDecodeHost(&key, &shape, newer, diagnostic);
      },
      "args");
}

TEST(NewerCaller, MergeArgs) {
  xqaMergeArgs_t args = {};  // no rows, so that no pointers are needed
  args.struct_size = sizeof(args);
  args.num_parts = 2;
  args.head_dim = 64;
  args.partial_dtype = XQA_DTYPE_F32;
  expectNewerTailRefused(
      args,
      [](const xqaMergeArgs_t* newer, xqaDiagnostic_t* diagnostic) {
        return xqaMergePartials(newer, nullptr, diagnostic);
      },
      "merge args");
}

// The first release's caller may stop at the last field it sets.
TEST(OlderCaller, ShapeWithoutOptions) {
  const xqaVariantKey_t key = hostKey();
  xqaDecodeShape_t shape = {};
  shape.num_q_heads = 8;
  shape.num_kv_heads = 1;
  shape.page_tokens = 16;
  SizedStruct<xqaDecodeShape_t> older(shape, offsetof(xqaDecodeShape_t, page_table_stride));
  xqaDecodeArgs_t args = {};
  SizedStruct<xqaDecodeArgs_t> older_args(args, offsetof(xqaDecodeArgs_t, q));
  EXPECT_EQ(xqaDecodeHost(&key, older.get(), older_args.get(), nullptr), XQA_STATUS_SUCCESS);
}

}  // namespace
