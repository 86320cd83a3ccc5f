// SPDX-License-Identifier: Apache-2.0
// xqaMergePartials against double on the host, and against a call over the whole sequence.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "dice.h"
#include "reference/dtype.h"

namespace gpu {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

size_t bytesOf(xqaDtype_t dtype) {
  return dtype == XQA_DTYPE_F32 ? 4 : dtype == XQA_DTYPE_E4M3 ? 1 : 2;
}

double load(xqaDtype_t dtype, const void* array, int64_t index) {
  if (dtype != XQA_DTYPE_F32) return xqa::loadElement(dtype, array, index);
  return static_cast<double>(static_cast<const float*>(array)[index]);
}

void store(xqaDtype_t dtype, void* array, int64_t index, double value) {
  if (dtype == XQA_DTYPE_F32) {
    static_cast<float*>(array)[index] = static_cast<float>(value);
  } else {
    xqa::storeElement(dtype, array, index, value);
  }
}

struct Merge {
  int32_t parts;
  int64_t rows;
  int32_t dim;
  xqaDtype_t partial_dtype;
  xqaDtype_t out_dtype;
  bool padded;    // strides beyond the packed ones
  bool in_place;  // lse overwrites the first part of partial_lse
};

std::string nameOf(const Merge& merge) {
  constexpr const char* kNames[] = {"default", "f16", "bf16", "e4m3", "f32"};
  return "merge of " + std::to_string(merge.parts) + " parts, " + std::to_string(merge.rows) +
         " rows of " + std::to_string(merge.dim) + " " + kNames[merge.partial_dtype] + " to " +
         kNames[merge.out_dtype] + (merge.padded ? ", padded" : "") +
         (merge.in_place ? ", in place" : "");
}

// Half a unit in the last place of an output, relative, and the error of f32 sums.
double toleranceOf(xqaDtype_t out_dtype) {
  switch (out_dtype) {
    case XQA_DTYPE_F16:
      return 0x1p-11 + 1e-5;
    case XQA_DTYPE_BF16:
      return 0x1p-8 + 1e-5;
    case XQA_DTYPE_E4M3:
      return 0x1p-4 + 1e-5;
    default:
      return 1e-5;
  }
}

// The inputs of a merge: some parts without a key, some rows without any, some parts far below the
// others.
struct Parts {
  int64_t out_stride;
  int64_t lse_stride;
  std::vector<uint8_t> out;
  std::vector<float> lse;

  Parts(const Merge& merge, Dice* dice)
      : out_stride(merge.rows * merge.dim + (merge.padded ? 24 : 0)),
        lse_stride(merge.rows + (merge.padded ? 3 : 0)) {
    const int64_t elements = out_stride * merge.parts;
    out.resize(static_cast<size_t>(elements) * bytesOf(merge.partial_dtype));
    const uint64_t seed = dice->roll();
    for (int64_t i = 0; i < elements; ++i) {
      store(merge.partial_dtype, out.data(), i,
            3 * xqa::testing::randomNormal(seed, static_cast<uint64_t>(i)));
    }
    for (int64_t i = 0; i < lse_stride * merge.parts; ++i) {
      const int64_t row = i % lse_stride;
      const double spread = row % 5 == 0 ? 300.0 : 3.0;
      const double value = spread * xqa::testing::randomNormal(seed + 1, static_cast<uint64_t>(i));
      const bool empty = row % 7 == 3 || dice->oneIn(4);
      lse.push_back(empty ? kMinusInf : static_cast<float>(value));
    }
  }

