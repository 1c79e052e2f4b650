#include "models/recipes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <span>

namespace ridge::models {
namespace {

using quant::Type;

// Rules common to all recipes are in mixed_type.
constexpr Rule kFinerOutputOfEight = {Role::attn_output, Type::Q5_K, When::eight_experts};

std::vector<Rule> low_bit_rules(Type finer, std::optional<Type> attn_output) {
  std::vector<Rule> rules = {
      {Role::attn_v, Type::Q4_K, When::shared_kv},
      {Role::attn_v, Type::Q4_K, When::many_experts},
      {Role::attn_v, finer},
      {Role::attn_k, Type::Q4_K, When::eight_experts},
      {Role::ffn_down, finer, When::always, Layers::first_8th},
      kFinerOutputOfEight,
      {Role::token_embd, finer},
      {Role::output, Type::Q5_K},
  };
  if (attn_output) rules.push_back({Role::attn_output, *attn_output});
  return rules;
}

std::vector<Recipe> make_recipes() {
  using enum Role;
  using enum When;
  const Rule coarse_embedding = {token_embd, Type::Q4_K};
  const std::vector<Rule> iq4 = {
      {attn_v, Type::Q5_K, shared_kv}, {ffn_down, Type::Q5_K, no_importance, Layers::first_8th}, kFinerOutputOfEight};
  return {
      {"F32", Type::F32, 0, {}},
      {"F16", Type::F16, 1, {}},
      {"BF16", Type::BF16, 32, {}},
      {"Q8_0", Type::Q8_0, 7, {}},
      {"Q6_K", Type::Q6_K, 18, {}},
      {"Q5_1", Type::Q5_1, 9, {}},
      {"Q5_0", Type::Q5_0, 8, {{ffn_down, Type::Q5_1, with_importance, Layers::first_8th}}},
      {"Q5_K_M",
       Type::Q5_K,
       17,
       {{attn_v, Type::Q6_K, always, Layers::more_bits}, {ffn_down, Type::Q6_K, always, Layers::more_bits}}},
      {"Q5_K_S", Type::Q5_K, 16, {}},
      {"Q4_1", Type::Q4_1, 3, {}},
      {"Q4_0", Type::Q4_0, 2, {{ffn_down, Type::Q4_1, with_importance, Layers::first_8th}}},
      {"Q4_K_M",
       Type::Q4_K,
       15,
       {{attn_v, Type::Q6_K, always, Layers::more_bits},
        {ffn_down, Type::Q6_K, always, Layers::more_bits},
        kFinerOutputOfEight}},
      {"Q4_K_S",
       Type::Q4_K,
       14,
       {{attn_v, Type::Q5_K, always, Layers::first_4},
        {ffn_down, Type::Q5_K, always, Layers::first_8th},
        kFinerOutputOfEight}},
      {"IQ4_NL", Type::IQ4_NL, 25, iq4},
      {"IQ4_XS", Type::IQ4_XS, 30, iq4},
      {"NVFP4", Type::NVFP4, 39, {}},
      {"MXFP4_MOE", Type::MXFP4, 38, {{experts, Type::MXFP4}, {other, Type::Q8_0}}},
      {"MXFP4", Type::MXFP4, 38, {}},
      {"Q3_K_L",
       Type::Q3_K,
       13,
       {{attn_v, Type::Q5_K},
        {ffn_down, Type::Q5_K},
        {attn_output, Type::Q3_K, eight_experts},
        {attn_output, Type::Q5_K}}},
      {"Q3_K_M",
       Type::Q3_K,
       12,
       {{attn_v, Type::Q5_K, always, Layers::first_2},
        {attn_v, Type::Q4_K},
        {ffn_down, Type::Q5_K, always, Layers::first_16th},
        {ffn_down, Type::Q4_K},
        kFinerOutputOfEight,
        {attn_output, Type::Q4_K}}},
      {"Q3_K_S", Type::Q3_K, 11, {kFinerOutputOfEight}},
      {"IQ3_M",
       Type::IQ3_S,
       27,
       {{attn_v, Type::Q4_K},
        {ffn_down, Type::Q4_K, always, Layers::first_8th},
        {ffn_down, Type::Q4_K, eight_experts, Layers::more_bits},
        kFinerOutputOfEight,
        {attn_output, Type::Q4_K}}},
      {"IQ3_S", Type::IQ3_S, 26, {{attn_v, Type::Q4_K, shared_kv}, kFinerOutputOfEight}},
      {"IQ3_XS",
       Type::IQ3_S,
       22,
       {{attn_v, Type::Q4_K, shared_kv},
        {attn_k, Type::IQ3_XXS},
        {attn_q, Type::IQ3_XXS},
        {ffn_gate, Type::IQ3_XXS, always, Layers::middle},
        {ffn_up, Type::IQ3_XXS, always, Layers::middle},
        kFinerOutputOfEight}},
      {"IQ3_XXS",
       Type::IQ3_XXS,
       23,
       {{attn_v, Type::Q4_K, shared_kv},
        {attn_v, Type::IQ3_S, no_importance},
        {attn_k, Type::IQ2_S},
        {attn_q, Type::IQ2_S},
        {ffn_down, Type::Q4_K, no_importance, Layers::first_8th},
        {ffn_down, Type::Q3_K, no_importance},
        kFinerOutputOfEight,
        {attn_output, Type::IQ3_S},
        {token_embd, Type::IQ3_S},
        {output, Type::Q5_K}}},
      {"Q2_K",
       Type::Q2_K,
       10,
       {{attn_v, Type::Q4_K, shared_kv},
        {attn_v, Type::Q3_K},
        {ffn_down, Type::Q3_K},
        kFinerOutputOfEight,
        {attn_output, Type::Q3_K}}},
      {"Q2_K_S", Type::Q2_K, 21, {{attn_v, Type::Q4_K, shared_kv}, {ffn_down, Type::Q4_K, always, Layers::first_8th}}},
      {"IQ2_M", Type::IQ2_S, 29, low_bit_rules(Type::IQ3_S, Type::IQ3_S)},
      {"IQ2_S", Type::IQ2_XS, 28, low_bit_rules(Type::IQ3_S, Type::IQ3_S)},
      {"IQ2_XS", Type::IQ2_XS, 20, low_bit_rules(Type::Q2_K, std::nullopt)},
      {"IQ2_XXS", Type::IQ2_XXS, 19, low_bit_rules(Type::Q2_K, std::nullopt)},
      {"IQ1_M", Type::IQ1_M, 31, low_bit_rules(Type::Q2_K, Type::IQ2_XXS)},
      {"IQ1_S", Type::IQ1_S, 24, low_bit_rules(Type::Q2_K, Type::IQ2_XXS)},
      {"Q2_0", Type::Q2_0, 41, {coarse_embedding}},
      {"TQ2_0", Type::TQ2_0, 37, {coarse_embedding}},
      {"TQ1_0", Type::TQ1_0, 36, {coarse_embedding}},
      {"Q1_0", Type::Q1_0, 40, {}},
  };
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::toupper(c); });
  return result;
}

