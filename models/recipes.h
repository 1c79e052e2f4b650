// Which type each tensor of a model is written in: the mixes that are known by names such as Q4_K_M and IQ3_XXS.
//
// A recipe is a base type and rules that give tensors of some roles in some layers another type. Coarse types cost most
// in attn_v and ffn_down, and attn_v is small where many heads share it. The rules are those of llama.cpp's quantizer,
// so that a name means the same bits everywhere. docs/formats.md lists the resulting sizes.
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
  attn_v, // also fused q, k and v
  attn_output,
  ffn_gate,
  ffn_up,
  ffn_down,
  experts, // any matrix of several experts; a rule for it comes before the others
  token_embd,
  output,
  other,
};
Role role_of(std::string_view tensor_name);

// Layers that a rule is for, of n. For attn_v only layers that have one are counted.
enum class Layers : uint8_t {
  all,
  first_2,
  first_4,
  first_16th,
  first_8th,
  middle,    // without the first and last eighth
  more_bits, // the first and last eighth, and every third layer between
};

// Models that a rule is for.
enum class When : uint8_t {
  always,
  shared_kv,       // four or more query heads share a KV head
  many_experts,    // four or more
  eight_experts,   // exactly: Mixtral
  with_importance, // an importance matrix is given
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
  uint32_t file_type;      // general.file_type
  std::vector<Rule> rules; // the first that fits counts
};

// Every recipe, by descending bits per weight within a family.
const std::vector<Recipe>& recipes();
// By name, any case; Q3_K, Q4_K and Q5_K stand for their _M. nullptr: unknown.
const Recipe* find_recipe(std::string_view name);
std::string_view file_type_name(int64_t file_type); // of general.file_type; empty: unknown
std::optional<uint32_t>
plain_file_type(quant::Type type); // of files whose matrices are all of that type; none: no number

// The properties of a model that rules depend on.
struct ModelTraits {
  std::string architecture;
  int64_t layers = 0, heads = 1, kv_heads = 1, experts = 0;
};
ModelTraits model_traits(const gguf::File& file); // keys that are missing: the defaults

struct RecipeOptions {
  bool importance = false; // an importance matrix is given
  bool pure = false;       // the base type for every matrix
  bool leave_output = false;
  std::optional<quant::Type> output, token_embedding;
  std::vector<std::pair<std::regex, quant::Type>> tensor_types; // the first whose pattern is found in the name
};

// Whether a tensor of this name and shape is quantized at all: it is a matrix of weights, and no norm, router of
// experts, convolution or position table.
bool is_quantizable(const gguf::TensorInfo& tensor);

// The type that `recipe` gives each tensor. Tensors that are not quantized keep theirs. If rows are not whole blocks of
// the chosen type, the tensor gets the next larger type with blocks of 32, or F16.
std::vector<gguf::TensorType> assign_types(const Recipe& recipe, const ModelTraits& traits,
                                           std::span<const gguf::TensorInfo> tensors,
                                           const RecipeOptions& options = {});

// `type`, or the type instead of it for rows of `cols` weights.
quant::Type fitting_type(quant::Type type, int64_t cols);

} // namespace ridge::models
