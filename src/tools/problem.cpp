// SPDX-License-Identifier: Apache-2.0
#include "problem.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "arguments.h"
#include "formats.h"
#include "random.h"

namespace tool {
namespace {

constexpr int64_t kMaxLength = 1 << 24;

// Names of an enumeration in the order of its values.
template <typename Enum, size_t kCount>
Enum parseName(const std::string& what, const std::string& text,
               const char* const (&names)[kCount]) {
  std::string known;
  for (size_t i = 0; i < kCount; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
    known += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  throw UsageError(what + " is '" + text + "': it must be one of " + known);
}

constexpr const char* kLayoutNames[] = {"nhd", "hnd", "interleaved", "padded", "contiguous"};
constexpr const char* kMaskNames[] = {"causal", "full", "tree"};
constexpr const char* kBackendNames[] = {"default", "host", "mma_sync", "sm90"};

int32_t parseInt32(const char* key, const std::string& text, int64_t minimum, int64_t maximum) {
  return static_cast<int32_t>(parseInteger(key, text, minimum, maximum));
}

xqaDtype_t parseDtype(const std::string& what, const std::string& text) {
  const xqaDtype_t dtype = dtypeFromName(text);
  if (dtype == XQA_DTYPE_DEFAULT) {
    throw UsageError(what + " is '" + text + "': it must be one of f16, bf16, e4m3");
  }
  return dtype;
}

// A positive scale factor.
float parseFactor(const char* key, const std::string& text) {
  return static_cast<float>(parseDecimal(key, text, 1e-30, 1e30));
}

std::string decimalText(float value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.9g", static_cast<double>(value));
  return buffer;
}

struct Field {
  const char* key;
  const char* values;
  const char* meaning;
  void (*set)(ProblemSpec&, const char* key, const std::string& text);
  std::string (*get)(const ProblemSpec&);
};

// A field whose member is a plain integer, a factor, a flag or a dtype.
template <int32_t ProblemSpec::*kMember, int64_t kMinimum, int64_t kMaximum>
constexpr Field integerField(const char* key, const char* values, const char* meaning) {
  return {key, values, meaning,
          [](ProblemSpec& p, const char* k, const std::string& v) {
            p.*kMember = parseInt32(k, v, kMinimum, kMaximum);
          },
          [](const ProblemSpec& p) { return std::to_string(p.*kMember); }};
}

template <float ProblemSpec::*kMember>
constexpr Field factorField(const char* key, const char* meaning) {
  return {
      key, "X", meaning,
      [](ProblemSpec& p, const char* k, const std::string& v) { p.*kMember = parseFactor(k, v); },
      [](const ProblemSpec& p) { return decimalText(p.*kMember); }};
}

template <bool ProblemSpec::*kMember>
constexpr Field flagField(const char* key, const char* meaning) {
  return {key, "0|1", meaning,
          [](ProblemSpec& p, const char* k, const std::string& v) { p.*kMember = parseBool(k, v); },
          [](const ProblemSpec& p) { return std::string(p.*kMember ? "1" : "0"); }};
}

template <xqaDtype_t ProblemSpec::*kMember>
constexpr Field dtypeField(const char* key, const char* values, const char* meaning) {
  return {
      key, values, meaning,
      [](ProblemSpec& p, const char* k, const std::string& v) { p.*kMember = parseDtype(k, v); },
      [](const ProblemSpec& p) { return std::string(dtypeName(p.*kMember)); }};
}

const Field kFields[] = {
    integerField<&ProblemSpec::head_dim, 8, 1024>("d", "N", "head dimension (128)"),
    integerField<&ProblemSpec::group_size, 1, 65535>("g", "N", "query heads per KV head (8)"),
    integerField<&ProblemSpec::kv_heads, 1, 65535>("kv_heads", "N", "KV heads (8)"),
    integerField<&ProblemSpec::q_tokens, 1, 65535>("q", "N", "query tokens of a request (1)"),
    integerField<&ProblemSpec::batch, 1, 1 << 24>("batch", "N", "requests"),
    {"len", "N | N/N/... | A..B | uniform:A..B",
     "KV tokens of a request: one length, a list that repeats over the batch, or a random range, "
     "log-uniform unless it says uniform",
     [](ProblemSpec& p, const char*, const std::string& v) { p.lengths = Lengths::parse(v); },
     [](const ProblemSpec& p) { return p.lengths.text(); }},
    integerField<&ProblemSpec::page_tokens, 1, 1 << 24>("page", "N", "tokens of a page (64)"),
    {"layout", "nhd|hnd|interleaved|padded|contiguous",
     "memory order of the cache: [token, head, dim] or [head, token, dim] in a page, K and V side "
     "by side in a page, pages with a gap, or no pages at all (nhd)",
     [](ProblemSpec& p, const char* k, const std::string& v) {
       p.layout = parseName<CacheLayout>(k, v, kLayoutNames);
     },
     [](const ProblemSpec& p) { return std::string(layoutName(p.layout)); }},
    dtypeField<&ProblemSpec::q_dtype>("qdtype", "f16|bf16", "format of q (f16)"),
    dtypeField<&ProblemSpec::kv_dtype>("kv", "f16|bf16|e4m3", "format of the cache (that of q)"),
    dtypeField<&ProblemSpec::math_dtype>("math", "f16|bf16|e4m3",
                                         "operands of the matrix products (that of q)"),
    dtypeField<&ProblemSpec::out_dtype>("out", "f16|bf16|e4m3", "format of the output (that of q)"),
    integerField<&ProblemSpec::window, 0, kMaxLength>(
        "window", "N", "sliding window in tokens, the query's own counted; 0: none (0)"),
    factorField<&ProblemSpec::softmax_scale>("scale", "softmax scale (1 / sqrt(d))"),
    factorField<&ProblemSpec::softcap>("softcap", "logit cap (none)"),
    flagField<&ProblemSpec::sinks>("sinks", "a random sink for each query head (0)"),
    {"mask", "causal|full|tree", "what draft tokens see of each other; tree is random (causal)",
     [](ProblemSpec& p, const char* k, const std::string& v) {
       p.mask = parseName<DraftMask>(k, v, kMaskNames);
     },
     [](const ProblemSpec& p) { return std::string(kMaskNames[static_cast<int>(p.mask)]); }},
    flagField<&ProblemSpec::ragged>("ragged", "requests have 0 to q query tokens (0)"),
    factorField<&ProblemSpec::q_scale>("qscale", "scale of q (not passed)"),
    factorField<&ProblemSpec::k_scale>("kscale", "scale of K (not passed)"),
    factorField<&ProblemSpec::v_scale>("vscale", "scale of V (not passed)"),
    factorField<&ProblemSpec::out_scale>("oscale", "scale of the output (not passed)"),
    flagField<&ProblemSpec::per_head_scales>("perhead", "a scale for each KV head (0)"),
    flagField<&ProblemSpec::lse>("lse", "ask for the log-sum-exp and check it (0)"),
    flagField<&ProblemSpec::pdl>("pdl", "programmatic dependent launch (0)"),
    {"backend", "default|host|mma_sync|sm90", "whose variant (default: the library chooses)",
     [](ProblemSpec& p, const char* k, const std::string& v) {
       p.backend = parseName<xqaBackend_t>(k, v, kBackendNames);
     },
     [](const ProblemSpec& p) { return std::string(backendName(p.backend)); }},
    {"seed", "N", "of all random data (1)",
     [](ProblemSpec& p, const char* k, const std::string& v) {
       p.seed = static_cast<uint64_t>(parseInteger(k, v, 0, INT64_MAX));
     },
     [](const ProblemSpec& p) { return std::to_string(p.seed); }},
};

std::string fieldNames() {
  std::string names;
  for (const Field& field : kFields) names += (names.empty() ? "" : ", ") + std::string(field.key);
  return names;
}

// A dtype that is q's anyway is left to its default, so that equal problems are equal texts.
void normalise(ProblemSpec* spec) {
  for (xqaDtype_t* dtype : {&spec->kv_dtype, &spec->math_dtype, &spec->out_dtype}) {
    if (*dtype == spec->q_dtype) *dtype = XQA_DTYPE_DEFAULT;
  }
}

// Reads the number after a prefix of a key part; false if the part does not have that form.
bool numberAfter(const std::string& part, const std::string& prefix, int32_t* number) {
  if (part.size() <= prefix.size() || part.rfind(prefix, 0) != 0) return false;
  if (part.find_first_not_of("0123456789", prefix.size()) != std::string::npos) return false;
  *number = parseInt32(prefix.c_str(), part.substr(prefix.size()), 0, INT32_MAX);
  return true;
}

bool dtypeAfter(const std::string& part, const std::string& prefix, xqaDtype_t* dtype) {
  if (part.rfind(prefix, 0) != 0) return false;
  const xqaDtype_t found = dtypeFromName(part.substr(prefix.size()));
  if (found == XQA_DTYPE_DEFAULT) return false;
  *dtype = found;
  return true;
}

}  // namespace

std::vector<int32_t> Lengths::draw(int32_t batch, uint64_t seed) const {
  std::vector<int32_t> lengths(static_cast<size_t>(batch));
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (kind == Kind::kList) {
      lengths[i] = values[i % values.size()];
      continue;
    }
    const double low = values[0];
    const double span = values[1] + 1.0 - low;
    const double u = randomUniform(seed, i);
    const double length = kind == Kind::kUniform
                              ? low + u * span
                              : (low + 1) * std::pow((values[1] + 2.0) / (low + 1), u) - 1;
    lengths[i] = std::min(static_cast<int32_t>(length), values[1]);
  }
  return lengths;
}

std::string Lengths::text() const {
  if (kind == Kind::kUnset) return "";
  std::string text = kind == Kind::kUniform ? "uniform:" : "";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : kind == Kind::kList ? "/" : "..") + std::to_string(values[i]);
  }
  return text;
}

