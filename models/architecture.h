// The table of architectures: a row of models/arches.def and a file of models/arch/ for each.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models {

class Builder;

// How Hugging Face checkpoints of an architecture differ from those of LlamaForCausalLM without experts.
struct Checkpoint {
  bool interleave_qk = false;     // rope pairs are halves in the checkpoint, neighbours in GGUF: q and k get reordered
  bool qkv_bias = false;          // q, k and v have biases; on import they are found by their names
  bool qk_norm = false;           // self_attn.q_norm and self_attn.k_norm
  bool slides_by_default = false; // config.json's sliding_window counts where use_sliding_window is missing

  // Modules of a layer with experts, below "model.layers.N."; {} is the expert. Empty: the architecture has none.
  std::string_view router = {}, expert_gate = {}, expert_up = {}, expert_down = {};
  std::string_view shares_sum_to_1 = {}; // field of config.json that says so; empty: they always do
};

// What an architecture's file defines.
struct ArchitectureFile {
  void (*build)(Builder&); // appends the ops of a model
  Checkpoint checkpoint = {};
};

struct Architecture {
  std::string_view name; // general.architecture
  const ArchitectureFile& file;
  std::string_view models, layers;          // for people: what is known by it ("Qwen 3 dense"), what a layer is
  std::vector<std::string_view> hf_classes; // that "architectures" of config.json names
};

std::span<const Architecture> architecture_table();           // rows of arches.def in their order
const Architecture* find_architecture(std::string_view name); // nullptr: unknown
std::string architectures_as_markdown();                      // the table of docs/models.md

namespace arch {
#define RIDGE_ARCH(name, file, models, layers, ...) extern const ArchitectureFile file;
#include "models/arches.def"
#undef RIDGE_ARCH
} // namespace arch

} // namespace ridge::models
