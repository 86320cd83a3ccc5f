// SPDX-License-Identifier: Apache-2.0
// Number formats, scales, NaN, infinity, large logits and long sums.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "dice.h"
#include "reference/dtype.h"

namespace gpu {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

void expectRight(DeviceProblem* on_device) {
  const std::string fault = on_device->judge();
  if (!fault.empty()) ADD_FAILURE() << fault;
}

void* keys(const HostProblem& problem) { return const_cast<void*>(problem.args.k_cache); }
void* values(const HostProblem& problem) { return const_cast<void*>(problem.args.v_cache); }
void* queries(const HostProblem& problem) { return const_cast<void*>(problem.args.q); }

// Visits (request, token, kv_head) of all tokens that a row sees.
template <typename Visit>
void forEachVisible(const HostProblem& problem, Visit&& visit) {
  for (int32_t b = 0; b < problem.batch(); ++b) {
    for (int32_t t = 0; t < problem.lengthOf(b); ++t) {
      if (!problem.visibleToAny(b, t)) continue;
      for (int32_t h = 0; h < problem.spec.num_kv_heads; ++h) visit(b, t, h);
    }
  }
}

template <typename Visit>
void forEachRow(const HostProblem& problem, Visit&& visit) {
  for (int32_t b = 0; b < problem.batch(); ++b) {
    for (int32_t i = 0; i < problem.rowsOf(b); ++i) {
      for (int32_t h = 0; h < problem.shape.num_q_heads; ++h) visit(b, i, h);
    }
  }
}

// With one key the output is V: every code of the cache's format must come through.
TEST(Numerics, EveryCodeOfV) {
  const std::vector<ProblemSpec> families = allFamilies();
  forEachCase(families.size(), [&](size_t f, Worker& worker) {
    ProblemSpec spec = families[f];
    spec.num_kv_heads = 4;
    const bool e4m3 = spec.kv_dtype == XQA_DTYPE_E4M3;
    const int32_t codes = e4m3 ? 256 : 65536;
    spec.seq_lens.assign(static_cast<size_t>(std::max(1, codes / (4 * spec.head_dim))), 1);
    spec.group_size = 2;
    HostProblem problem = xqa::testing::buildProblem(spec);
    forEachVisible(problem, [&](int32_t b, int32_t t, int32_t h) {
      for (int32_t d = 0; d < spec.head_dim; ++d) {
        const int32_t code = ((b * 4 + h) * spec.head_dim + d) % codes;
        const int64_t at = problem.valueOffset(b, t, h) + d;
        if (e4m3) static_cast<uint8_t*>(values(problem))[at] = static_cast<uint8_t>(code);
        if (!e4m3) static_cast<uint16_t*>(values(problem))[at] = static_cast<uint16_t>(code);
      }
    });
    DeviceProblem on_device(&problem, &worker);
    const Outputs outputs = on_device.run();
    int32_t wrong = 0;
    forEachRow(problem, [&](int32_t b, int32_t i, int32_t h) {
      for (int32_t d = 0; d < spec.head_dim; ++d) {
        const double v = xqa::loadElement(spec.kv_dtype, values(problem),
                                          problem.valueOffset(b, 0, h / spec.group_size) + d);
        const double out =
            xqa::loadElement(spec.q_dtype, outputs.out.data(), problem.outOffset(b, i, h) + d);
        if (std::isnan(v) ? !std::isnan(out) : out != v) ++wrong;
      }
    });
    EXPECT_EQ(wrong, 0) << "codes of V that do not come through: " << on_device.reproduction();
    expectRight(&on_device);
  });
}

// With one key and a query of one 1 the log-sum-exp is that element of K.
TEST(Numerics, EveryCodeOfAnE4m3Key) {
  for (ProblemSpec spec : allFamilies()) {
    if (spec.kv_dtype != XQA_DTYPE_E4M3) continue;
    spec.group_size = 4;
    spec.softmax_scale = 1.0f;
    spec.seq_lens.assign(256, 1);
    Worker worker;
    HostProblem problem = xqa::testing::buildProblem(spec);
    forEachRow(problem, [&](int32_t b, int32_t i, int32_t h) {
      problem.setQuery(b, i, h, 0.0);
      const int64_t element = problem.queryOffset(b, i, h) + b % spec.head_dim;
      xqa::storeElement(spec.q_dtype, queries(problem), element, 1.0);
    });
    forEachVisible(problem, [&](int32_t b, int32_t t, int32_t h) {
      problem.setKey(b, t, h, 0.0);
      static_cast<uint8_t*>(keys(problem))[problem.keyOffset(b, t, h) + b % spec.head_dim] =
          static_cast<uint8_t>(b);
    });
    DeviceProblem on_device(&problem, &worker);
    const Outputs outputs = on_device.run();
    for (uint32_t code = 0; code < 256; ++code) {
      float lse = 0.0f;
      std::memcpy(&lse, outputs.lse.data() + code * 4 * sizeof(float), sizeof(lse));
      const double key = xqa::E4m3::decode(code);
      if (std::isnan(key)) {
        EXPECT_TRUE(std::isnan(lse)) << "code " << code << ": " << on_device.reproduction();
      } else {
        EXPECT_NEAR(lse, key, 1e-5 * std::fabs(key))
            << "code " << code << ": " << on_device.reproduction();
      }
    }
    expectRight(&on_device);
  }
}

TEST(Numerics, Scales) {
  std::vector<ProblemSpec> specs;
  for (const ProblemSpec& family : allFamilies()) {
    for (const float scale : {0.37f, 1.9f, 0.11f}) {
      for (float ProblemSpec::*const member : {&ProblemSpec::q_scale, &ProblemSpec::k_scale,
                                               &ProblemSpec::v_scale, &ProblemSpec::out_scale}) {
        for (const bool per_head : {false, true}) {
          ProblemSpec spec = family;
          spec.*member = scale;
          spec.per_head_scales = per_head;
          spec.num_kv_heads = 3;
          spec.softmax_scale = 0.3f;
          spec.seq_lens = {70, 1, 515};
          spec.seed = specs.size();
          specs.push_back(spec);
        }
      }
    }
  }
  expectLikeReference(specs);
}

TEST(Numerics, OutlierChannelsOfK) {
  const std::vector<ProblemSpec> families = allFamilies();
  forEachCase(families.size(), [&](size_t f, Worker& worker) {
    ProblemSpec spec = families[f];
    spec.seq_lens = {70, 700};
    HostProblem problem = xqa::testing::buildProblem(spec);
    forEachVisible(problem, [&](int32_t b, int32_t t, int32_t h) {
      for (const int32_t channel : {5, 41}) {
        const double outlier = (100 + t * 37 % 300) * (channel == 5 ? 1.0 : -1.0);
        xqa::storeElement(spec.kv_dtype, keys(problem), problem.keyOffset(b, t, h) + channel,
                          outlier);
      }
    });
    DeviceProblem on_device(&problem, &worker);
    on_device.run();
    expectRight(&on_device);
  });
}

// Compares a run with a clean one: what may be NaN must be NaN, everything else has the same bits.
// mayDiffer(b, i, h, d): whether an element must be NaN.
template <typename MustBeNan>
void expectNanOnlyWhere(const DeviceProblem& on_device, const HostProblem& problem,
                        const Outputs& clean, const Outputs& found, MustBeNan&& must_be_nan) {
  int64_t wrong = 0;
  forEachRow(problem, [&](int32_t b, int32_t i, int32_t h) {
    for (int32_t d = 0; d < problem.spec.head_dim; ++d) {
      const int64_t at = problem.outOffset(b, i, h) + d;
      const size_t byte = static_cast<size_t>(at) * 2;
      const bool right =
          must_be_nan(b, i, h, d)
              ? std::isnan(xqa::loadElement(problem.spec.q_dtype, found.out.data(), at))
              : std::memcmp(clean.out.data() + byte, found.out.data() + byte, 2) == 0;
      if (!right) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0) << "elements are NaN or changed where they must not be, or the reverse: "
                      << on_device.reproduction();
}

ProblemSpec draftSpec(ProblemSpec family, size_t index) {
  family.group_size = index % 2 == 0 ? 3 : 8;
  family.num_kv_heads = 2;
  family.q_tokens = 4;
  family.mask = index % 3 == 0 ? DraftMask::kTree : DraftMask::kCausal;
  family.seq_lens = {90, 200, 4};
  family.seed = index;
  return family;
}

TEST(Numerics, NanInAVisibleKeyOrValue) {
  const std::vector<ProblemSpec> families = allFamilies();
  constexpr int32_t kHead = 1;
  constexpr int32_t kColumn = 19;
  forEachCase(families.size() * 8, [&](size_t c, Worker& worker) {
    const int32_t request = c % 2 == 0 ? 1 : 2;
    const bool in_key = c / 2 % 2 == 0;
    const int32_t from_end = c / 4 % 2 == 0 ? 2 : 4;  // draft tokens 2 and 0
    const ProblemSpec spec = draftSpec(families[c / 8], c);
    HostProblem problem = xqa::testing::buildProblem(spec);
    const Outputs clean = DeviceProblem(&problem, &worker).run();
    const int32_t token = problem.lengthOf(request) - from_end;
    if (in_key) problem.setKey(request, token, kHead, kNan);
    if (!in_key) {
      xqa::storeElement(spec.kv_dtype, values(problem),
                        problem.valueOffset(request, token, kHead) + kColumn, kNan);
    }
    DeviceProblem on_device(&problem, &worker);
    const Outputs found = on_device.run();
    expectNanOnlyWhere(on_device, problem, clean, found,
                       [&](int32_t b, int32_t i, int32_t h, int32_t d) {
                         return b == request && h / spec.group_size == kHead &&
                                problem.visible(b, i, token) && (in_key || d == kColumn);
                       });
    expectRight(&on_device);
  });
}

TEST(Numerics, InfiniteLogit) {
  const std::vector<ProblemSpec> families = allFamilies();
  forEachCase(families.size(), [&](size_t f, Worker& worker) {
    const ProblemSpec spec = draftSpec(families[f], f);
    HostProblem problem = xqa::testing::buildProblem(spec);
    forEachVisible(problem, [&](int32_t b, int32_t t, int32_t h) {
      xqa::storeElement(spec.kv_dtype, keys(problem), problem.keyOffset(b, t, h), 1.0);
    });
    const Outputs clean = DeviceProblem(&problem, &worker).run();
    constexpr int32_t kRequest = 1, kQueryToken = 2, kHead = 4;
    xqa::storeElement(spec.q_dtype, queries(problem),
                      problem.queryOffset(kRequest, kQueryToken, kHead), kInf);
    DeviceProblem on_device(&problem, &worker);
    const Outputs found = on_device.run();
    expectNanOnlyWhere(on_device, problem, clean, found,
                       [&](int32_t b, int32_t i, int32_t h, int32_t) {
                         return b == kRequest && i == kQueryToken && h == kHead;
                       });
    expectRight(&on_device);

    // An infinite key: the rows of positive logit become NaN, those of negative logit do not see
    // it.
    if (spec.kv_dtype == XQA_DTYPE_E4M3) return;
    HostProblem infinite_key = xqa::testing::buildProblem(spec);
    xqa::storeElement(spec.kv_dtype, keys(infinite_key), infinite_key.keyOffset(0, 7, 1), kInf);
    DeviceProblem second(&infinite_key, &worker);
    second.run();
    expectRight(&second);
  });
}

// Small whole numbers beside one large product: the logits of a row differ by the same amounts
// whatever the large product is, and all sums are exact in f32.
TEST(Numerics, ShiftedLogits) {
  const std::vector<ProblemSpec> families = allFamilies();
  forEachCase(families.size(), [&](size_t f, Worker& worker) {
    ProblemSpec spec = families[f];
    spec.softmax_scale = 0.125f;
    spec.seq_lens = {1, 70, 530};
    const auto run = [&](double query, std::vector<double>* rows) {
      HostProblem problem = xqa::testing::buildProblem(spec);
      const auto whole = [&](xqaDtype_t dtype, void* array, int64_t first) {
        for (int64_t d = first; d < first + spec.head_dim; ++d) {
          const double rounded = std::round(2 * xqa::loadElement(dtype, array, d));
          xqa::storeElement(dtype, array, d, std::fmin(2.0, std::fmax(-2.0, rounded)));
        }
      };
      forEachVisible(problem, [&](int32_t b, int32_t t, int32_t h) {
        whole(spec.kv_dtype, keys(problem), problem.keyOffset(b, t, h));
        xqa::storeElement(spec.kv_dtype, keys(problem), problem.keyOffset(b, t, h), 256.0);
      });
      forEachRow(problem, [&](int32_t b, int32_t i, int32_t h) {
        whole(spec.q_dtype, queries(problem), problem.queryOffset(b, i, h));
        xqa::storeElement(spec.q_dtype, queries(problem), problem.queryOffset(b, i, h), query);
      });
      DeviceProblem on_device(&problem, &worker);
      *rows = problem.outRows(on_device.run().out.data());
      expectRight(&on_device);
    };
    std::vector<double> plain, shifted;
    run(0.0, &plain);
    for (const double query : {312.0, -312.0}) {  // 312 * 256 / 8 = 9984
      run(query, &shifted);
      double largest = 0.0;
      for (size_t i = 0; i < plain.size(); ++i) {
        largest = std::fmax(largest, std::fabs(shifted[i] - plain[i]));
      }
      EXPECT_LE(largest, 4 * errorBound(spec.q_dtype)) << "family " << f << " query " << query;
    }
  });
}

// V of mean 1 and a needle: neither error may grow with the length.
TEST(Numerics, LongContext) {
  const std::vector<ProblemSpec> families = allFamilies();
  forEachCase(families.size() * 3, [&](size_t c, Worker& worker) {
    ProblemSpec spec = families[c / 3];
    spec.group_size = 4;
    const int32_t length = c % 3 == 0 ? 131072 : c % 3 == 1 ? 32768 : 4096;
    spec.seq_lens = {length};
    HostProblem problem = xqa::testing::buildProblem(spec);
    forEachVisible(problem, [&](int32_t b, int32_t t, int32_t h) {
      const int64_t row = problem.valueOffset(b, t, h);
      for (int64_t d = row; d < row + spec.head_dim; ++d) {
        const double value = xqa::loadElement(spec.kv_dtype, values(problem), d);
        xqa::storeElement(spec.kv_dtype, values(problem), d, 1.0 + value);
      }
    });
    const int32_t needle = length / 3;
    for (int32_t d = 0; d < spec.head_dim; ++d) {
      const double query =
          xqa::loadElement(spec.q_dtype, queries(problem), problem.queryOffset(0, 0, 0) + d);
      xqa::storeElement(spec.kv_dtype, keys(problem), problem.keyOffset(0, needle, 0) + d, query);
    }
    problem.setValue(0, needle, 0, 8.0);
    DeviceProblem on_device(&problem, &worker);
    on_device.run();
    expectRight(&on_device);
  });
}

}  // namespace
}  // namespace gpu
