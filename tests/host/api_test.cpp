// SPDX-License-Identifier: Apache-2.0
// The functions around decode: names, registry access, lookup, workspace, device refusals, merge,
// the table.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>

#include "xqa/xqa.h"

namespace {

struct Report {
  xqaDiagnostic_t diagnostic = {};
  Report() { diagnostic.struct_size = sizeof(diagnostic); }
  xqaDiagnostic_t* operator&() { return &diagnostic; }
  std::string text() const { return diagnostic.message; }
};

xqaVariantKey_t makeKey(xqaBackend_t backend) {
  return {sizeof(xqaVariantKey_t), 64,     8, XQA_DTYPE_F16, XQA_DTYPE_DEFAULT,
          XQA_DTYPE_DEFAULT,       backend};
}

xqaDeviceInfo_t makeDevice(int32_t sm) {
  xqaDeviceInfo_t device = {};
  device.struct_size = sizeof(device);
  device.sm = sm;
  device.sm_count = 132;
  device.smem_per_block_bytes = 232448;
  device.smem_per_sm_bytes = 233472;
  return device;
}

xqaDecodeShape_t makeShape() {
  xqaDecodeShape_t shape = {};
  shape.struct_size = sizeof(shape);
  shape.batch = 1;
  shape.num_q_heads = 8;
  shape.num_kv_heads = 1;
  shape.page_tokens = 16;
  shape.max_pages = 4;
  return shape;
}

xqaVariant_t find(xqaBackend_t backend) {
  const xqaVariantKey_t key = makeKey(backend);
  const xqaDeviceInfo_t device = makeDevice(90);
  xqaVariant_t variant = nullptr;
  EXPECT_EQ(xqaFindVariant(&key, &device, nullptr, &variant), XQA_STATUS_SUCCESS);
  return variant;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Version, AgreesWithHeaderAndBuildInfo) {
  EXPECT_EQ(xqaGetVersion(), uint32_t{XQA_VERSION});
  const std::string info = xqaGetBuildInfo();
  const std::string version = std::to_string(XQA_VERSION_MAJOR) + "." +
                              std::to_string(XQA_VERSION_MINOR) + "." +
                              std::to_string(XQA_VERSION_PATCH);
  EXPECT_EQ(info.rfind("libxqa " + version + "; ", 0), 0u) << info;
  EXPECT_TRUE(contains(info, "CUDA")) << info;
  EXPECT_TRUE(contains(info, "; sm ")) << info;
  EXPECT_TRUE(contains(info, "; matrix ")) << info;
  EXPECT_FALSE(contains(info, "\n"));
}

TEST(Status, EveryValueHasItsOwnNameAndSentence) {
  std::set<std::string> names, sentences;
  for (int32_t value = 0; value <= XQA_STATUS_CUDA_ERROR; ++value) {
    names.insert(xqaGetStatusName(static_cast<xqaStatus_t>(value)));
    sentences.insert(xqaGetStatusString(static_cast<xqaStatus_t>(value)));
  }
  EXPECT_EQ(names.size(), size_t{XQA_STATUS_CUDA_ERROR} + 1);
  EXPECT_EQ(sentences.size(), size_t{XQA_STATUS_CUDA_ERROR} + 1);
  EXPECT_EQ(names.count("XQA_STATUS_UNKNOWN"), 0u);
  EXPECT_STREQ(xqaGetStatusName(XQA_STATUS_SUCCESS), "XQA_STATUS_SUCCESS");
  EXPECT_STREQ(xqaGetStatusName(XQA_STATUS_WORKSPACE_TOO_SMALL), "XQA_STATUS_WORKSPACE_TOO_SMALL");
  const auto unknown = static_cast<xqaStatus_t>(XQA_STATUS_CUDA_ERROR + 1);
  EXPECT_STREQ(xqaGetStatusName(unknown), "XQA_STATUS_UNKNOWN");
  EXPECT_EQ(sentences.count(xqaGetStatusString(unknown)), 0u);
}

TEST(Variants, AreListedAndDescribed) {
  const uint32_t count = xqaVariantCount();
  ASSERT_GT(count, 0u);
  EXPECT_EQ(xqaVariantAt(count), nullptr);
  EXPECT_EQ(xqaVariantAt(UINT32_MAX), nullptr);
  std::set<std::string> names;
  for (uint32_t i = 0; i < count; ++i) {
    xqaVariantInfo_t info = {};
    info.struct_size = sizeof(info);
    ASSERT_EQ(xqaGetVariantInfo(xqaVariantAt(i), &info), XQA_STATUS_SUCCESS);
    names.insert(info.name);
    EXPECT_NE(info.features, 0u);
    if (info.backend == XQA_BACKEND_HOST) {
      EXPECT_EQ(info.available, 1);
      EXPECT_EQ(info.sm_min, 0);
      EXPECT_EQ(info.sm_max, 0);
      EXPECT_EQ(info.row_tile, 0);
      EXPECT_EQ(info.smem_bytes, 0);
    } else {
      EXPECT_GE(info.sm_min, 80);
      EXPECT_TRUE(info.row_tile >= info.group_size || info.row_tile == 64) << info.name;
      EXPECT_TRUE(info.row_tile == 8 || info.row_tile / 2 < info.group_size) << info.name;
      EXPECT_EQ(info.smem_bytes > 0, info.available == 1) << info.name;
    }
    // The key that the info states leads back to the variant.
    const xqaVariantKey_t key = {
        sizeof(xqaVariantKey_t), info.head_dim,   info.group_size, info.q_dtype,
        info.kv_dtype,           info.math_dtype, info.backend};
    const xqaDeviceInfo_t device = makeDevice(info.sm_min == 0 ? 80 : info.sm_min);
    xqaVariant_t found = nullptr;
    ASSERT_EQ(xqaFindVariant(&key, &device, nullptr, &found), XQA_STATUS_SUCCESS) << info.name;
    EXPECT_EQ(found, xqaVariantAt(i)) << info.name;
  }
  EXPECT_EQ(names.size(), count) << "names are unique";
}

TEST(Variants, ForeignPointersAreRefused) {
  xqaVariantInfo_t info = {};
  info.struct_size = sizeof(info);
  EXPECT_EQ(xqaGetVariantInfo(nullptr, &info), XQA_STATUS_INVALID_ARGUMENT);
  alignas(16) static const char foreign[64] = {};
  const auto* variant = reinterpret_cast<xqaVariant_t>(foreign);
  EXPECT_EQ(xqaGetVariantInfo(variant, &info), XQA_STATUS_INVALID_ARGUMENT);
  const auto* inside =
      reinterpret_cast<xqaVariant_t>(reinterpret_cast<const char*>(xqaVariantAt(0)) + 8);
  EXPECT_EQ(xqaGetVariantInfo(inside, &info), XQA_STATUS_INVALID_ARGUMENT);
  Report report;
  const xqaDecodeShape_t shape = makeShape();
  size_t bytes = 77;
  EXPECT_EQ(xqaGetWorkspaceSize(variant, nullptr, &shape, &bytes, &report),
            XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(report.text(), "variant is not of this library");
  EXPECT_EQ(xqaPrepareVariant(nullptr, 0, &report), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(report.text(), "variant is NULL: it is required");
  EXPECT_EQ(bytes, 77u);
  EXPECT_EQ(info.name, nullptr);
}

TEST(Find, DefaultBackendFollowsTheDevice) {
  const xqaVariantKey_t key = makeKey(XQA_BACKEND_DEFAULT);
  xqaVariant_t variant = nullptr;
  EXPECT_EQ(xqaFindVariant(&key, nullptr, nullptr, &variant), XQA_STATUS_SUCCESS);
  EXPECT_EQ(variant, find(XQA_BACKEND_HOST));
  const xqaDeviceInfo_t device = makeDevice(90);
  EXPECT_EQ(xqaFindVariant(&key, &device, nullptr, &variant), XQA_STATUS_SUCCESS);
  EXPECT_EQ(variant, find(XQA_BACKEND_MMA_SYNC));
}

TEST(Find, FailuresLeaveTheResultAlone) {
  const auto* const canary = reinterpret_cast<xqaVariant_t>(&makeKey);
  const xqaDeviceInfo_t device = makeDevice(90);
  const auto status = [&](const std::function<void(xqaVariantKey_t&)>& change,
                          const xqaDeviceInfo_t* on, const xqaDecodeShape_t* shape) {
    xqaVariantKey_t key = makeKey(XQA_BACKEND_MMA_SYNC);
    change(key);
    xqaVariant_t variant = canary;
    const xqaStatus_t result = xqaFindVariant(&key, on, shape, &variant);
    EXPECT_EQ(variant, canary);
    return result;
  };
  const auto same = [](xqaVariantKey_t&) {};
  for (int32_t head_dim : {80, 96, 512}) {
    const auto change = [&](xqaVariantKey_t& key) { key.head_dim = head_dim; };
    EXPECT_EQ(status(change, &device, nullptr), XQA_STATUS_NOT_FOUND);
  }
  EXPECT_EQ(status([](xqaVariantKey_t& key) { key.group_size = 129; }, &device, nullptr),
            XQA_STATUS_NOT_FOUND);
  EXPECT_EQ(status([](xqaVariantKey_t& key) { key.struct_size = 0; }, &device, nullptr),
            XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(status([](xqaVariantKey_t& key) { key.q_dtype = XQA_DTYPE_DEFAULT; }, &device, nullptr),
            XQA_STATUS_INVALID_ARGUMENT);
  const xqaDeviceInfo_t turing = makeDevice(75);
  EXPECT_EQ(status(same, &turing, nullptr), XQA_STATUS_ARCH_UNSUPPORTED);
  xqaDeviceInfo_t unset = makeDevice(90);
  unset.sm_count = 0;
  EXPECT_EQ(status(same, &unset, nullptr), XQA_STATUS_INVALID_ARGUMENT);

  xqaDecodeShape_t shape = makeShape();
  shape.num_q_heads = 12;
  EXPECT_EQ(status(same, &device, &shape), XQA_STATUS_SHAPE_UNSUPPORTED);
  shape = makeShape();
  shape.out_dtype = XQA_DTYPE_BF16;
  EXPECT_EQ(status(same, &device, &shape), XQA_STATUS_FEATURE_UNSUPPORTED);
  shape = makeShape();
  shape.page_tokens = 0;
  EXPECT_EQ(status(same, &device, &shape), XQA_STATUS_INVALID_ARGUMENT);

  const xqaVariantKey_t key = makeKey(XQA_BACKEND_HOST);
  EXPECT_EQ(xqaFindVariant(&key, nullptr, nullptr, nullptr), XQA_STATUS_INVALID_ARGUMENT);
  xqaVariant_t variant = canary;
  EXPECT_EQ(xqaFindVariant(nullptr, nullptr, nullptr, &variant), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(variant, canary);
}

TEST(Workspace, HostNeedsNone) {
  const xqaDecodeShape_t shape = makeShape();
  size_t bytes = 77;
  Report report;
  EXPECT_EQ(xqaGetWorkspaceSize(find(XQA_BACKEND_HOST), nullptr, &shape, &bytes, &report),
            XQA_STATUS_SUCCESS);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(xqaGetWorkspaceSize(find(XQA_BACKEND_HOST), nullptr, &shape, nullptr, &report),
            XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(report.text(), "bytes is NULL: it is required");
  EXPECT_EQ(xqaPrepareVariant(find(XQA_BACKEND_HOST), -5, &report), XQA_STATUS_SUCCESS);
}

struct DeviceRefusal {
  const char* name;
  std::function<void(xqaDeviceInfo_t&)> change;
  xqaStatus_t status;
  const char* sentence;
};

TEST(GpuVariant, DeviceIsChecked) {
  const DeviceRefusal refusals[] = {
      {"sm", [](xqaDeviceInfo_t& d) { d.sm = 75; }, XQA_STATUS_ARCH_UNSUPPORTED,
       "sm is 75: variant mma_sync_d64_g8_qf16_kvf16_mf16 needs compute capability 8.0 or more"},
      {"unset", [](xqaDeviceInfo_t& d) { d.sm = 0; }, XQA_STATUS_INVALID_ARGUMENT,
       "device sm is 0: it must be 1 or more"},
      {"sm_count", [](xqaDeviceInfo_t& d) { d.sm_count = -1; }, XQA_STATUS_INVALID_ARGUMENT,
       "device sm_count is -1: it must be 1 or more"},
      {"ordinal", [](xqaDeviceInfo_t& d) { d.device = -1; }, XQA_STATUS_INVALID_ARGUMENT,
       "device ordinal is -1: it must be 0 or more"},
      {"block", [](xqaDeviceInfo_t& d) { d.smem_per_block_bytes = 0; }, XQA_STATUS_INVALID_ARGUMENT,
       "device smem_per_block_bytes is 0: it must be 1 or more"},
      {"smem", [](xqaDeviceInfo_t& d) { d.smem_per_sm_bytes = 0; }, XQA_STATUS_INVALID_ARGUMENT,
       "device smem_per_sm_bytes is 0: it must be 1 or more"},
      {"reserved", [](xqaDeviceInfo_t& d) { d.reserved = 3; }, XQA_STATUS_INVALID_ARGUMENT,
       "device reserved is 3: it must be 0"},
      {"size", [](xqaDeviceInfo_t& d) { d.struct_size = 4; }, XQA_STATUS_INVALID_ARGUMENT,
       "device struct_size is 4: it must be sizeof the struct (112 in this version)"},
  };
  const xqaVariant_t variant = find(XQA_BACKEND_MMA_SYNC);
  const xqaDecodeShape_t shape = makeShape();
  const xqaDecodeArgs_t args = {};
  size_t bytes = 77;
  for (const DeviceRefusal& refusal : refusals) {
    xqaDeviceInfo_t device = makeDevice(90);
    refusal.change(device);
    Report report;
    EXPECT_EQ(xqaGetWorkspaceSize(variant, &device, &shape, &bytes, &report), refusal.status)
        << refusal.name;
    EXPECT_EQ(report.text(), refusal.sentence);
    EXPECT_EQ(xqaDecode(variant, &device, &shape, &args, nullptr, nullptr), refusal.status);
  }
  Report report;
  EXPECT_EQ(xqaDecode(variant, nullptr, &shape, &args, nullptr, &report),
            XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(report.text(), "device is NULL: it is required");
  EXPECT_EQ(xqaPrepareVariant(variant, -1, &report), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(report.text(), "device is -1: it must be 0 or more");
  EXPECT_EQ(bytes, 77u);
}

// Memory that a GPU variant must refuse before it looks at it.
class GpuCall : public testing::Test {
 protected:
  GpuCall() {
    args_.struct_size = sizeof(args_);
    args_.q = args_.k_cache = args_.v_cache = args_.out = memory_;
    args_.page_table = args_.seq_lens = reinterpret_cast<int32_t*>(memory_);
  }
  xqaStatus_t run() {
    return xqaDecode(find(XQA_BACKEND_MMA_SYNC), &device_, &shape_, &args_, nullptr, &report_);
  }
  alignas(256) unsigned char memory_[1024] = {};
  xqaDeviceInfo_t device_ = makeDevice(90);
  xqaDecodeShape_t shape_ = makeShape();
  xqaDecodeArgs_t args_ = {};
  Report report_;
};

TEST_F(GpuCall, ArgumentsAreChecked) {
  args_.q = memory_ + 8;
  EXPECT_EQ(run(), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(report_.text(), "q must be aligned to 16 bytes: it is 0x"));
  args_.q = memory_;
  shape_.num_q_heads = 16;
  EXPECT_EQ(run(), XQA_STATUS_SHAPE_UNSUPPORTED);
  EXPECT_EQ(report_.text(), "num_q_heads is 16: it must be num_kv_heads * group_size = 8");
}

TEST_F(GpuCall, Batch0Succeeds) {
  shape_.batch = 0;
  EXPECT_EQ(run(), XQA_STATUS_SUCCESS);
}

TEST_F(GpuCall, WorkspaceIsChecked) {
  shape_.batch = 1;
  shape_.max_pages = 65536;  // long enough to be split on any plan
  size_t needed = 0;
  const xqaStatus_t status =
      xqaGetWorkspaceSize(find(XQA_BACKEND_MMA_SYNC), &device_, &shape_, &needed, &report_);
  if (status == XQA_STATUS_NO_DEVICE) {
    EXPECT_EQ(report_.text(),
              "variant mma_sync_d64_g8_qf16_kvf16_mf16 has no kernels: this library was built "
              "without CUDA");
    EXPECT_EQ(run(), XQA_STATUS_NO_DEVICE);
    EXPECT_EQ(xqaPrepareVariant(find(XQA_BACKEND_MMA_SYNC), 0, &report_), XQA_STATUS_NO_DEVICE);
    return;
  }
  ASSERT_EQ(status, XQA_STATUS_SUCCESS);
  ASSERT_GT(needed, 0u);
  EXPECT_EQ(run(), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(report_.text(),
            "workspace is NULL: this shape needs " + std::to_string(needed) + " bytes");
  args_.workspace = memory_;
  args_.workspace_bytes = needed - 1;
  EXPECT_EQ(run(), XQA_STATUS_WORKSPACE_TOO_SMALL);
  EXPECT_EQ(report_.text(), "workspace_bytes is " + std::to_string(needed - 1) +
                                ": this shape needs " + std::to_string(needed));
}

TEST(HostVariant, RefusesAStream) {
  const xqaDecodeShape_t shape = makeShape();
  xqaDecodeArgs_t args = {};
  args.struct_size = sizeof(args);
  Report report;
  const auto stream = reinterpret_cast<xqaStream_t>(uintptr_t{16});
  EXPECT_EQ(xqaDecode(find(XQA_BACKEND_HOST), nullptr, &shape, &args, stream, &report),
            XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(report.text(), "stream is not NULL: it must be for the host backend");
}

TEST(DeviceInfo, IsRefused) {
  Report report;
  EXPECT_EQ(xqaGetDeviceInfo(0, nullptr, &report), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(report.text(), "info is NULL: it is required");
  xqaDeviceInfo_t info = {};
  EXPECT_EQ(xqaGetDeviceInfo(0, &info, &report), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(report.text(),
            "info struct_size is 0: it must be sizeof the struct (112 in this "
            "version)");
  info.struct_size = sizeof(info);
  EXPECT_EQ(xqaGetDeviceInfo(-1, &info, &report), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(report.text(), "device is -1: it must be 0 or more");
  EXPECT_EQ(xqaGetDeviceInfo(1 << 20, &info, &report), XQA_STATUS_NO_DEVICE);
  EXPECT_EQ(info.sm, 0);
}

struct MergeRefusal {
  std::function<void(xqaMergeArgs_t&)> change;
  const char* sentence;
};

TEST(Merge, RefusalsNameTheField) {
  alignas(16) static unsigned char memory[64] = {};
  auto* const floats = reinterpret_cast<float*>(memory);
  auto* const odd = reinterpret_cast<float*>(memory + 2);
  const MergeRefusal refusals[] = {
      {[](xqaMergeArgs_t& a) { a.struct_size = 0; }, "merge args struct_size is 0: it must be"},
      {[](xqaMergeArgs_t& a) { a.num_parts = 0; }, "num_parts is 0: it must be 1 or more"},
      {[](xqaMergeArgs_t& a) { a.head_dim = 12; },
       "head_dim is 12: it must be a positive multiple of 8"},
      {[](xqaMergeArgs_t& a) { a.head_dim = 0; }, "head_dim is 0: it must be a positive"},
      {[](xqaMergeArgs_t& a) { a.rows = -1; }, "rows is -1: it must be 0 or more"},
      {[](xqaMergeArgs_t& a) { a.rows = INT64_MAX / 64; },
       "rows is 144115188075855871 and head_dim is 64: the bytes of a part must fit in 63 bits"},
      {[](xqaMergeArgs_t& a) { a.rows = INT64_MAX; }, "the bytes of a part must fit in 63 bits"},
      {[](xqaMergeArgs_t& a) { a.partial_dtype = XQA_DTYPE_DEFAULT; },
       "partial_dtype is 0 (DEFAULT): it must be F16, BF16 or F32"},
      {[](xqaMergeArgs_t& a) { a.partial_dtype = XQA_DTYPE_E4M3; },
       "partial_dtype is 3 (E4M3): it must be F16, BF16 or F32"},
      {[](xqaMergeArgs_t& a) { a.out_dtype = static_cast<xqaDtype_t>(7); },
       "out_dtype is 7: it must be F16, BF16, F32 or E4M3"},
      {[](xqaMergeArgs_t& a) { a.partial_out_stride = 132; },
       "partial_out_stride is 132: it must be a multiple of 8 elements"},
      {[](xqaMergeArgs_t& a) { a.partial_out_stride = INT64_MAX - 7; },
       "partial_out_stride is 9223372036854775800: with num_parts = 2 the offsets must fit"},
      {[](xqaMergeArgs_t& a) { a.partial_lse_stride = INT64_MIN; },
       "partial_lse_stride is -9223372036854775808: with num_parts = 2 the offsets must fit"},
      {[](xqaMergeArgs_t& a) { a.partial_out = nullptr; }, "partial_out is NULL: it is required"},
      {[](xqaMergeArgs_t& a) { a.partial_lse = nullptr; }, "partial_lse is NULL: it is required"},
      {[](xqaMergeArgs_t& a) { a.out = nullptr; }, "out is NULL: it is required"},
      {[&](xqaMergeArgs_t& a) { a.partial_out = odd; }, "partial_out must be aligned to 16 bytes"},
      {[&](xqaMergeArgs_t& a) { a.partial_lse = odd; }, "partial_lse must be aligned to 4 bytes"},
      {[&](xqaMergeArgs_t& a) { a.out = odd; }, "out must be aligned to 16 bytes"},
      {[&](xqaMergeArgs_t& a) { a.lse = odd; }, "lse must be aligned to 4 bytes"},
  };
  for (const MergeRefusal& refusal : refusals) {
    xqaMergeArgs_t args = {};
    args.struct_size = sizeof(args);
    args.num_parts = 2;
    args.head_dim = 64;
    args.rows = 2;
    args.partial_dtype = XQA_DTYPE_F32;
    args.partial_out = args.out = memory;
    args.partial_lse = floats;
    refusal.change(args);
    Report report;
    EXPECT_EQ(xqaMergePartials(&args, nullptr, &report), XQA_STATUS_INVALID_ARGUMENT);
    EXPECT_TRUE(contains(report.text(), refusal.sentence))
        << report.text() << "\nwanted: " << refusal.sentence;
  }
}

TEST(Api, TableHoldsTheExportedFunctions) {
  const xqaApi_t* api = xqaGetApi(XQA_ABI_VERSION);
  ASSERT_NE(api, nullptr);
  EXPECT_EQ(xqaGetApi(XQA_ABI_VERSION + 1), nullptr);
  EXPECT_EQ(xqaGetApi(0), nullptr);
  EXPECT_EQ(api->struct_size, sizeof(xqaApi_t));
  EXPECT_EQ(api->abi_version, uint32_t{XQA_ABI_VERSION});
  EXPECT_EQ(api->version, xqaGetVersion());
  EXPECT_EQ(api->getBuildInfo, xqaGetBuildInfo);
  EXPECT_EQ(api->getStatusName, xqaGetStatusName);
  EXPECT_EQ(api->getStatusString, xqaGetStatusString);
  EXPECT_EQ(api->getDeviceInfo, xqaGetDeviceInfo);
  EXPECT_EQ(api->variantCount, xqaVariantCount);
  EXPECT_EQ(api->variantAt, xqaVariantAt);
  EXPECT_EQ(api->getVariantInfo, xqaGetVariantInfo);
  EXPECT_EQ(api->findVariant, xqaFindVariant);
  EXPECT_EQ(api->explainKey, xqaExplainKey);
  EXPECT_EQ(api->getWorkspaceSize, xqaGetWorkspaceSize);
  EXPECT_EQ(api->prepareVariant, xqaPrepareVariant);
  EXPECT_EQ(api->decode, xqaDecode);
  EXPECT_EQ(api->decodeHost, xqaDecodeHost);
  EXPECT_EQ(api->mergePartials, xqaMergePartials);
}

}  // namespace
