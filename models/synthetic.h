// Models without a download: a GGUF image in the shape of a real model, with random weights in any format. They serve
// to measure speed; their text is noise. The image is an ordinary GGUF file in memory. So it takes the same reader,
// Program and executors as a real model, and can be saved for other engines.
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
  int64_t experts = 0, experts_used = 0; // 0: dense; ffn_width is then each expert's

  // For hybrids.
  std::string_view layer_kinds = "A"; // per layer, from the start again behind the last: Attention, attention with a
                                      // Window, Delta net, Mamba 2, short Convolution, Feed-forward part alone
  int64_t rope_dims = 0;              // 0: head_dim
  bool output_gate = false;           // of attention
  int64_t inner = 0, state = 0, inner_heads = 0, inner_groups = 0, conv_kernel = 0; // of recurrent layers
  int64_t shared_ffn_width = 0;                                                     // of the shared expert
  int64_t dense_layers = 0, dense_ffn_width = 0;                                    // before those with experts

  // For latent attention; head_dim is then that of keys before they are made narrower.
  int64_t latent = 0, query_latent = 0, value_dim = 0;

  // For layers with a window, kind W. Layers that see all may have other heads then.
  int64_t window = 0, full_head_dim = 0, full_kv_heads = 0;

  // For draft heads, which come behind the layers. Their attention sees all.
  int64_t draft_layers = 0;
  int64_t draft_vocab = 0; // of an EAGLE-3 head in a file of its own, 0: there is none

  bool has_sigmoid_gate() const { return architecture == "lfm2moe" || architecture == "glm4moe" || query_latent > 0; }
  char kind_of(int64_t layer) const {
    if (draft_layers > 0 && layer >= layers) return 'A';
    return layer_kinds[static_cast<size_t>(layer) % layer_kinds.size()];
  }
};

const std::vector<Shape>& shapes();

// Its hyperparameters, and its tensors in the order of files, matrices in F16.
gguf::Metadata metadata_of(const Shape& shape);
std::vector<gguf::TensorInfo> tensors_of(const Shape& shape);

// `spec` is NAME:TYPE: a name of shapes() and a format ("Q4_K": every matrix) or recipe ("Q4_K_M": its mix per
// tensor, models/recipes.h). Draft heads are left out unless they are wanted. Throws Error (usage) listing what is
// known, and where draft heads are wanted of a model that has none.
std::shared_ptr<const std::vector<std::byte>> synthetic_model(std::string_view spec, bool draft_heads = false);

gguf::Metadata synthetic_metadata(std::string_view spec); // of the same, with draft heads

// An EAGLE-3 head for the model of that shape, of the same types. Throws Error (usage) where the shape has none.
std::shared_ptr<const std::vector<std::byte>> synthetic_eagle_head(std::string_view spec);

// NAME:TYPE
struct SyntheticSpec {
  const Shape* shape;
  const quant::FormatInfo* pure; // of every matrix, or null
  const Recipe* recipe;          // or null
  static SyntheticSpec parse(std::string_view spec);
  // Sets the types of the matrices in F16 among the tensors of a file.
  void set_types(std::vector<gguf::TensorInfo>& tensors, std::string_view architecture, int64_t layers) const;
};
// A file with random weights. `shape`: of a model whose tokens, if it has experts, are to choose them evenly; or null.
std::shared_ptr<const std::vector<std::byte>> random_image(const gguf::Metadata& metadata,
                                                           const std::vector<gguf::TensorInfo>& tensors,
                                                           const Shape* shape = nullptr);

// Gives a model of `tokens` tokens (at least 259) a vocabulary of bytes, all others unused.
void add_byte_vocabulary(gguf::Metadata& metadata, int64_t tokens);

// `count` weights (whole blocks) of a type, packed, as synthetic models have them.
std::vector<std::byte> random_weights(quant::Type type, int64_t count);

} // namespace ridge::models