Lengths Lengths::parse(const std::string& text) {
  Lengths lengths;
  constexpr const char* kUniformPrefix = "uniform:";
  const bool uniform = text.rfind(kUniformPrefix, 0) == 0;
  const std::string body = uniform ? text.substr(std::string(kUniformPrefix).size()) : text;
  const size_t dots = body.find("..");
  if (dots == std::string::npos) {
    if (uniform) throw UsageError("len is '" + text + "': a range is written uniform:A..B");
    lengths.kind = Kind::kList;
    for (const std::string& part : split(body, '/')) {
      lengths.values.push_back(parseInt32("len", part, 0, kMaxLength));
    }
    return lengths;
  }
  lengths.kind = uniform ? Kind::kUniform : Kind::kLogUniform;
  lengths.values = {parseInt32("len", body.substr(0, dots), 0, kMaxLength),
                    parseInt32("len", body.substr(dots + 2), 0, kMaxLength)};
  if (lengths.values[0] > lengths.values[1]) {
    throw UsageError("len is '" + text + "': the range is empty");
  }
  return lengths;
}

xqaVariantKey_t ProblemSpec::key() const {
  xqaVariantKey_t key = {};
  key.struct_size = sizeof(key);
  key.head_dim = head_dim;
  key.group_size = group_size;
  key.q_dtype = q_dtype;
  key.kv_dtype = kv_dtype;
  key.math_dtype = math_dtype;
  key.backend = backend;
  return key;
}

