// SPDX-License-Identifier: Apache-2.0
// Offsets beyond 2^31 and 2^32 elements, and strides that only a stride can express. The reference
// works on a compact copy of the same rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "dice.h"
#include "reference/dtype.h"

namespace gpu {
namespace {

constexpr int64_t k2to31 = int64_t{1} << 31;
constexpr int64_t k2to32 = int64_t{1} << 32;
constexpr int64_t kPoolElements = k2to32 + (int64_t{1} << 29);
constexpr int64_t kMargin = int64_t{1} << 20;  // before the base pointer, for negative strides

constexpr size_t kPoolBytes = 2 * (kPoolElements + kMargin);  // of 16-bit elements

bool fitsTheDevice() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  XQA_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes > 2 * kPoolBytes + (size_t{1} << 30);
}

int64_t bytesOf(xqaDtype_t dtype) { return dtype == XQA_DTYPE_E4M3 ? 1 : 2; }

// Room for K and V, poisoned once; every case wipes the rows that it wrote.
class Pools {
 public:
  Pools() : k_(kPoolBytes), v_(kPoolBytes) {
    for (const DeviceBuffer* pool : {&k_, &v_}) {
      XQA_CUDA_CHECK(cudaMemset(pool->data(), DeviceImage::kPoison, pool->bytes()));
    }
    XQA_CUDA_CHECK(cudaDeviceSynchronize());
  }
  uint8_t* k(xqaDtype_t dtype) const { return base(k_, dtype); }
  uint8_t* v(xqaDtype_t dtype) const { return base(v_, dtype); }