// Also in "v.blk.12.…" and "a.blk.12.…" of encoders; -1: none.
int64_t layer_of(std::string_view name) {
  int64_t layer = -1;
  if (name.starts_with("v.") || name.starts_with("a.")) name.remove_prefix(2);
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

bool holds(Layers layers, int64_t i, int64_t n) {
  switch (layers) {
  case Layers::all: return true;
  case Layers::first_2: return i < 2;
  case Layers::first_4: return i < 4;
  case Layers::first_16th: return i < n / 16;
  case Layers::first_8th: return i < n / 8;
  case Layers::middle: return i >= n / 8 && i < 7 * n / 8;
  case Layers::more_bits: return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
  }
  return false;
}

bool holds(When when, const ModelTraits& traits, bool importance) {
  switch (when) {
  case When::always: return true;
  case When::shared_kv: return traits.kv_heads > 0 && traits.heads / traits.kv_heads >= 4;
  case When::many_experts: return traits.experts >= 4;
  case When::eight_experts: return traits.experts == 8;
  case When::with_importance: return importance;
  case When::no_importance: return !importance;
  }
  return false;
}

bool is_low_bit(const Recipe& recipe) {
  return recipe.base == Type::IQ1_S || recipe.base == Type::IQ1_M || recipe.base == Type::IQ2_XXS ||
         recipe.base == Type::IQ2_XS || recipe.base == Type::IQ2_S;
}

Type mixed_type(const Recipe& recipe, const ModelTraits& traits, const RecipeOptions& options,
                const gguf::TensorInfo& tensor, Role role, int64_t layer, int64_t layers) {
  if (role == Role::output && options.output) return *options.output;
  if (role == Role::output && tensor.dims[0] % quant::format(recipe.base).block_weights != 0) return Type::Q8_0;
  const bool experts = tensor.dims.size() > 2 && tensor.dims[2] > 1;
  const auto rule = std::ranges::find_if(recipe.rules, [&](const Rule& r) {
    const bool fits = r.role == Role::experts ? experts : r.role == role || r.role == Role::other;
    return fits && holds(r.when, traits, options.importance) && holds(r.layers, layer, layers);
  });
  const bool ruled = rule != recipe.rules.end();
  const Type type = ruled ? rule->type : recipe.base;
  if (role == Role::output && !ruled) return type == Type::Q8_0 ? type : Type::Q6_K;
  if (is_low_bit(recipe)) return type;
  // Small next to eight experts.
  if (traits.experts == 8 && (role == Role::attn_v || role == Role::attn_k)) return Type::Q8_0;
  // In Llama 2 70B attn_v is an eighth of attn_q.
  const bool is_70b = traits.architecture == "llama" && traits.layers == 80 && traits.heads != traits.kv_heads;
  if (is_70b && role == Role::attn_v && (type == Type::Q3_K || type == Type::Q4_K)) return Type::Q5_K;
  return type;
}

} // namespace

