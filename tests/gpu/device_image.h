// SPDX-License-Identifier: Apache-2.0
// All buffers of a call in one piece of device memory, between guard zones, uploaded and read back
// whole: a call may change the bytes it was told to write and no others.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_objects.h"

namespace gpu {

class DeviceImage {
 public:
  // What nobody has set: NaN as f16, bf16, e4m3 and f32, -1 as an index.
  static constexpr unsigned char kPoison = 0xFF;

  // Adds a buffer and gives its offset. data == NULL: poison.
  size_t add(const void* data, size_t bytes) {
    const size_t offset = before_.size();
    before_.resize(roundUp(offset + bytes) + kAlignment, kPoison);  // the rest is the guard zone
    if (data != nullptr && bytes > 0) std::memcpy(before_.data() + offset, data, bytes);
    return offset;
  }
  template <typename T>
  size_t add(const std::vector<T>& values) {
    return add(values.data(), values.size() * sizeof(T));
  }

  // Call it when everything has been added. Device memory is kept for the next image.
  void upload(DeviceBuffer* memory, const Stream& stream) {
    if (memory->bytes() < before_.size()) {
      *memory = DeviceBuffer();
      *memory = DeviceBuffer(before_.size() + before_.size() / 2);
    }
    base_ = static_cast<unsigned char*>(memory->data());
    XQA_CUDA_CHECK(
        cudaMemcpyAsync(base_, before_.data(), before_.size(), cudaMemcpyHostToDevice, stream));
  }
  void download(const Stream& stream) {
    after_.resize(before_.size());
    XQA_CUDA_CHECK(
        cudaMemcpyAsync(after_.data(), base_, after_.size(), cudaMemcpyDeviceToHost, stream));
    stream.synchronize();
  }

  // Overwrites a part of a buffer, here and on the device.
  void update(size_t offset, const void* data, size_t bytes, const Stream& stream) {
    std::memcpy(before_.data() + offset, data, bytes);
    XQA_CUDA_CHECK(cudaMemcpyAsync(base_ + offset, data, bytes, cudaMemcpyHostToDevice, stream));
    stream.synchronize();
  }

  template <typename T>
  T* device(size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  const unsigned char* downloaded(size_t offset) const { return after_.data() + offset; }

  // Bytes that the call may write. Everything else must read back as it was uploaded.
  void allowWrites(size_t offset, size_t bytes) { writable_.push_back({offset, bytes}); }

  // Offset of the first byte that was changed without leave, or -1. Call it after download().
  int64_t firstDamage() const {
    std::vector<unsigned char> expected = before_;
    for (const Range& range : writable_) {
      std::memcpy(expected.data() + range.offset, after_.data() + range.offset, range.bytes);
    }
    if (std::memcmp(expected.data(), after_.data(), expected.size()) == 0) return -1;
    size_t at = 0;
    while (expected[at] == after_[at]) ++at;
    return static_cast<int64_t>(at);
  }

  bool unchanged() const { return before_ == after_; }

 private:
  static constexpr size_t kAlignment = 256;
  static size_t roundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  struct Range {
    size_t offset;
    size_t bytes;
  };

  std::vector<unsigned char> before_;
  std::vector<unsigned char> after_;
  std::vector<Range> writable_;
  unsigned char* base_ = nullptr;
};

}  // namespace gpu
