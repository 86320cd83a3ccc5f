// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace xqa::testing {
namespace {

xqaDtype_t dtypeFromName(const std::string& name) {
  if (name == "f16") return XQA_DTYPE_F16;
  if (name == "bf16") return XQA_DTYPE_BF16;
  if (name == "e4m3") return XQA_DTYPE_E4M3;
  throw std::runtime_error("unknown dtype " + name);
}

void readDtype(std::istream& line, xqaDtype_t* dtype) {
  std::string name;
  line >> name;
  *dtype = dtypeFromName(name);
}

void readRowStrides(std::istream& line, xqaQueryStrides_t* strides) {
  line >> strides->batch >> strides->token >> strides->head;
}

void readCacheStrides(std::istream& line, xqaCacheStrides_t* strides) {
  line >> strides->page >> strides->token >> strides->head;
}

void readBuffer(std::istream& line, const std::vector<uint8_t>& blobs, Fixture* fixture) {
  std::string name;
  size_t offset = 0, bytes = 0;
  line >> name >> offset >> bytes;
  if (!line || offset + bytes > blobs.size()) {
    throw std::runtime_error(fixture->name + ": buffer " + name + " is outside of oracle.bin");
  }
  fixture->buffers[name].assign(blobs.data() + offset, blobs.data() + offset + bytes);
}

void readField(const std::string& field, std::istream& line, const std::vector<uint8_t>& blobs,
               Fixture* fixture) {
  xqaDecodeShape_t& shape = fixture->shape;
  const std::map<std::string, int32_t*> numbers = {{"head_dim", &fixture->key.head_dim},
                                                   {"group_size", &fixture->key.group_size},
                                                   {"batch", &shape.batch},
                                                   {"q_tokens", &shape.q_tokens},
                                                   {"num_kv_heads", &shape.num_kv_heads},
                                                   {"page_tokens", &shape.page_tokens},
                                                   {"max_pages", &shape.max_pages},
                                                   {"window", &shape.window}};
  const auto number = numbers.find(field);
  if (number != numbers.end()) {
    line >> *number->second;
  } else if (field == "q_dtype") {
    readDtype(line, &fixture->key.q_dtype);
  } else if (field == "kv_dtype") {
    readDtype(line, &fixture->key.kv_dtype);
  } else if (field == "out_dtype") {
    readDtype(line, &shape.out_dtype);
  } else if (field == "page_table_stride") {
    line >> shape.page_table_stride;
  } else if (field == "total_rows") {
    line >> fixture->total_rows;
  } else if (field == "v_offset") {
    line >> fixture->v_offset;
  } else if (field == "q_strides") {
    readRowStrides(line, &shape.q_strides);
  } else if (field == "out_strides") {
    readRowStrides(line, &shape.out_strides);
  } else if (field == "k_strides") {
    readCacheStrides(line, &shape.k_strides);
  } else if (field == "v_strides") {
    readCacheStrides(line, &shape.v_strides);
  } else if (field == "softmax_scale") {
    line >> shape.softmax_scale;
  } else if (field == "softcap") {
    line >> shape.softcap;
  } else if (field == "per_head_scales") {
    line >> shape.q_scale_stride;
    shape.k_scale_stride = shape.q_scale_stride;
    shape.v_scale_stride = shape.q_scale_stride;
  } else if (field == "buffer") {
    readBuffer(line, blobs, fixture);
  } else {
    throw std::runtime_error(fixture->name + ": unknown field " + field);
  }
  if (!line) throw std::runtime_error(fixture->name + ": bad value of " + field);
}

}  // namespace

xqaDecodeArgs_t Fixture::inputArgs() const {
  const auto find = [this](const char* buffer) -> const void* {
    const auto found = buffers.find(buffer);
    return found == buffers.end() ? nullptr : found->second.data();
  };
  const int64_t element_bytes = key.kv_dtype == XQA_DTYPE_E4M3 ? 1 : 2;
  const void* const v_pool = find(buffers.count("v_pool") != 0 ? "v_pool" : "k_pool");
  xqaDecodeArgs_t args = {};
  args.struct_size = sizeof(args);
  args.q = find("q");
  args.q_offsets = static_cast<const int32_t*>(find("q_offsets"));
  args.k_cache = find("k_pool");
  args.v_cache = static_cast<const uint8_t*>(v_pool) + v_offset * element_bytes;
  args.page_table = static_cast<const int32_t*>(find("page_table"));
  args.seq_lens = static_cast<const int32_t*>(find("seq_lens"));
  args.sinks = static_cast<const float*>(find("sinks"));
  args.mask = static_cast<const uint32_t*>(find("mask"));
  args.q_scale = static_cast<const float*>(find("q_scale"));
  args.k_scale = static_cast<const float*>(find("k_scale"));
  args.v_scale = static_cast<const float*>(find("v_scale"));
  args.out_scale = static_cast<const float*>(find("out_scale"));
  return args;
}

std::vector<Fixture> loadFixtures(const std::string& directory) {
  std::ifstream index(directory + "/oracle.txt");
  std::ifstream binary(directory + "/oracle.bin", std::ios::binary);
  if (!index || !binary) throw std::runtime_error("no fixtures in " + directory);
  const std::string bytes{std::istreambuf_iterator<char>(binary), std::istreambuf_iterator<char>()};
  const std::vector<uint8_t> blobs(bytes.begin(), bytes.end());
  std::vector<Fixture> fixtures;
  std::string text;
  while (std::getline(index, text)) {
    if (text[0] == '#') continue;
    std::istringstream line(text);
    std::string field;
    line >> field;
    if (field == "case") {
      fixtures.emplace_back();
      Fixture& fixture = fixtures.back();
      line >> fixture.name;
      fixture.key.struct_size = sizeof(fixture.key);
      fixture.shape.struct_size = sizeof(fixture.shape);
      continue;
    }
    readField(field, line, blobs, &fixtures.back());
  }
  for (Fixture& fixture : fixtures) {
    fixture.shape.num_q_heads = fixture.shape.num_kv_heads * fixture.key.group_size;
    // A packed contiguous cache has no table.
    if (fixture.buffers.count("page_table") == 0) fixture.shape.page_table_stride = 0;
  }
  return fixtures;
}

}  // namespace xqa::testing
