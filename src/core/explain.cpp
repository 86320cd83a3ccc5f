// SPDX-License-Identifier: Apache-2.0
#include "core/explain.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "core/device.h"
#include "core/kernels.h"

namespace xqa {
namespace {

// A caller's buffer that grows by printf and counts what it has no room for.
class Text {
 public:
  Text(char* text, size_t capacity) : text_(text), capacity_(text == nullptr ? 0 : capacity) {}

  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const bool room = length_ < capacity_;
    const int added = std::vsnprintf(room ? text_ + length_ : nullptr,
                                     room ? capacity_ - length_ : 0, format, arguments);
    va_end(arguments);
    if (added > 0) length_ += static_cast<size_t>(added);
  }

  size_t length() const { return length_; }

 private:
  char* text_;
  size_t capacity_;
  size_t length_ = 0;
};

const char* backendPrefix(xqaBackend_t backend) {
  switch (backend) {
    case XQA_BACKEND_HOST:
      return "host_";
    case XQA_BACKEND_MMA_SYNC:
      return "mma_sync_";
    case XQA_BACKEND_SM90:
      return "sm90_";
    default:
      return "";
  }
}

const char* dtypeText(xqaDtype_t dtype) {
  return dtype == XQA_DTYPE_F16 ? "f16" : dtype == XQA_DTYPE_BF16 ? "bf16" : "e4m3";
}

// The name that a variant with this key has or would have (codegen/variant.py has the grammar).
void addName(Text& text, const Key& key) {
  text.add("%sd%d_g%d_q%s_kv%s_m%s", backendPrefix(key.backend), key.head_dim, key.group_size,
           dtypeText(key.q_dtype), dtypeText(key.kv_dtype), dtypeText(key.math_dtype));
}

// A backend serves one compute capability or all from one up.
void addCapability(Text& text, const SmRange& range) {
  text.add("compute capability %d.%d%s", range.min / 10, range.min % 10,
           range.max == 0 ? " or more" : "");
}

bool matches(const Key& rule, const Key& key) {
  return (rule.backend == XQA_BACKEND_DEFAULT || rule.backend == key.backend) &&
         (rule.head_dim == 0 || rule.head_dim == key.head_dim) &&
         (rule.q_dtype == XQA_DTYPE_DEFAULT || rule.q_dtype == key.q_dtype) &&
         (rule.kv_dtype == XQA_DTYPE_DEFAULT || rule.kv_dtype == key.kv_dtype) &&
         (rule.math_dtype == XQA_DTYPE_DEFAULT || rule.math_dtype == key.math_dtype);
}

using SizeField = int32_t Key::*;  // head_dim or group_size

bool isBuilt(SizeField field, int32_t size) {
  for (uint32_t i = 0; i < kVariantCount; ++i) {
    if (unpackKey(kVariants[i].packed_key).*field == size) return true;
  }
  return false;
}

// "64, 128, 256 are" or "1 to 128 are": what the registry has of a field.
void addBuilt(Text& text, SizeField field) {
  bool built[kMaxKeySize + 2] = {};  // with a last one that ends every run
  int32_t largest = 0;
  for (uint32_t i = 0; i < kVariantCount; ++i) {
    const int32_t size = unpackKey(kVariants[i].packed_key).*field;
    built[size] = true;
    if (size > largest) largest = size;
  }
  int32_t sizes = 0;
  for (int32_t size = 1; size <= largest; ++size) {
    if (!built[size]) continue;
    text.add("%s%d", sizes == 0 ? "" : ", ", size);
    const int32_t first = size;
    while (built[size + 1]) ++size;
    if (size > first) text.add(" to %d", size);
    sizes += size - first + 1;
  }
  text.add(sizes == 1 ? " is" : " are");
}

// All reasons why no variant has the key, as clauses.
void addReasons(Text& text, const Key& key) {
  const char* separator = "";
  const struct {
    const char* name;
    SizeField field;
  } sizes[] = {{"head_dim", &Key::head_dim}, {"group_size", &Key::group_size}};
  for (const auto& size : sizes) {
    if (isBuilt(size.field, key.*size.field)) continue;
    text.add("%s%s %d is not built (", separator, size.name, key.*size.field);
    addBuilt(text, size.field);
    text.add(")");
    separator = "; ";
  }
  for (uint32_t i = 0; i < kExclusionRuleCount; ++i) {
    if (!matches(kExclusionRules[i].match, key)) continue;
    text.add("%s%s", separator, kExclusionRules[i].reason);
    separator = "; ";
  }
  if (separator[0] == '\0') text.add("XQA_VARIANTS left it out when the library was built");
}

// Sizes above the wanted one come before sizes below it, and of each the closest first.
uint64_t sizeDistance(int32_t wanted, int32_t size) {
  return static_cast<uint64_t>(size >= wanted ? size - wanted : kMaxKeySize + 1 + wanted - size);
}

// Fewest different fields, then the closest backend, head_dim and group_size.
uint64_t distance(const Key& wanted, const Key& key) {
  const int fields = int{key.backend != wanted.backend} + int{key.head_dim != wanted.head_dim} +
                     int{key.q_dtype != wanted.q_dtype} + int{key.kv_dtype != wanted.kv_dtype} +
                     int{key.math_dtype != wanted.math_dtype} +
                     int{key.group_size != wanted.group_size};
  return (static_cast<uint64_t>(fields) << 40) |
         (static_cast<uint64_t>(std::abs(key.backend - wanted.backend)) << 36) |
         (sizeDistance(wanted.head_dim, key.head_dim) << 18) |
         sizeDistance(wanted.group_size, key.group_size);
}

// The host backend serves every device, so there is always one.
void addNearest(Text& text, const Key& wanted, const xqaDeviceInfo_t* device) {
  const xqaVariant* nearest = nullptr;
  uint64_t least = UINT64_MAX;
  for (uint32_t i = 0; i < kVariantCount; ++i) {
    const Key key = unpackKey(kVariants[i].packed_key);
    if (device != nullptr && !serves(smRange(key), device->sm)) continue;
    const uint64_t candidate = distance(wanted, key);
    if (candidate < least) {
      least = candidate;
      nearest = &kVariants[i];
    }
  }
  text.add(". Nearest: %s.", nearest->name);
}

void addFound(Text& text, const xqaVariant& variant, const Key& wanted, bool has_device) {
  const Key key = unpackKey(variant.packed_key);
  if (key.backend != XQA_BACKEND_HOST && kernelFamily(variant.family) == nullptr) {
    text.add(
        "%s is listed but cannot be launched: this library was built without CUDA. Use the "
        "host backend or a library built with CUDA.",
        variant.name);
    return;
  }
  if (wanted.backend == XQA_BACKEND_DEFAULT) {
    addName(text, wanted);
    text.add(" is available as %s", variant.name);
  } else {
    text.add("%s is available", variant.name);
  }
  if (key.backend != XQA_BACKEND_HOST) {
    text.add(" for ");
    addCapability(text, smRange(key));
  } else if (wanted.backend == XQA_BACKEND_DEFAULT && !has_device) {
    text.add(", on host memory because no device is given");
  }
  text.add(".");
}

void addUnserved(Text& text, const Key& key, const xqaDeviceInfo_t* device) {
  addName(text, key);
  text.add(" does not run on this device: it needs ");
  addCapability(text, smRange(key));
  text.add(" and the device has %d.%d", device->sm / 10, device->sm % 10);
  addNearest(text, key, device);
}

void addMissing(Text& text, const Key& key, const xqaDeviceInfo_t* device) {
  addName(text, key);
  text.add(" is not in this library: ");
  addReasons(text, key);
  addNearest(text, key, device);
}

}  // namespace

