// SPDX-License-Identifier: Apache-2.0
// The checks of xqaMergePartials.
#pragma once

#include "core/diagnostic.h"

namespace xqa {

// Checks a caller's arguments and resolves their defaults. With no rows the pointers are not
// judged.
xqaStatus_t checkMerge(const xqaMergeArgs_t* args, xqaMergeArgs_t* resolved,
                       Diagnostic& diagnostic);

}  // namespace xqa
