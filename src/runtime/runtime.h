// SPDX-License-Identifier: Apache-2.0
// Everything that talks to CUDA. Builds without a toolkit link src/runtime/no_cuda.cpp instead.
#pragma once

#include "core/kernels.h"
#include "core/problem.h"

namespace xqa {

// The public xqaDeviceInfo_t of a device ordinal.
xqaStatus_t queryDevice(int32_t device, xqaDeviceInfo_t* info, Diagnostic& diagnostic);

// Loads all kernels of a family into the device's context; the current device is restored.
xqaStatus_t prepareFamily(const KernelFamily& family, int32_t device, Diagnostic& diagnostic);

// Bytes of workspace that launchDecode needs; the problem's tensors are not read.
size_t decodeWorkspaceBytes(const KernelFamily& family, const xqaDeviceInfo_t& device,
                            const Problem& problem);

// Launches a checked problem. The workspace has been checked against decodeWorkspaceBytes.
xqaStatus_t launchDecode(const KernelFamily& family, const xqaDeviceInfo_t& device,
                         const Problem& problem, xqaStream_t stream, Diagnostic& diagnostic);

// Launches a merge whose arguments have been checked and whose defaults have been resolved.
xqaStatus_t launchMerge(const xqaMergeArgs_t& args, xqaStream_t stream, Diagnostic& diagnostic);

}  // namespace xqa
