// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace tool {

int64_t parseInteger(const std::string& what, const std::string& text, int64_t minimum,
                     int64_t maximum) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < minimum || value > maximum) {
    throw UsageError(what + " is '" + text + "': it must be a whole number from " +
                     std::to_string(minimum) + " to " + std::to_string(maximum));
  }
  return value;
}

double parseDecimal(const std::string& what, const std::string& text, double minimum,
                    double maximum) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= minimum && value <= maximum)) {
    char range[80];
    std::snprintf(range, sizeof(range), "%g to %g", minimum, maximum);
    throw UsageError(what + " is '" + text + "': it must be a number from " + range);
  }
  return value;
}

bool parseBool(const std::string& what, const std::string& text) {
  if (text == "1" || text == "yes" || text == "true") return true;
  if (text == "0" || text == "no" || text == "false") return false;
  throw UsageError(what + " is '" + text + "': it must be 1 or 0");
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

bool Arguments::takeFlag(const std::string& name) {
  for (size_t i = 0; i < words_.size(); ++i) {
    if (words_[i] != name) continue;
    words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

std::optional<std::string> Arguments::takeOptionalValue(const std::string& name) {
  for (size_t i = 0; i < words_.size(); ++i) {
    const auto position = words_.begin() + static_cast<std::ptrdiff_t>(i);
    if (words_[i].rfind(name + "=", 0) == 0) {
      const std::string value = words_[i].substr(name.size() + 1);
      words_.erase(position);
      return value;
    }
    if (words_[i] != name) continue;
    if (i + 1 == words_.size() || words_[i + 1].rfind("--", 0) == 0) {
      words_.erase(position);
      return std::string();
    }
    const std::string value = words_[i + 1];
    words_.erase(position, position + 2);
    return value;
  }
  return std::nullopt;
}

std::optional<std::string> Arguments::takeValue(const std::string& name) {
  std::optional<std::string> value = takeOptionalValue(name);
  if (value && value->empty()) throw UsageError(name + " needs a value");
  return value;
}

void Arguments::finish() const {
  if (!words_.empty()) throw UsageError("unknown argument '" + words_.front() + "'");
}

}  // namespace tool
