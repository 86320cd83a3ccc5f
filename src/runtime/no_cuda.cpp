// SPDX-License-Identifier: Apache-2.0
// The run time of builds without a CUDA toolkit: there is no kernel and no device.
#include "runtime/runtime.h"

namespace xqa {
namespace {

xqaStatus_t noCuda(Diagnostic& diagnostic) {
  return diagnostic.fail(XQA_STATUS_NO_DEVICE,
                         "this library was built without CUDA: it has the host backend only");
}

}  // namespace

const KernelFamily* kernelFamily(int16_t) { return nullptr; }

const char* kernelArchitectures() { return "none"; }

xqaStatus_t queryDevice(int32_t, xqaDeviceInfo_t*, Diagnostic& diagnostic) {
  return noCuda(diagnostic);
}

xqaStatus_t prepareFamily(const KernelFamily&, int32_t, Diagnostic& diagnostic) {
  return noCuda(diagnostic);
}

size_t decodeWorkspaceBytes(const KernelFamily&, const xqaDeviceInfo_t&, const Problem&) {
  return 0;
}

xqaStatus_t launchDecode(const KernelFamily&, const xqaDeviceInfo_t&, const Problem&, xqaStream_t,
                         Diagnostic& diagnostic) {
  return noCuda(diagnostic);
}

xqaStatus_t launchMerge(const xqaMergeArgs_t&, xqaStream_t, Diagnostic& diagnostic) {
  return noCuda(diagnostic);
}

}  // namespace xqa
