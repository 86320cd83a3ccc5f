// SPDX-License-Identifier: Apache-2.0
// The kernels that merge partial results, for the launch code.
#pragma once

#include "core/kernels.h"
#include "xqa/xqa.h"

namespace xqa {

KernelFunction combineKernel();
using MergeFunction = void (*)(xqaMergeArgs_t);
MergeFunction mergeKernel();

constexpr int kCombineThreads = 128;
constexpr int kMergeThreads = 128;

}  // namespace xqa
