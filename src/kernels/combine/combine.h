// SPDX-License-Identifier: Apache-2.0
// The kernels that merge partial results, for the launch code.
#pragma once

#include "core/kernels.h"
#include "xqa/xqa.h"

namespace xqa {

KernelFunction combineFewKernel();
KernelFunction combineManyKernel();
using MergeFunction = void (*)(xqaMergeArgs_t);
MergeFunction mergeKernel();

constexpr int kCombineFewThreads = 512;
constexpr int kCombineManyThreads = 256;
constexpr int kFewItems =
    16;  // up to here combineFew; its index arithmetic relies on at most 128 requests
constexpr int kMaxGrid = 1024;  // blocks of a decode kernel: an item has at most one part of each
constexpr int kMergeThreads = 128;

}  // namespace xqa
