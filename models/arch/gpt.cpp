// Decoders with layer norms, as GPT 2 has them: gpt2, starcoder, starcoder2, codeshell, gptneox (Pythia), falcon, phi2,
// jais2, dbrx, nemotron, stablelm, orion and pockettts, and with ALiBi bloom, mpt and jais. They differ in how they
// know positions, in the feed-forward part, and in whether that part has the same input as attention.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ridge::models {
namespace {

using core::Activation;
using core::ValueId;

struct Kind {
  std::string_view name;
  Rope rope;
  ActivationSpec activation;
  bool learns_positions = false;
  std::string_view ffn_norm = "ffn_norm";
};

constexpr ActivationSpec kGelu = {{Activation::gelu}, false}, kGated = {};
constexpr auto kKinds = std::to_array<Kind>({
    {"gpt2", Rope::none, kGelu, true},
    {"starcoder", Rope::none, kGelu, true},
    {"starcoder2", Rope::split, kGelu},
    {"codeshell", Rope::split, kGelu},
    {"gptneox", Rope::split, kGelu},
    {"falcon", Rope::split, kGelu},
    {"phi2", Rope::split, kGelu},
    {"jais2", Rope::split, {{Activation::relu_squared}, false}},
    {"dbrx", Rope::split, kGated, false, "attn_output_norm"},
    {"nemotron", Rope::split, {{Activation::relu_squared}, false}},
    {"stablelm", Rope::split, kGated},
    {"orion", Rope::split, kGated},
    {"pockettts", Rope::adjacent, kGelu},
    {"bloom", Rope::none, kGelu},
    {"mpt", Rope::none, {.activation = {Activation::gelu}, .gated = false, .divides = true}},
    {"jais", Rope::none, kGated},
});

double max_bias_of(const Hparams& h) {
  if (h.architecture() == "bloom") return 8;
  if (h.architecture() == "mpt") return h.get_float("attention.max_alibi_bias", 0);
  return h.architecture() == "jais" ? h.get_float("attention.max_alibi_bias", 0) : 0;
}

// Keys are normed only where queries are.
void skip_norms_of_keys(Builder& b) {
  for (int64_t il = 0; il < b.hparams().layers(); ++il)
    for (const char* part : {"weight", "bias"}) b.skip(fmt::format("blk.{}.attn_k_norm.{}", il, part));
}

void build(Builder& b) {
  const std::string& name = b.hparams().architecture();
  const Kind& kind = *std::ranges::find(kKinds, name, &Kind::name);
  // Without a norm of its own, the feed-forward part has attention's input; falcon may norm twice for the two.
  const bool own_norm = b.has(fmt::format("blk.0.{}.weight", kind.ffn_norm)), falcon = name == "falcon",
             norms_twice = b.has("blk.0.attn_norm_2.weight"), dbrx = name == "dbrx";
  const bool parallel = name == "gptneox" ? b.hparams().get_bool("use_parallel_residual", true) : !own_norm;
  const bool mpt = name == "mpt", qk_norm = b.has("blk.0.attn_q_norm.weight");
  AttentionSpec attention = {.rope = kind.rope,
                             .qk_norm = qk_norm,
                             .norms_whole_rows = mpt,
                             .rope_factors = false,
                             .max_bias = max_bias_of(b.hparams())};
  if (name == "jais") attention.scale = 1 / static_cast<double>(b.hparams().v_dim(0));
  if (mpt && !qk_norm) skip_norms_of_keys(b);
  const RoutingSpec experts = {.normalize = true, .gate = core::Gate::softmax};
  b.build(
      {.mixer = [&](ValueId x, int64_t il) { return b.attention(x, il, attention); },
       .ffn = [&](ValueId x, int64_t il) { return dbrx ? b.experts(x, il, experts) : b.ffn(x, il, kind.activation); },
       .mixer_norm = falcon && norms_twice ? "attn_norm_2" : "attn_norm",
       .ffn_norm = own_norm                ? kind.ffn_norm
                   : falcon && norms_twice ? "attn_norm"
                                           : "",
       .parallel = parallel,
       .layer_norms = true,
       .learns_positions = kind.learns_positions || (mpt && b.has("position_embd.weight")),
       .begin = [&](ValueId x) { return name == "bloom" ? b.layer_norm(x, "token_embd_norm") : x; }});
}

} // namespace

constinit const ArchitectureFile arch::gpt = {.build = build};

} // namespace ridge::models
