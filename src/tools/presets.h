// SPDX-License-Identifier: Apache-2.0
// Attention shapes of published models, as their configuration files give them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "problem.h"

namespace tool {

// Layers of a model that attend in the same way.
struct LayerKind {
  int32_t layers;
  int32_t window;  // 0: full attention
};

struct Preset {
  const char* name;
  int32_t head_dim;
  int32_t q_heads;
  int32_t kv_heads;
  std::vector<LayerKind> kinds;
  bool sinks = false;
  float softcap = 0.0f;
  float scale_dim = 0.0f;  // softmax scale is 1 / sqrt of this; 0: of head_dim
};

const std::vector<Preset>& presets();

// Throws a UsageError that lists the presets.
const Preset& findPreset(const std::string& name);

struct Layer {
  std::string title;  // "gpt-oss-20b, 12 of 24 layers, window 128"
  ProblemSpec spec;
};

// One problem for each layer kind, heads divided over tensor_parallel ranks.
std::vector<Layer> presetLayers(const Preset& preset, int32_t tensor_parallel);

}  // namespace tool