  double lseAt(int32_t part, int64_t row) const {
    return static_cast<double>(lse[static_cast<size_t>(part * lse_stride + row)]);
  }
};

// Elements of a merged row, its log-sum-exp included, that are not what double says.
int64_t wrongInRow(const Merge& merge, const Parts& parts, int64_t row, const void* out,
                   float found_lse) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int32_t p = 0; p < merge.parts; ++p) largest = std::fmax(largest, parts.lseAt(p, row));
  int64_t wrong = 0;
  if (!std::isfinite(largest)) {
    for (int64_t d = 0; d < merge.dim; ++d) {
      if (load(merge.out_dtype, out, row * merge.dim + d) != 0.0) ++wrong;
    }
    return wrong + (found_lse == kMinusInf ? 0 : 1);
  }
  std::vector<double> weights;
  double denominator = 0.0;
  for (int32_t p = 0; p < merge.parts; ++p) {
    weights.push_back(std::exp(parts.lseAt(p, row) - largest));
    denominator += weights.back();
  }
  const double smallest = merge.out_dtype == XQA_DTYPE_E4M3 ? 0x1p-10 : 1e-6;  // subnormal outputs
  for (int64_t d = 0; d < merge.dim; ++d) {
    double exact = 0.0;
    double magnitude = 0.0;
    for (int32_t p = 0; p < merge.parts; ++p) {
      const double weight = weights[static_cast<size_t>(p)] / denominator;
      const double value =
          load(merge.partial_dtype, parts.out.data(), p * parts.out_stride + row * merge.dim + d);
      exact += weight * value;
      magnitude += weight * std::fabs(value);
    }
    const double found = load(merge.out_dtype, out, row * merge.dim + d);
    const double allowed =
        toleranceOf(merge.out_dtype) * std::fabs(exact) + 1e-5 * magnitude + smallest;
    if (!(std::fabs(found - exact) <= allowed)) ++wrong;
  }
  const double lse = largest + std::log(denominator);
  const double lse_error = std::fabs(static_cast<double>(found_lse) - lse);
  return wrong + (lse_error <= 1e-5 * std::fmax(1.0, std::fabs(lse)) ? 0 : 1);
}

void expectRight(const Merge& merge, Dice* dice, const Stream& stream, DeviceBuffer* memory) {
  const Parts parts(merge, dice);
  const size_t out_bytes = static_cast<size_t>(merge.rows * merge.dim) * bytesOf(merge.out_dtype);
  const size_t lse_bytes = static_cast<size_t>(merge.rows) * sizeof(float);
  DeviceImage image;
  const size_t partial_at = image.add(parts.out);
  const size_t lse_in_at = image.add(parts.lse);
  const size_t out_at = image.add(nullptr, out_bytes);
  const size_t lse_out_at = merge.in_place ? lse_in_at : image.add(nullptr, lse_bytes);
  image.allowWrites(out_at, out_bytes);
  image.allowWrites(lse_out_at, lse_bytes);
  image.upload(memory, stream);

  xqaMergeArgs_t args = {};
  args.struct_size = sizeof(args);
  args.num_parts = merge.parts;
  args.head_dim = merge.dim;
  args.rows = merge.rows;
  args.partial_dtype = merge.partial_dtype;
  args.out_dtype = merge.out_dtype;
  args.partial_out = image.device<void>(partial_at);
  args.partial_lse = image.device<float>(lse_in_at);
  args.partial_out_stride = merge.padded ? parts.out_stride : 0;
  args.partial_lse_stride = merge.padded ? parts.lse_stride : 0;
  args.out = image.device<void>(out_at);
  args.lse = image.device<float>(lse_out_at);
  xqaDiagnostic_t diagnostic = {};
  diagnostic.struct_size = sizeof(diagnostic);
  ASSERT_EQ(xqaMergePartials(&args, stream, &diagnostic), XQA_STATUS_SUCCESS) << diagnostic.message;
  image.download(stream);
  ASSERT_EQ(image.firstDamage(), -1) << nameOf(merge) << " wrote where it must not";

  int64_t wrong = 0;
  for (int64_t row = 0; row < merge.rows; ++row) {
    float lse = 0.0f;
    std::memcpy(&lse, image.downloaded(lse_out_at) + static_cast<size_t>(row) * sizeof(lse),
                sizeof(lse));
    wrong += wrongInRow(merge, parts, row, image.downloaded(out_at), lse);
  }
  EXPECT_EQ(wrong, 0) << nameOf(merge);
}

TEST(Merge, AgainstDouble) {
  Dice dice(5);
  const Stream stream;
  DeviceBuffer memory;
  for (const int32_t parts : {1, 2, 3, 8, 33}) {
    for (const int64_t rows : {int64_t{1}, int64_t{5}, int64_t{700}}) {
      for (const int32_t dim : {8, 64, 128, 256, 264}) {
        const xqaDtype_t partial_dtype = dice.pick({XQA_DTYPE_F16, XQA_DTYPE_BF16, XQA_DTYPE_F32});
        for (const xqaDtype_t out_dtype :
             {XQA_DTYPE_F16, XQA_DTYPE_BF16, XQA_DTYPE_E4M3, XQA_DTYPE_F32}) {
          expectRight({parts, rows, dim, partial_dtype, out_dtype, dice.oneIn(2), dice.oneIn(2)},
                      &dice, stream, &memory);
        }
      }
    }
  }
  // More rows than a grid dimension holds.
  expectRight({2, 70000, 8, XQA_DTYPE_F32, XQA_DTYPE_F16, false, true}, &dice, stream, &memory);
}

