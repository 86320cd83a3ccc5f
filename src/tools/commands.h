// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each returns the exit status.
#pragma once

#include "arguments.h"

namespace tool {

int infoCommand(Arguments arguments);
int runCommand(Arguments arguments);
int benchCommand(Arguments arguments);

const char* infoHelp();
const char* runHelp();
const char* benchHelp();

}  // namespace tool
