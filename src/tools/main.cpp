// SPDX-License-Identifier: Apache-2.0
// xqa: the command line of libxqa, over its public API alone.
#include <cstdio>
#include <exception>

#include "commands.h"
#include "problem.h"

namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(tool::Arguments);
  const char* (*help)();
  bool takes_problem;
};

constexpr Command kCommands[] = {
    {"info", "library, device and variants", tool::infoCommand, tool::infoHelp, false},
    {"run", "compute problems and check the results", tool::runCommand, tool::runHelp, true},
    {"bench", "measure problems", tool::benchCommand, tool::benchHelp, true},
};

constexpr int kUsageStatus = 2;

void printHelp(FILE* to) {
  std::fprintf(to, "xqa: decode attention on this machine, through libxqa\n\n");
  for (const Command& command : kCommands) {
    std::fprintf(to, "  xqa %-6s %s\n", command.name, command.summary);
  }
  std::fprintf(to, "\nxqa COMMAND --help tells more. xqa --version prints the version.\n");
}

int runCommand(const Command& command, tool::Arguments arguments) {
  if (arguments.takeFlag("--help")) {
    std::fputs(command.help(), stdout);
    if (command.takes_problem) std::fputs(tool::problemHelp().c_str(), stdout);
    return 0;
  }
  return command.run(std::move(arguments));
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    printHelp(stderr);
    return kUsageStatus;
  }
  if (words[0] == "--help" || words[0] == "help") {
    printHelp(stdout);
    return 0;
  }
  if (words[0] == "--version") {
    const uint32_t version = xqaGetVersion();
    std::printf("xqa %u.%u.%u\n", version / 10000, version / 100 % 100, version % 100);
    return 0;
  }
  for (const Command& command : kCommands) {
    if (words[0] == command.name) {
      return runCommand(command, tool::Arguments({words.begin() + 1, words.end()}));
    }
  }
  throw tool::UsageError("unknown command '" + words[0] + "'; the commands are info, run, bench");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch({argv + 1, argv + argc});
  } catch (const tool::UsageError& error) {
    std::fprintf(stderr, "xqa: %s\n", error.what());
    return kUsageStatus;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "xqa: %s\n", error.what());
    return 1;
  }
}