 private:
  static uint8_t* base(const DeviceBuffer& pool, xqaDtype_t dtype) {
    return static_cast<uint8_t*>(pool.data()) + kMargin * bytesOf(dtype);
  }
  DeviceBuffer k_;
  DeviceBuffer v_;
};

// Where the rows of a compact problem lie in the pools.
struct Spread {
  const char* name;
  xqaCacheStrides_t k;
  xqaCacheStrides_t v;
  std::function<int64_t(int64_t)>
      page_of;  // the page id in the pools of a page id of the compact problem
};

struct Row {
  int64_t compact;
  int64_t spread;
};

// The rows of K or V that hold a visible token.
std::vector<Row> rowsOf(const HostProblem& problem, const xqaCacheStrides_t& compact,
                        const xqaCacheStrides_t& spread, const Spread& where) {
  std::vector<Row> rows;
  const int32_t page_tokens = problem.shape.page_tokens;
  for (int32_t b = 0; b < problem.batch(); ++b) {
    for (int32_t t = 0; t < problem.lengthOf(b); ++t) {
      const int64_t entry = b * problem.shape.page_table_stride + t / page_tokens;
      const int64_t page =
          problem.page_table.empty() ? b : problem.page_table[static_cast<size_t>(entry)];
      const int64_t far_page = problem.page_table.empty() ? page : where.page_of(page);
      const int64_t slot = t % page_tokens;
      for (int64_t h = 0; h < problem.spec.num_kv_heads; ++h) {
        rows.push_back({page * compact.page + slot * compact.token + h * compact.head,
                        far_page * spread.page + slot * spread.token + h * spread.head});
      }
    }
  }
  return rows;
}

void scatter(const std::vector<Row>& rows, const void* from, uint8_t* to, int64_t dim,
             xqaDtype_t dtype, const Stream& stream) {
  const int64_t bytes = bytesOf(dtype);
  for (const Row& row : rows) {
    XQA_CUDA_CHECK(cudaMemcpyAsync(
        to + row.spread * bytes, static_cast<const uint8_t*>(from) + row.compact * bytes,
        static_cast<size_t>(dim * bytes), cudaMemcpyHostToDevice, stream));
  }
  stream.synchronize();
}

void wipe(const std::vector<Row>& rows, uint8_t* to, int64_t dim, xqaDtype_t dtype,
          const Stream& stream) {
  const int64_t bytes = bytesOf(dtype);
  for (const Row& row : rows) {
    XQA_CUDA_CHECK(cudaMemsetAsync(to + row.spread * bytes, DeviceImage::kPoison,
                                   static_cast<size_t>(dim * bytes), stream));
  }
  stream.synchronize();
}

void expectRightWhenSpread(const ProblemSpec& spec, const Spread& where, const Pools& pools) {
  Worker worker;
  HostProblem problem = xqa::testing::buildProblem(spec);
  const xqaDecodeShape_t compact_shape = problem.shape;
  const std::vector<int32_t> compact_table = problem.page_table;
  const xqaDtype_t dtype = problem.kvDtype();
  const std::vector<Row> k_rows = rowsOf(problem, compact_shape.k_strides, where.k, where);
  const std::vector<Row> v_rows = rowsOf(problem, compact_shape.v_strides, where.v, where);
  for (const Row& row : k_rows) ASSERT_LT(row.spread + spec.head_dim, kPoolElements) << where.name;
  for (const Row& row : v_rows) ASSERT_LT(row.spread + spec.head_dim, kPoolElements) << where.name;
  scatter(k_rows, problem.args.k_cache, pools.k(dtype), spec.head_dim, dtype, worker.stream);
  scatter(v_rows, problem.args.v_cache, pools.v(dtype), spec.head_dim, dtype, worker.stream);

  for (int32_t& id : problem.page_table) {
    if (id >= 0 && id < problem.pool_pages) id = static_cast<int32_t>(where.page_of(id));
  }
  problem.shape.k_strides = where.k;
  problem.shape.v_strides = where.v;
  DeviceProblem on_device(&problem, &worker);
  on_device.args.k_cache = pools.k(dtype);
  on_device.args.v_cache = pools.v(dtype);
  on_device.run();

  std::copy(compact_table.begin(), compact_table.end(), problem.page_table.begin());
  problem.shape = compact_shape;
  const std::string fault = on_device.judge();
  EXPECT_TRUE(fault.empty()) << where.name << ": " << fault;
  wipe(k_rows, pools.k(dtype), spec.head_dim, dtype, worker.stream);
  wipe(v_rows, pools.v(dtype), spec.head_dim, dtype, worker.stream);
}

ProblemSpec cacheSpec(const ProblemSpec& family, CacheLayout layout) {
  ProblemSpec spec = family;
  spec.num_kv_heads = 2;
  spec.q_tokens = 2;
  spec.page_tokens = 16;
  spec.layout = layout;
  spec.seq_lens = {130, 3, 47};
  return spec;
}

// Cases whose page ids, pages, tokens or heads lie on both sides of 2^31 and 2^32 elements.
std::vector<Spread> farSpreads(const ProblemSpec& spec) {
  const int64_t dim = spec.head_dim;
  const int64_t token = 2 * dim;
  const int64_t page = 16 * token;
  const int64_t padded = page + 3 * 16;  // no boundary is a multiple of it: pages lie across
  const auto around = [](int64_t boundary, int64_t page_stride) {
    return [=](int64_t id) { return boundary / page_stride - 5 + id; };
  };
  return {
      {"page ids around 2^31 elements",
       {page, token, dim},
       {page, token, dim},
       around(k2to31, page)},
      {"page ids around 2^32 elements",
       {page, token, dim},
       {page, token, dim},
       around(k2to32, page)},
      {"pages across 2^31 elements",
       {padded, token, dim},
       {padded, token, dim},
       around(k2to31, padded)},
      {"pages across 2^32 elements",
       {padded, token, dim},
       {padded, token, dim},
       around(k2to32, padded)},
      {"a page stride of 2^28 elements",
       {1 << 28, token, dim},
       {(1 << 28) + 16, token, dim},
       [](int64_t id) { return id; }},
      {"a token stride of 2^28 elements",
       {page, 1 << 28, dim},
       {page, (1 << 28) + 16, dim},
       [](int64_t id) { return id; }},
      {"a head stride of 2^32 elements",
       {page, dim, k2to32},
       {page, dim, k2to31 + 16},
       [](int64_t id) { return id; }},
      {"tokens in reverse",
       {page, -token, dim},
       {page, -token, dim},
       [](int64_t id) { return 2 + id; }},
  };
}

std::vector<ProblemSpec> someFamilies() {
  std::vector<ProblemSpec> families = allFamilies();
  families.erase(std::remove_if(families.begin(), families.end(),
                                [](const ProblemSpec& f) { return f.head_dim == 256; }),
                 families.end());
  return families;
}

TEST(Addressing, PoolsBeyond32Bits) {
  if (!fitsTheDevice()) GTEST_SKIP() << "too little free device memory";
  const Pools pools;
  for (const ProblemSpec& family : someFamilies()) {
    const ProblemSpec spec = cacheSpec(family, CacheLayout::kNhd);
    for (const Spread& where : farSpreads(spec)) expectRightWhenSpread(spec, where, pools);
  }
}

TEST(Addressing, ContiguousCacheBeyond32Bits) {
  if (!fitsTheDevice()) GTEST_SKIP() << "too little free device memory";
  const Pools pools;
  for (const ProblemSpec& family : someFamilies()) {
    const ProblemSpec spec = cacheSpec(family, CacheLayout::kContiguous);
    const int64_t dim = spec.head_dim;
    const Spread where = {"a request stride of 2^31 elements",
                          {k2to31, 2 * dim, dim},
                          {k2to31 + 32, 2 * dim, dim},
                          [](int64_t id) { return id; }};
    expectRightWhenSpread(spec, where, pools);
  }
}

// With one KV head its stride is never used: packed frameworks pass D, a page or 0.
TEST(Addressing, HeadStrideOfASingleHead) {
  for (const ProblemSpec& family : allFamilies()) {
    ProblemSpec spec = family;
    spec.page_tokens = 16;
    spec.seq_lens = {130, 3, 47};
    Worker worker;
    HostProblem problem = xqa::testing::buildProblem(spec);
    const xqaDecodeShape_t shape = problem.shape;
    for (const int64_t head : {int64_t{spec.head_dim}, 16 * int64_t{spec.head_dim}, int64_t{0}}) {
      problem.shape = shape;
      problem.shape.k_strides.head = head;
      problem.shape.v_strides.head = head;
      DeviceProblem on_device(&problem, &worker);
      on_device.run();
      const std::string fault = on_device.judge();
      EXPECT_TRUE(fault.empty()) << "head stride " << head << ": " << fault;
    }
  }
}

// K and V may be the same memory, and all query heads the same query; query tokens may lie in
// reverse.
TEST(Addressing, OverlappingViews) {
  for (const ProblemSpec& family : allFamilies()) {
    ProblemSpec spec = cacheSpec(family, CacheLayout::kNhd);
    spec.q_tokens = 3;
    Worker worker;
    HostProblem problem = xqa::testing::buildProblem(spec);
    const int64_t token = problem.shape.q_strides.token;
    problem.shape.q_strides.head = 0;
    problem.shape.q_strides.token = -token;
    problem.args.q = problem.q.data() + 2 * token * 2;
    DeviceProblem on_device(&problem, &worker);
    problem.args.v_cache = problem.args.k_cache;
    on_device.args.v_cache = on_device.args.k_cache;
    on_device.run();
    const std::string fault = on_device.judge();
    EXPECT_TRUE(fault.empty()) << fault;
  }
}

// Rows of q and out more than 2^32 elements apart.
TEST(Addressing, QueriesAndOutputsBeyond32Bits) {
  if (!fitsTheDevice()) GTEST_SKIP() << "too little free device memory";
  const Pools pools;  // q in one, out in the other
  for (const ProblemSpec& family : someFamilies()) {
    ProblemSpec spec = cacheSpec(family, CacheLayout::kHnd);
    Worker worker;
    HostProblem problem = xqa::testing::buildProblem(spec);
    const xqaDecodeShape_t compact_shape = problem.shape;
    const auto rowsAt = [&](const xqaQueryStrides_t& spread) {
      std::vector<Row> rows;
      for (int32_t b = 0; b < problem.batch(); ++b) {
        for (int32_t i = 0; i < problem.rowsOf(b); ++i) {
          for (int32_t h = 0; h < compact_shape.num_q_heads; ++h) {
            rows.push_back({problem.outOffset(b, i, h),
                            b * spread.batch + i * spread.token + h * spread.head});
          }
        }
      }
      return rows;
    };
    const xqaQueryStrides_t q_strides = {k2to31, (1 << 27) + 8, spec.head_dim + 8};
    const xqaQueryStrides_t out_strides = {k2to31 + 64, 1 << 27, spec.head_dim};
    const std::vector<Row> q_rows = rowsAt(q_strides);
    const std::vector<Row> out_rows = rowsAt(out_strides);
    scatter(q_rows, problem.args.q, pools.k(spec.q_dtype), spec.head_dim, spec.q_dtype,
            worker.stream);
    problem.shape.q_strides = q_strides;
    problem.shape.out_strides = out_strides;
    DeviceProblem on_device(&problem, &worker);
    on_device.args.q = pools.k(spec.q_dtype);
    on_device.args.out = pools.v(spec.q_dtype);
    on_device.launch();
    Outputs outputs = on_device.readOutputs();
    for (const Row& row : out_rows) {
      XQA_CUDA_CHECK(cudaMemcpyAsync(
          outputs.out.data() + row.compact * 2, pools.v(spec.q_dtype) + row.spread * 2,
          static_cast<size_t>(spec.head_dim) * 2, cudaMemcpyDeviceToHost, worker.stream));
    }
    worker.stream.synchronize();
    problem.shape = compact_shape;
    const std::string fault = judgeOutputs(&problem, outputs);
    EXPECT_TRUE(fault.empty()) << fault << ": " << on_device.reproduction();
    recordCase(on_device.variant(), fault.empty());
    wipe(out_rows, pools.v(spec.q_dtype), spec.head_dim, spec.q_dtype, worker.stream);
  }
}

}  // namespace
}  // namespace gpu
