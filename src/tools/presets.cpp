// SPDX-License-Identifier: Apache-2.0
#include "presets.h"

#include <cmath>

#include "arguments.h"

namespace tool {

const std::vector<Preset>& presets() {
  static const std::vector<Preset> kPresets = {
      // name, head_dim, q_heads, kv_heads, {layers, window}..., sinks, softcap, scale_dim
      {"falcon-7b", 64, 71, 1, {{32, 0}}},
      {"falcon-40b", 64, 128, 8, {{60, 0}}},
      {"gemma-2-2b", 256, 8, 4, {{13, 4096}, {13, 0}}, false, 50.0f},
      {"gemma-2-9b", 256, 16, 8, {{21, 4096}, {21, 0}}, false, 50.0f},
      {"gemma-2-27b", 128, 32, 16, {{23, 4096}, {23, 0}}, false, 50.0f, 144.0f},
      {"gemma-3-4b", 256, 8, 4, {{29, 1024}, {5, 0}}},
      {"gemma-3-12b", 256, 16, 8, {{40, 1024}, {8, 0}}},
      {"gemma-3-27b", 128, 32, 16, {{52, 1024}, {10, 0}}, false, 0.0f, 168.0f},
      {"gpt-oss-20b", 64, 64, 8, {{12, 128}, {12, 0}}, true},
      {"gpt-oss-120b", 64, 64, 8, {{18, 128}, {18, 0}}, true},
      {"llama-3-8b", 128, 32, 8, {{32, 0}}},
      {"llama-3-70b", 128, 64, 8, {{80, 0}}},
      {"llama-3-405b", 128, 128, 8, {{126, 0}}},
      {"llama-3.2-1b", 64, 32, 8, {{16, 0}}},
      {"llama-3.2-3b", 128, 24, 8, {{28, 0}}},
      {"mistral-7b", 128, 32, 8, {{32, 4096}}},
      {"mistral-large-2", 128, 96, 8, {{88, 0}}},
      {"mixtral-8x7b", 128, 32, 8, {{32, 0}}},
      {"mixtral-8x22b", 128, 48, 8, {{56, 0}}},
      {"phi-4", 128, 40, 10, {{40, 0}}},
      {"phi-4-mini", 128, 24, 8, {{32, 0}}},
      {"qwen2.5-0.5b", 64, 14, 2, {{24, 0}}},
      {"qwen2.5-7b", 128, 28, 4, {{28, 0}}},
      {"qwen2.5-32b", 128, 40, 8, {{64, 0}}},
      {"qwen2.5-72b", 128, 64, 8, {{80, 0}}},
      {"qwen3-8b", 128, 32, 8, {{36, 0}}},
      {"qwen3-32b", 128, 64, 8, {{64, 0}}},
      {"qwen3-30b-a3b", 128, 32, 4, {{48, 0}}},
      {"qwen3-235b-a22b", 128, 64, 4, {{94, 0}}},
      {"smollm2-135m", 64, 9, 3, {{30, 0}}},
  };
  return kPresets;
}

const Preset& findPreset(const std::string& name) {
  std::string known;
  for (const Preset& preset : presets()) {
    if (name == preset.name) return preset;
    known += "\n  " + std::string(preset.name);
  }
  throw UsageError("unknown model '" + name + "'; the models are" + known);
}

std::vector<Layer> presetLayers(const Preset& preset, int32_t tensor_parallel) {
  // Ranks beyond the KV heads hold copies of one.
  const int32_t kv_heads =
      preset.kv_heads >= tensor_parallel ? preset.kv_heads / tensor_parallel : 1;
  const bool divides =
      preset.q_heads % tensor_parallel == 0 &&
      (preset.kv_heads % tensor_parallel == 0 || tensor_parallel % preset.kv_heads == 0);
  if (!divides) {
    throw UsageError("--tp " + std::to_string(tensor_parallel) + " does not divide the heads of " +
                     preset.name + " (" + std::to_string(preset.q_heads) + "/" +
                     std::to_string(preset.kv_heads) + ")");
  }
  int32_t total_layers = 0;
  for (const LayerKind& kind : preset.kinds) total_layers += kind.layers;
  std::vector<Layer> layers;
  for (const LayerKind& kind : preset.kinds) {
    Layer layer;
    layer.title = std::string(preset.name) + ", " + std::to_string(kind.layers) + " of " +
                  std::to_string(total_layers) + " layers, " +
                  (kind.window > 0 ? "window " + std::to_string(kind.window) : "full attention");
    if (tensor_parallel > 1) layer.title += ", rank of " + std::to_string(tensor_parallel);
    layer.spec.head_dim = preset.head_dim;
    layer.spec.kv_heads = kv_heads;
    layer.spec.group_size = preset.q_heads / tensor_parallel / kv_heads;
    layer.spec.q_dtype = XQA_DTYPE_BF16;  // what all of these models were released in
    layer.spec.window = kind.window;
    layer.spec.sinks = preset.sinks;
    layer.spec.softcap = preset.softcap;
    if (preset.scale_dim > 0) layer.spec.softmax_scale = 1.0f / std::sqrt(preset.scale_dim);
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace tool
