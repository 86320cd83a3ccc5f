// SPDX-License-Identifier: Apache-2.0
#include "peers.h"

#include <algorithm>
#include <fstream>

#include "arguments.h"

namespace tool {
namespace {

struct Line {
  std::string where;  // "file:number"
  std::string text;   // without comment and surrounding blanks; never empty
};

std::vector<Line> readLines(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UsageError("cannot read '" + path + "'");
  std::vector<Line> lines;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    text.erase(std::min(text.size(), text.find('#')));
    const size_t first = text.find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    text = text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
    lines.push_back({path + ":" + std::to_string(number), text});
  }
  return lines;
}

ProblemSpec parseLine(const Line& line, const std::string& problem) {
  ProblemSpec spec;
  try {
    applyProblem(problem, &spec);
  } catch (const UsageError& error) {
    throw UsageError(line.where + ": " + error.what());
  }
  return spec;
}

// What makes two measurements comparable.
std::string comparableText(ProblemSpec spec) {
  const ProblemSpec defaults;
  spec.backend = defaults.backend;
  spec.math_dtype = defaults.math_dtype;
  spec.pdl = defaults.pdl;
  // The seed of a range decides how many tokens there are.
  if (spec.lengths.kind == Lengths::Kind::kList) spec.seed = defaults.seed;
  return problemText(spec);
}

}  // namespace

std::vector<ProblemSpec> readProblems(const std::string& path) {
  std::vector<ProblemSpec> problems;
  for (const Line& line : readLines(path)) problems.push_back(parseLine(line, line.text));
  if (problems.empty()) throw UsageError("'" + path + "' holds no problem");
  return problems;
}

std::vector<PeerTime> readPeers(const std::string& path) {
  constexpr const char* kHeader = "microseconds,kernel,problem";
  const std::vector<Line> lines = readLines(path);
  if (lines.empty() || lines[0].text != kHeader) {
    throw UsageError("'" + path + "' does not begin with the header " + kHeader);
  }
  std::vector<PeerTime> peers;
  for (size_t i = 1; i < lines.size(); ++i) {
    const Line& line = lines[i];
    const size_t kernel = line.text.find(',') + 1;
    const size_t problem = line.text.find(',', kernel) + 1;
    if (kernel == 0 || problem == 0) {
      throw UsageError(line.where + ": a line is " + std::string(kHeader));
    }
    peers.push_back(
        {comparableText(parseLine(line, line.text.substr(problem))),
         line.text.substr(kernel, problem - 1 - kernel),
         parseDecimal(line.where + ": microseconds", line.text.substr(0, kernel - 1), 1e-3, 1e9)});
  }
  return peers;
}

const PeerTime* fastestPeer(const std::vector<PeerTime>& peers, const ProblemSpec& spec) {
  const std::string problem = comparableText(spec);
  const PeerTime* fastest = nullptr;
  for (const PeerTime& peer : peers) {
    if (peer.problem != problem) continue;
    if (fastest == nullptr || peer.microseconds < fastest->microseconds) fastest = &peer;
  }
  return fastest;
}

}  // namespace tool
