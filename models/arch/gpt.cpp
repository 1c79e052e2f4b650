// Decoders with layer norms, as GPT 2 has them: gpt2, starcoder, starcoder2, codeshell, gptneox (Pythia), falcon, phi2,
// jais2, dbrx, nemotron, stablelm and orion. They differ in how they know positions, in the feed-forward part, and in
// whether that part has the same input as attention.
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
});

void build(Builder& b) {
  const std::string& name = b.hparams().architecture();
  const Kind& kind = *std::ranges::find(kKinds, name, &Kind::name);
  // Without a norm of its own, the feed-forward part has attention's input; falcon may norm twice for the two.
  const bool own_norm = b.has(fmt::format("blk.0.{}.weight", kind.ffn_norm)), falcon = name == "falcon",
             norms_twice = b.has("blk.0.attn_norm_2.weight"), dbrx = name == "dbrx";
  const bool parallel = name == "gptneox" ? b.hparams().get_bool("use_parallel_residual", true) : !own_norm;
  const AttentionSpec attention = {
      .rope = kind.rope, .qk_norm = b.has("blk.0.attn_q_norm.weight"), .rope_factors = false};
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
       .learns_positions = kind.learns_positions});
}

} // namespace

constinit const ArchitectureFile arch::gpt = {.build = build};

} // namespace ridge::models