Role role_of(std::string_view name) {
  if (name == "output.weight") return Role::output;
  // An encoder's projection to the language model.
  if (name.starts_with("mm.") || name.starts_with("v.deepstack.")) return Role::output;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Role::token_embd;
  constexpr auto kParts = std::to_array<std::pair<std::string_view, Role>>({
      {"attn_qkv.weight", Role::attn_v},
      {"attn_kv_b.weight", Role::attn_v},
      {"attn_v.weight", Role::attn_v},
      {"attn_k.weight", Role::attn_k},
      {"attn_q.weight", Role::attn_q},
      {"attn_output.weight", Role::attn_output},
      {"attn_out.weight", Role::attn_output},
      {"ffn_up", Role::ffn_up},
      {"ffn_gate", Role::ffn_gate},
      {"ffn_down", Role::ffn_down},
  });
  for (const auto& [part, role] : kParts)
    if (name.find(part) != std::string_view::npos) return role;
  return Role::other;
}

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> kRecipes = make_recipes();
  return kRecipes;
}

const Recipe* find_recipe(std::string_view name) {
  std::string wanted = upper(name);
  if (wanted == "Q3_K" || wanted == "Q4_K" || wanted == "Q5_K") wanted += "_M";
  const auto found = std::ranges::find(recipes(), wanted, &Recipe::name);
  return found == recipes().end() ? nullptr : &*found;
}

std::optional<uint32_t> plain_file_type(quant::Type type) {
  switch (type) {
  case quant::Type::F32: return 0;
  case quant::Type::F16: return 1;
  case quant::Type::Q4_0: return 2;
  case quant::Type::Q4_1: return 3;
  case quant::Type::Q8_0: return 7;
  case quant::Type::Q5_0: return 8;
  case quant::Type::Q5_1: return 9;
  case quant::Type::Q6_K: return 18;
  case quant::Type::BF16: return 32;
  case quant::Type::MXFP4: return 38;
  case quant::Type::NVFP4: return 39;
  default: return std::nullopt;
  }
}

std::string_view file_type_name(int64_t file_type) {
  const auto found = std::ranges::find(recipes(), file_type, &Recipe::file_type);
  return found == recipes().end() ? std::string_view() : found->name;
}

ModelTraits model_traits(const gguf::File& file) {
  ModelTraits traits;
  traits.architecture = file.get_string("general.architecture", "");
  // Takes the first of per-layer values.
  const auto get = [&](const char* key, int64_t fallback) {
    const std::string prefix = traits.architecture == "clip" ? "clip.vision." : traits.architecture + ".";
    const gguf::Value* value = file.find(prefix + key);
    if (!value) return fallback;
    if (value->is_array()) {
      const auto numbers = value->as_ints();
      return numbers && !numbers->empty() ? numbers->front() : fallback;
    }
    return value->as_int().value_or(fallback);
  };
  traits.layers = get("block_count", 0);
  traits.heads = get("attention.head_count", 1);
  traits.kv_heads = get("attention.head_count_kv", traits.heads);
  traits.experts = get("expert_count", 0);
  return traits;
}

bool is_quantizable(const gguf::TensorInfo& tensor) {
  // Tensors whose names contain one of these parts are kept.
  constexpr auto kKept = std::to_array<std::string_view>({
      "_norm.weight",
      "ffn_gate_inp.weight",
      "ffn_gate_tid2eid.weight",
      "altup",
      "laurel",
      "per_layer_model_proj",
      "ssm_conv1d",
      "shortconv.conv.weight",
      "indexer.k_proj.weight",
      "indexer.q_proj.weight",
      "_ape.weight", // compressors of DeepSeek V4
      "hc_attn_fn.weight",
      "hc_ffn_fn.weight",
      "output_hc_fn.weight",
      "ple_norm_",
      "ple_conv1d",
      "time_mix_first.weight",
      "time_mix_w0.weight",
      "time_mix_w1.weight",
      "time_mix_w2.weight",
      "time_mix_v0.weight",
      "time_mix_v1.weight",
      "time_mix_v2.weight",
      "time_mix_a0.weight",
      "time_mix_a1.weight",
      "time_mix_a2.weight",
      "time_mix_g1.weight",
      "time_mix_g2.weight",
      "time_mix_decay_w1.weight",
      "time_mix_decay_w2.weight",
      "time_mix_lerp_fused.weight",
      "attn_rel_b.weight",
      ".position_embd",
      ".conv_dw.weight",
      "sam.pos_embd",
      "sam.neck.",
      "sam.net_",
      ".rel_pos",
      ".patch_embd",
      ".patch_merger",
      "mm.input_projection", // some programs read its columns
      "a.rvq.codebook",
      "mm.a.code_embd",
  });
  const auto rows = std::span(tensor.dims).subspan(std::min<size_t>(1, tensor.dims.size()));
  const bool vector = std::ranges::all_of(rows, [](int64_t dim) { return dim == 1; });
  if (vector || !tensor.type.format() || !tensor.name.ends_with("weight")) return false;
  if (tensor.name == "position_embd.weight" || tensor.name == "token_types.weight") return false;
  return std::ranges::none_of(kKept,
                              [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; });
}

