// Synthetic models: GGUF images in a real model's shape with random weights, for measuring speed. They are ordinary
// files in memory, so they use the same code as real models and can be saved.
#pragma once

#include "gguf/writer.h"
#include "models/recipes.h"
#include "quant/registry.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models {

struct Shape {
  std::string_view name, architecture;
  int64_t layers, width, ffn_width, heads, kv_heads, head_dim, vocab;
  double rope_base;
  int64_t experts = 0, experts_used = 0; // 0: dense; else per expert

  std::string_view layer_kinds = "A"; // repeating: Attention, Windowed attention, Delta net, Kimi delta attention,
                                      // Mamba 2, Scan of Mamba 1, short Convolution, RWKV 7, Lightning attention,
                                      // Feed-forward only; of DeepSeek V4: entries of 4 positions (E) or 128 (H)
  int64_t rope_dims = 0;              // 0: head_dim
  bool output_gate = false;
  int64_t inner = 0, state = 0, inner_heads = 0, inner_groups = 0, conv_kernel = 0; // of recurrent layers
  int64_t shared_ffn_width = 0;
  int64_t dense_layers = 0, dense_ffn_width = 0;
  int64_t expert_period = 1; // the last of as many layers has experts, others are dense

  // Latent attention; head_dim is the uncompressed key's.
  int64_t latent = 0, query_latent = 0, value_dim = 0;

  // Windows, and heads of layers without one.
  int64_t window = 0, full_head_dim = 0, full_kv_heads = 0;

  int64_t index_heads = 0, index_dim = 0, index_top = 0; // of the indexer

  // Draft heads follow the layers and have no windows.
  int64_t draft_layers = 0;
  int64_t draft_vocab = 0; // of a separate EAGLE-3 head; 0: none

  bool has_sigmoid_gate() const {
    return architecture == "lfm2moe" || architecture == "glm4moe" || architecture == "laguna" ||
           architecture == "minimax-m3" || has('K') || query_latent > 0;
  }
  bool compresses() const { return has('E'); } // is DeepSeek V4
  bool has(char kind) const { return layer_kinds.find(kind) != std::string_view::npos; }
  char kind_of(int64_t layer) const {
    if (draft_layers > 0 && layer >= layers) return 'A';
    return layer_kinds[static_cast<size_t>(layer) % layer_kinds.size()];
  }
};

// Ranks of RWKV 7's small products.
inline constexpr int64_t kDecayRank = 96, kRateRank = 96, kValueRank = 64, kGateRank = 320;

// GroveMoE has an adjugate expert of this width for each kSharingExperts experts.
inline constexpr int64_t kSharingExperts = 2, kSharedExpertWidth = 128;
// DeepSeek V4's residual streams, and groups and rank of its output product.
inline constexpr int64_t kStreams = 4, kOutputGroups = 8, kOutputRank = 1024;

const std::vector<Shape>& shapes();

// Tensors are in file order, matrices in F16.
gguf::Metadata metadata_of(const Shape& shape);
std::vector<gguf::TensorInfo> tensors_of(const Shape& shape);

// `spec` is NAME:TYPE, a name of shapes() and a format ("Q4_K") or recipe ("Q4_K_M"). Throws Error (usage) for unknown
// values, or if requested draft heads are missing.
std::shared_ptr<const std::vector<std::byte>> synthetic_model(std::string_view spec, bool draft_heads = false);

gguf::Metadata synthetic_metadata(std::string_view spec); // of synthetic_model(), with draft heads

// An EAGLE-3 head of the same types. Throws Error (usage) if the shape has none.
std::shared_ptr<const std::vector<std::byte>> synthetic_eagle_head(std::string_view spec);
std::shared_ptr<const std::vector<std::byte>> synthetic_dflash_head(std::string_view spec); // of every shape

struct SyntheticSpec {
  const Shape* shape;
  const quant::FormatInfo* pure; // for every matrix, or null
  const Recipe* recipe;
  static SyntheticSpec parse(std::string_view spec);
  // Sets the types of F16 matrices.
  void set_types(std::vector<gguf::TensorInfo>& tensors, std::string_view architecture, int64_t layers) const;
};
// `shape`, if not null, makes routing even.
std::shared_ptr<const std::vector<std::byte>> random_image(const gguf::Metadata& metadata,
                                                           const std::vector<gguf::TensorInfo>& tensors,
                                                           const Shape* shape = nullptr);

// Adds a vocabulary of bytes to a model of at least 259 tokens; the rest are unused.
void add_byte_vocabulary(gguf::Metadata& metadata, int64_t tokens);

// `count` random weights, packed; they must be whole blocks.
std::vector<std::byte> random_weights(quant::Type type, int64_t count);

} // namespace ridge::models
