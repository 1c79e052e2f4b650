// Tensor types of the mixes named Q4_K_M, IQ3_XXS and so on.
// A recipe is a base type and rules for roles and layers, the same as llama.cpp's. Coarse types hurt most in attn_v and
// ffn_down. docs/formats.md lists the resulting sizes.
#pragma once

#include "gguf/writer.h"

#include <cstdint>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::models {

enum class Role : uint8_t {
  attn_q,
  attn_k,
  attn_v, // or fused q, k, v
  attn_output,
  ffn_gate,
  ffn_up,
  ffn_down,
  experts, // rules for experts take precedence
  token_embd,
  output,
  other,
};
Role role_of(std::string_view tensor_name);

// Subsets of layers; for attn_v, of those that have one.
enum class Layers : uint8_t {
  all,
  first_2,
  first_4,
  first_16th,
  first_8th,
  middle,
  more_bits, // first and last eighth, every third between
};

enum class When : uint8_t {
  always,
  shared_kv,     // at least 4 query heads per KV head
  many_experts,  // at least 4
  eight_experts, // exactly 8: Mixtral
  with_importance,
  no_importance,
};

struct Rule {
  Role role;
  quant::Type type;
  When when = When::always;
  Layers layers = Layers::all;
};

struct Recipe {
  std::string_view name;
  quant::Type base;
  uint32_t file_type;
  std::vector<Rule> rules;
};

// By family and descending bits per weight.
const std::vector<Recipe>& recipes();
// Q3_K, Q4_K and Q5_K mean _M. nullptr: unknown.
const Recipe* find_recipe(std::string_view name);
std::string_view file_type_name(int64_t file_type);        // empty: unknown
std::optional<uint32_t> plain_file_type(quant::Type type); // of files with one type; none: no number

struct ModelTraits {
  std::string architecture;
  int64_t layers = 0, heads = 1, kv_heads = 1, experts = 0;
};
ModelTraits model_traits(const gguf::File& file); // defaults for missing keys

struct RecipeOptions {
  bool importance = false;
  bool pure = false;
  bool leave_output = false;
  std::optional<quant::Type> output, token_embedding;
  std::vector<std::pair<std::regex, quant::Type>> tensor_types;
};

// Whether a tensor is quantized: a matrix that is no norm, router, convolution or position table.
bool is_quantizable(const gguf::TensorInfo& tensor);

// The type of each tensor under `recipe`. If rows are not whole blocks of it, the tensor gets the next larger type with
// blocks of 32, or F16.
std::vector<gguf::TensorType> assign_types(const Recipe& recipe, const ModelTraits& traits,
                                           std::span<const gguf::TensorInfo> tensors,
                                           const RecipeOptions& options = {});

// `type`, or its replacement for rows of `cols` weights.
quant::Type fitting_type(quant::Type type, int64_t cols);

} // namespace ridge::models