Type fitting_type(Type type, int64_t cols) {
  const auto fits = [cols](Type candidate) { return cols % quant::format(candidate).block_weights == 0; };
  if (fits(type)) return type;
  // llama.cpp falls back from Q2_K and Q3_K to Q4_0. IQ4_NL has its size, but SmolLM2's Q3_K_M diverges by 0.088
  // instead of 0.116 nats.
  static const std::map<Type, Type> kNextLarger = {
      {Type::IQ1_S, Type::IQ4_NL},  {Type::IQ1_M, Type::IQ4_NL},  {Type::IQ2_XXS, Type::IQ4_NL},
      {Type::IQ2_XS, Type::IQ4_NL}, {Type::IQ2_S, Type::IQ4_NL},  {Type::IQ3_XXS, Type::IQ4_NL},
      {Type::IQ3_S, Type::IQ4_NL},  {Type::IQ4_XS, Type::IQ4_NL}, {Type::Q1_0, Type::IQ4_NL},
      {Type::Q2_0, Type::IQ4_NL},   {Type::Q2_K, Type::IQ4_NL},   {Type::Q3_K, Type::IQ4_NL},
      {Type::TQ1_0, Type::IQ4_NL},  {Type::TQ2_0, Type::IQ4_NL},  {Type::NVFP4, Type::IQ4_NL},
      {Type::Q4_K, Type::Q5_0},     {Type::Q5_K, Type::Q5_1},     {Type::Q6_K, Type::Q8_0},
  };
  const auto next = kNextLarger.find(type);
  return next != kNextLarger.end() && fits(next->second) ? next->second : Type::F16;
}

std::vector<gguf::TensorType> assign_types(const Recipe& recipe, const ModelTraits& traits,
                                           std::span<const gguf::TensorInfo> tensors, const RecipeOptions& options) {
  const bool tied = std::ranges::find(tensors, "output.weight", &gguf::TensorInfo::name) == tensors.end();
  // Rules count the matrices of a role, not layers, because layers may differ.
  std::map<Role, std::vector<int64_t>> layers_of_role;
  for (const gguf::TensorInfo& tensor : tensors)
    if (is_quantizable(tensor)) layers_of_role[role_of(tensor.name)].push_back(layer_of(tensor.name));
  for (auto& [role, layers] : layers_of_role) std::ranges::sort(layers);
  const auto number_in_role = [&](Role role, int64_t layer) {
    const std::vector<int64_t>& layers = layers_of_role[role];
    return std::ranges::lower_bound(layers, layer) - layers.begin();
  };

  std::vector<gguf::TensorType> types;
  for (const gguf::TensorInfo& tensor : tensors) {
    types.push_back(tensor.type);
    Role role = role_of(tensor.name);
    if (!is_quantizable(tensor) || (options.leave_output && role == Role::output)) continue;
    Type type = recipe.base;
    const auto named = std::ranges::find_if(
        options.tensor_types, [&](const auto& entry) { return std::regex_search(tensor.name, entry.first); });
    if (role == Role::token_embd && options.token_embedding) {
      type = *options.token_embedding;
    } else if (role == Role::output && options.output) {
      type = *options.output;
    } else if (named != options.tensor_types.end()) {
      type = named->second;
    } else if (!options.pure && quant::format(recipe.base).packed) {
      if (tied && role == Role::token_embd) role = Role::output; // the table is the output matrix
      int64_t layer = layer_of(tensor.name), layers = traits.layers;
      if (role == Role::attn_v) layers = std::ssize(layers_of_role[role]);
      const bool ffn = role == Role::ffn_gate || role == Role::ffn_up || role == Role::ffn_down;
      if (role == Role::attn_v || (ffn && (traits.experts < 2 || is_low_bit(recipe))))
        layer = number_in_role(role, layer);
      type = mixed_type(recipe, traits, options, tensor, role, layer, layers);
    }
    types.back() = fitting_type(type, tensor.dims[0]);
  }
  return types;
}

} // namespace ridge::models
