// SPDX-License-Identifier: Apache-2.0
// The check of a caller's xqaDeviceInfo_t.
#pragma once

#include "core/check.h"

namespace xqa {

inline xqaStatus_t readDevice(const xqaDeviceInfo_t* device, xqaDeviceInfo_t* known,
                              Diagnostic& diagnostic) {
  XQA_RETURN_IF_ERROR(readChecked("device", device, known, diagnostic));
  const struct {
    const char* name;
    int32_t value;
    int32_t minimum;
  } fields[] = {{"device ordinal", known->device, 0},
                {"device sm", known->sm, 1},
                {"device sm_count", known->sm_count, 1},
                {"device smem_per_block_bytes", known->smem_per_block_bytes, 1},
                {"device smem_per_sm_bytes", known->smem_per_sm_bytes, 1}};
  for (const auto& field : fields) {
    XQA_RETURN_IF_ERROR(checkAtLeast(field.name, field.value, field.minimum, diagnostic));
  }
  return checkReserved("device reserved", known->reserved, diagnostic);
}

}  // namespace xqa
