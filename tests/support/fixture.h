// SPDX-License-Identifier: Apache-2.0
// The problems and results that oracle.py wrote, as arguments of the C API.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "xqa/xqa.h"

namespace xqa::testing {

struct Fixture {
  std::string name;
  xqaVariantKey_t key = {};
  xqaDecodeShape_t shape = {};
  int64_t total_rows = 0;  // (request, query token) pairs
  int64_t v_offset = 0;    // elements from the start of its pool to V
  // By the names of xqaDecodeArgs_t; k_pool holds V too if there is no v_pool. out and lse are the
  // expected results, packed [total_rows, num_q_heads, head_dim].
  std::map<std::string, std::vector<uint8_t>> buffers;

  // Inputs only: out and lse stay NULL.
  xqaDecodeArgs_t inputArgs() const;
};

// How GoogleTest names a fixture.
inline void PrintTo(const Fixture& fixture, std::ostream* stream) { *stream << fixture.name; }

// All fixtures of a directory, in the order of its index. Throws std::runtime_error on a fault.
std::vector<Fixture> loadFixtures(const std::string& directory);

}  // namespace xqa::testing
