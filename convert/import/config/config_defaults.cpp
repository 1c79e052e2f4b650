// transformers' defaults by model_type, omitted in nested language models.
#include "convert/import/config/config.h"

#include <array>

namespace ridge::convert::import {
namespace {

struct Default {
  std::string_view type, field;
  double value;
};
constexpr auto kDefaults = std::to_array<Default>({
    {"llama", "hidden_size", 4096},
    {"llama", "intermediate_size", 11008},
    {"llama", "num_hidden_layers", 32},
    {"llama", "num_attention_heads", 32},
    {"llama", "vocab_size", 32000},
    {"llama", "max_position_embeddings", 2048},
    {"llama", "rms_norm_eps", 1e-6},

    {"mistral", "hidden_size", 4096},
    {"mistral", "intermediate_size", 14336},
    {"mistral", "num_hidden_layers", 32},
    {"mistral", "num_attention_heads", 32},
    {"mistral", "num_key_value_heads", 8},
    {"mistral", "vocab_size", 32000},
    {"mistral", "max_position_embeddings", 131072},
    {"mistral", "rms_norm_eps", 1e-6},

    {"qwen2", "hidden_size", 4096},
    {"qwen2", "intermediate_size", 22016},
    {"qwen2", "num_hidden_layers", 32},
    {"qwen2", "num_attention_heads", 32},
    {"qwen2", "num_key_value_heads", 32},
    {"qwen2", "vocab_size", 151936},
    {"qwen2", "max_position_embeddings", 32768},
    {"qwen2", "rms_norm_eps", 1e-6},

    {"gemma3_text", "hidden_size", 2304},
    {"gemma3_text", "intermediate_size", 9216},
    {"gemma3_text", "num_hidden_layers", 26},
    {"gemma3_text", "num_attention_heads", 8},
    {"gemma3_text", "num_key_value_heads", 4},
    {"gemma3_text", "head_dim", 256},
    {"gemma3_text", "vocab_size", 262208},
    {"gemma3_text", "max_position_embeddings", 131072},
    {"gemma3_text", "rms_norm_eps", 1e-6},
    {"gemma3_text", "rope_theta", 1e6},
    {"gemma3_text", "rope_local_base_freq", 1e4},
    {"gemma3_text", "sliding_window", 4096},
    {"gemma3_text", "sliding_window_pattern", 6},
});

} // namespace

void add_defaults(Json& document) {
  const auto type = document.find("model_type");
  if (type == document.end() || !type->is_string()) return;
  const auto own = type->get<std::string>();
  for (const Default& row : kDefaults)
    if (own == row.type && !document.contains(row.field)) document[row.field] = row.value;
}

} // namespace ridge::convert::import