void applyProblem(const std::string& text, ProblemSpec* spec) {
  std::set<std::string> seen;
  for (const std::string& pair : split(text, ',')) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      throw UsageError("problem '" + text + "': '" + pair + "' is not of the form key=value");
    }
    const std::string key = pair.substr(0, equals);
    const Field* found = nullptr;
    for (const Field& field : kFields) {
      if (key == field.key) found = &field;
    }
    if (found == nullptr) {
      throw UsageError("problem '" + text + "': unknown key '" + key + "'; the keys are " +
                       fieldNames());
    }
    if (!seen.insert(key).second) {
      throw UsageError("problem '" + text + "': key '" + key + "' is given twice");
    }
    found->set(*spec, found->key, pair.substr(equals + 1));
  }
  normalise(spec);
}

std::string problemText(const ProblemSpec& spec) {
  static const std::set<std::string> kAlways = {"d", "g", "kv_heads"};
  const ProblemSpec defaults;
  std::string text;
  for (const Field& field : kFields) {
    const std::string value = field.get(spec);
    if (value == field.get(defaults) && kAlways.count(field.key) == 0) continue;
    text += (text.empty() ? "" : ",") + std::string(field.key) + "=" + value;
  }
  return text;
}

std::string problemHelp() {
  std::string help = "A problem is key=value pairs separated by commas, defaults in brackets:\n";
  for (const Field& field : kFields) {
    constexpr size_t kColumns = 98;
    const std::string indent(26, ' ');
    std::string line = "  " + std::string(field.key) + "=" + field.values;
    if (line.size() + 2 > indent.size()) {
      help += line + "\n";
      line.clear();
    }
    line.resize(indent.size(), ' ');
    for (const std::string& word : split(field.meaning, ' ')) {
      if (line.size() + word.size() > kColumns) {
        line.pop_back();
        help += line + "\n";
        line = indent;
      }
      line += word + " ";
    }
    line.pop_back();
    help += line + "\n";
  }
  return help;
}

const char* layoutName(CacheLayout layout) { return kLayoutNames[static_cast<int>(layout)]; }

const char* backendName(xqaBackend_t backend) { return kBackendNames[static_cast<int>(backend)]; }

xqaVariantKey_t parseKey(const std::string& text) {
  xqaVariantKey_t key = {};
  key.struct_size = sizeof(key);
  std::string rest = text;
  for (int i = 1; i < 4; ++i) {
    const std::string name = kBackendNames[i];
    if (rest.rfind(name, 0) != 0 ||
        (rest.size() > name.size() && rest[name.size()] != '_' && rest[name.size()] != ',')) {
      continue;
    }
    key.backend = static_cast<xqaBackend_t>(i);
    rest.erase(0, std::min(rest.size(), name.size() + 1));
    break;
  }
  for (char& c : rest) {
    if (c == '_') c = ',';
  }
  for (const std::string& part : split(rest, ',')) {
    if (numberAfter(part, "d", &key.head_dim) || numberAfter(part, "g", &key.group_size) ||
        dtypeAfter(part, "q", &key.q_dtype) || dtypeAfter(part, "kv", &key.kv_dtype) ||
        dtypeAfter(part, "m", &key.math_dtype)) {
      continue;
    }
    throw UsageError("key '" + text + "': '" + part +
                     "' is not a part of a key; write for example d128,g8,qf16,kve4m3,mf16 or a "
                     "variant's name");
  }
  if (key.head_dim == 0 || key.group_size == 0 || key.q_dtype == XQA_DTYPE_DEFAULT) {
    throw UsageError("key '" + text + "': d, g and q are required, as in d128,g8,qf16");
  }
  return key;
}

}  // namespace tool
