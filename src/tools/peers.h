// SPDX-License-Identifier: Apache-2.0
// Times of other libraries' kernels on the same problems, from a CSV file.
#pragma once

#include <string>
#include <vector>

#include "problem.h"

namespace tool {

struct PeerTime {
  std::string problem;  // as problemText writes it
  std::string kernel;
  double microseconds;
};

// Lines "microseconds,kernel,problem" after a header of these names; # begins a comment. The
// problem is the rest of the line, commas included.
std::vector<PeerTime> readPeers(const std::string& path);

// The fastest kernel on a problem, by whatever arithmetic; NULL if none was measured. Backend, math
// and launch mode are the library's own choices and not compared.
const PeerTime* fastestPeer(const std::vector<PeerTime>& peers, const ProblemSpec& spec);

// Problems of a file, one a line; # begins a comment.
std::vector<ProblemSpec> readProblems(const std::string& path);

}  // namespace tool
