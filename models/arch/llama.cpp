// llama: Llama 1-3, Mistral, TinyLlama, SmolLM, Yi, and, with experts, Mixtral; and architectures with the same layers.
// They differ by the order of rope's pairs, by names and by single traits:
//   mistral3       may scale queries by their position
//   smollm3        has no rope in every fourth layer
//   ernie4_5-moe   has experts and a shared one behind some dense layers
//   olmo           has layer norms without weights
//   bitnet         norms what goes into the last matrix of each part
//   refact         has ALiBi instead of rope, as the 13B model of baichuan
//   eurobert, llama-embed end with the hidden state
//   arcee, apertus have no gate in their feed-forward parts, and activations of their own
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ridge::models {
namespace {

using core::Activation;
using core::ValueId;

constexpr auto kSplitPairs = std::to_array<std::string_view>(
    {"apertus", "bitnet", "eurobert", "exaone", "openelm", "paddleocr", "pangu-embedded", "qwen", "seed_oss"});

// The activation of a layer's feed-forward part.
ActivationSpec activation_of(const Hparams& h, int64_t il) {
  if (h.architecture() == "qwen") return {.width = h.ffn_width(il) / 2}; // it counts gate and up
  if (h.architecture() == "bitnet") return {.norm = true};
  if (h.architecture() == "refact") return {.bias = false};
  if (h.architecture() == "arcee") return {{Activation::relu_squared}, false};
  if (h.architecture() != "apertus") return {};
  const auto number = [&](std::string_view name) { return static_cast<float>(h.layer_float_of_all(name, il)); };
  const auto softplus = [](float x) { return x > 20 ? x : std::log1p(std::exp(x)); };
  core::ActivationParams xielu = {Activation::xielu, softplus(number("xielu.alpha_p"))};
  xielu.beta = number("xielu.beta");
  xielu.alpha_negative = xielu.beta + softplus(number("xielu.alpha_n"));
  xielu.epsilon = number("xielu.eps");
  return {xielu, false};
}

// A layer whose experts nothing goes through: what is left of the part is its activation.
ValueId only_activation(Builder& b, ValueId x, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  for (const char* tensor :
       {"ffn_gate_inp.weight", "exp_probs_b.bias", "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight",
        "ffn_gate_shexp.weight", "ffn_up_shexp.weight", "ffn_down_shexp.weight"})
    b.skip(blk + tensor);
  return b.activate(x, blk + "ffn_activation");
}

// A layer between two with experts has experts, too, but does not use them.
ValueId ernie_feed_forward(Builder& b, ValueId x, int64_t il) {
  const Hparams& h = b.hparams();
  if (h.has_experts(il) || b.has(fmt::format("blk.{}.ffn_up.weight", il)))
    return b.feed_forward(x, il,
                          {.normalize = true, .gate = core::Gate::softmax, .selection_bias = true, .shared = true});
  return only_activation(b, x, il);
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const auto is = [&](std::string_view name) { return h.architecture() == name; };
  if (is("ernie4_5-moe")) h.get_int("expert_shared_count", 0);               // they are one, as wide as their tensors
  const bool no_rope = is("refact") || (is("baichuan") && h.layers() != 32); // only the 7B model is known to have it
  AttentionSpec attention = {.rope = std::ranges::count(kSplitPairs, h.architecture()) ? Rope::split : Rope::adjacent,
                             .qk_norm = is("apertus") || is("openelm"),
                             .rope_factors = !is("pangu-embedded") && !is("eurobert"),
                             .rope_axes = is("paddleocr") ? RopeAxes::in_order : RopeAxes::one,
                             .output_norm = is("bitnet"),
                             .qkv_has_more = is("qwen"),
                             .output_bias = !h.architecture().starts_with("ernie") && !is("chatglm") && !is("refact"),
                             .max_bias = is("refact") || (is("baichuan") && h.layers() == 40) ? 8.0 : 0.0};
  if (is("refact")) b.skip("rope_freqs.weight");
  if (is("eurobert")) attention.causal = h.get_bool("attention.causal", false);
  if (is("mistral3"))
    if (const double scale = h.get_float("attention.temperature_scale", 0); scale != 0)
      attention.position_scale = {static_cast<float>(scale), h.original_context()};
  AttentionSpec without_rope = attention;
  without_rope.rope = Rope::none;
  const int64_t step_without_rope = no_rope ? 1 : is("smollm3") ? 4 : h.layers() + 1;
  const bool experts = (is("llama") || is("llama-embed") || is("mistral3")) && h.experts() > 0;
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 if (is("apertus"))
                   for (const char* norm : {"q", "k"}) b.skip(fmt::format("blk.{}.attn_{}_norm.bias", il, norm));
                 return b.attention(x, il, (il + 1) % step_without_rope == 0 ? without_rope : attention);
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 if (is("refact") && h.experts() > 0) return only_activation(b, x, il);
                 if (is("ernie4_5-moe")) return ernie_feed_forward(b, x, il);
                 return experts ? b.experts(x, il) : b.ffn(x, il, activation_of(h, il));
               },
           .ffn_norm = is("seed_oss") ? "post_attention_norm" : "ffn_norm",
           .layer_norms = is("olmo"),
           .bare_norms = is("olmo"),
           .embeds = is("eurobert") || is("llama-embed")});
}

constexpr TensorRule kTensors[] = {{"self_attn.q_proj", "attn_q", {.rows = Rows::rope_pairs}},
                                   {"self_attn.k_proj", "attn_k", {.rows = Rows::rope_pairs}}};

} // namespace

constinit const ArchitectureFile arch::llama = {.build = build,
                                                .checkpoint = {.tensors = kTensors, .slides_by_default = true}};

} // namespace ridge::models