size_t explainKey(const xqaVariantKey_t* key, const xqaDeviceInfo_t* device, char* text,
                  size_t capacity) {
  Text out(text, capacity);
  xqaDiagnostic_t fault = {};
  fault.struct_size = sizeof(fault);
  Diagnostic diagnostic(&fault);
  Key wanted;
  xqaDeviceInfo_t device_copy;
  if (readKey(key, &wanted, diagnostic) != XQA_STATUS_SUCCESS ||
      (device != nullptr && readDevice(device, &device_copy, diagnostic) != XQA_STATUS_SUCCESS)) {
    out.add("%s.", fault.message);
    return out.length();
  }
  const xqaDeviceInfo_t* const known_device = device != nullptr ? &device_copy : nullptr;

  const xqaVariant* found = nullptr;
  const xqaStatus_t status = findVariant(wanted, known_device, &found);
  if (status == XQA_STATUS_SUCCESS) {
    addFound(out, *found, wanted, known_device != nullptr);
    return out.length();
  }
  if (wanted.backend == XQA_BACKEND_DEFAULT) wanted.backend = defaultBackend(known_device);
  if (status == XQA_STATUS_ARCH_UNSUPPORTED) {
    addUnserved(out, wanted, known_device);
  } else {
    addMissing(out, wanted, known_device);
  }
  return out.length();
}

}  // namespace xqa