// A sequence in two page ranges, each decoded on its own, is the sequence.
TEST(Merge, HalvesOfASequence) {
  constexpr int32_t kPage = 16;
  constexpr int32_t kSplitPages = 20;
  for (ProblemSpec spec : allFamilies()) {
    spec.page_tokens = kPage;
    spec.num_kv_heads = 2;
    spec.seq_lens = {1000, 321, 320, 40, 0};  // the later ones have nothing in the second half
    Worker worker;
    HostProblem problem = xqa::testing::buildProblem(spec);
    DeviceProblem on_device(&problem, &worker);
    const size_t out_bytes = problem.out.size();
    const size_t lse_bytes = problem.lse.size() * sizeof(float);
    const DeviceBuffer partial_out(2 * out_bytes);
    const DeviceBuffer partial_lse(2 * lse_bytes);
    std::vector<int32_t> lengths[2];
    for (const int32_t length : spec.seq_lens) {
      lengths[0].push_back(std::min(length, kSplitPages * kPage));
      lengths[1].push_back(std::max(0, length - kSplitPages * kPage));
    }
    const DeviceBuffer device_lengths(lengths[0].size() * sizeof(int32_t));
    const xqaDecodeArgs_t whole = on_device.args;
    const int32_t max_pages = problem.shape.max_pages;
    for (int half = 0; half < 2; ++half) {
      XQA_CUDA_CHECK(cudaMemcpyAsync(device_lengths.data(), lengths[half].data(),
                                     device_lengths.bytes(), cudaMemcpyHostToDevice,
                                     worker.stream));
      on_device.args.seq_lens = static_cast<const int32_t*>(device_lengths.data());
      on_device.args.page_table = whole.page_table + half * kSplitPages;
      problem.shape.max_pages = half == 0 ? kSplitPages : max_pages - kSplitPages;
      on_device.args.out = static_cast<uint8_t*>(partial_out.data()) + half * out_bytes;
      on_device.args.lse = static_cast<float*>(partial_lse.data()) + half * problem.lse.size();
      on_device.launch();
      worker.stream.synchronize();
    }
    problem.shape.max_pages = max_pages;

    xqaMergeArgs_t merge = {};
    merge.struct_size = sizeof(merge);
    merge.num_parts = 2;
    merge.head_dim = spec.head_dim;
    merge.rows = static_cast<int64_t>(problem.lse.size());
    merge.partial_dtype = spec.q_dtype;
    merge.partial_out = partial_out.data();
    merge.partial_lse = static_cast<const float*>(partial_lse.data());
    merge.out = whole.out;
    merge.lse = whole.lse;
    ASSERT_EQ(xqaMergePartials(&merge, worker.stream, nullptr), XQA_STATUS_SUCCESS);
    on_device.read();
    const std::string fault = on_device.judge();
    EXPECT_TRUE(fault.empty()) << "two halves: " << fault;
  }
}

TEST(Merge, Refusals) {
  const Stream stream;
  const DeviceBuffer memory(4096);
  xqaMergeArgs_t good = {};
  good.struct_size = sizeof(good);
  good.num_parts = 1;
  good.head_dim = 8;
  good.rows = 1;
  good.partial_dtype = XQA_DTYPE_F32;
  good.partial_out = memory.data();
  good.partial_lse = static_cast<const float*>(memory.data());
  good.out = memory.data();
  const auto status = [&](auto&& spoil) {
    xqaMergeArgs_t args = good;
    spoil(args);
    return xqaMergePartials(&args, stream, nullptr);
  };
  EXPECT_EQ(status([](xqaMergeArgs_t& a) { a.rows = 0; }), XQA_STATUS_SUCCESS);
  EXPECT_EQ(status([](xqaMergeArgs_t& a) { a.num_parts = 0; }), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(status([](xqaMergeArgs_t& a) { a.head_dim = 12; }), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(status([](xqaMergeArgs_t& a) { a.out = nullptr; }), XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(status([](xqaMergeArgs_t& a) { a.partial_dtype = XQA_DTYPE_E4M3; }),
            XQA_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(xqaMergePartials(nullptr, stream, nullptr), XQA_STATUS_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace gpu
