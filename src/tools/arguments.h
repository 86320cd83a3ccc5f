// SPDX-License-Identifier: Apache-2.0
// Command-line arguments and the two ways a command fails.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tool {

// The command line or a problem string is wrong: exit status 2.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The command is right and cannot be carried out: exit status 1.
class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Whole numbers and decimals without trailing text. `what` names the field in the message.
int64_t parseInteger(const std::string& what, const std::string& text, int64_t minimum,
                     int64_t maximum);
double parseDecimal(const std::string& what, const std::string& text, double minimum,
                    double maximum);
// 0 or 1, yes or no, true or false.
bool parseBool(const std::string& what, const std::string& text);

std::vector<std::string> split(const std::string& text, char separator);

// Options of a subcommand in the forms "--name value" and "--name=value". Commands take what they
// know; finish() refuses what is left.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {}

  bool takeFlag(const std::string& name);
  std::optional<std::string> takeValue(const std::string& name);
  // A value that may be left out: present without one gives an empty string.
  std::optional<std::string> takeOptionalValue(const std::string& name);
  void finish() const;

 private:
  std::vector<std::string> words_;
};

}  // namespace tool
