// Decoders with layer norms, one row each: GPT 2, NeoX, Falcon, BLOOM and others.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ridge::models {
namespace {

using core::Activation;
using core::ValueId;

constexpr AttentionSpec kSplit = {.rope = Rope::split, .rope_factors = false},
                        kAdjacent = {.rope = Rope::adjacent, .rope_factors = false}, kNoRope = {},
                        kBloom = {.max_bias = 8}, kMpt = {.norms_whole_rows = true};
constexpr ActivationSpec kGelu = {{Activation::gelu}, false}, kGated = {},
                         kReluSquared = {{Activation::relu_squared}, false},
                         kDivided = {.activation = {Activation::gelu}, .gated = false, .divides = true};

struct Kind {
  std::string_view name;
  AttentionSpec attention = kSplit;
  ActivationSpec activation = kGelu;
  std::optional<RoutingSpec> experts = {};
  void (*read)(Builder& b, AttentionSpec& attention) = nullptr;
  std::string_view ffn_norm = "ffn_norm";
  bool learns_positions = false; // otherwise optional in files
  bool embedding_norm = false;
  bool reads_parallel_residual = false; // the file's use_parallel_residual applies
};

void read_max_bias(Builder& b, AttentionSpec& attention) {
  attention.max_bias = b.hparams().get_float("attention.max_alibi_bias", 0);
}

void read_mpt(Builder& b, AttentionSpec& attention) {
  read_max_bias(b, attention);
  if (b.has("blk.0.attn_q_norm.weight")) return;
  for (int64_t il = 0; il < b.hparams().layers(); ++il)
    for (const char* part : {"weight", "bias"}) b.skip(fmt::format("blk.{}.attn_k_norm.{}", il, part));
}

void read_jais(Builder& b, AttentionSpec& attention) {
  read_max_bias(b, attention);
  attention.scale = 1 / static_cast<double>(b.hparams().v_dim(0));
}

constexpr auto kKinds = std::to_array<Kind>({
    {.name = "gpt2", .attention = kNoRope, .learns_positions = true},
    {.name = "starcoder", .attention = kNoRope, .learns_positions = true},
    {.name = "starcoder2"},
    {.name = "codeshell"},
    {.name = "gptneox", .reads_parallel_residual = true},
    {.name = "falcon"},
    {.name = "phi2"},
    {.name = "jais2", .activation = kReluSquared},
    {.name = "dbrx",
     .experts = RoutingSpec{.normalize = true, .gate = core::Gate::softmax},
     .ffn_norm = "attn_output_norm"},
    {.name = "nemotron", .activation = kReluSquared},
    {.name = "stablelm", .activation = kGated},
    {.name = "orion", .activation = kGated},
    {.name = "pockettts", .attention = kAdjacent},
    {.name = "bloom", .attention = kBloom, .embedding_norm = true},
    {.name = "mpt", .attention = kMpt, .activation = kDivided, .read = read_mpt},
    {.name = "jais", .attention = kNoRope, .activation = kGated, .read = read_jais},
});

void build(Builder& b) {
  const Kind& kind = *std::ranges::find(kKinds, b.hparams().architecture(), &Kind::name);
  // Without its own norm, the feed-forward part reads the attention's input.
  const bool own_norm = b.has(fmt::format("blk.0.{}.weight", kind.ffn_norm)),
             norms_twice = b.has("blk.0.attn_norm_2.weight"),
             parallel = kind.reads_parallel_residual ? b.hparams().get_bool("use_parallel_residual", true) : !own_norm;
  AttentionSpec attention = kind.attention;
  attention.qk_norm = b.has("blk.0.attn_q_norm.weight");
  if (kind.read) kind.read(b, attention);
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(b, x, il, attention); },
           .ffn =
               [&](ValueId x, int64_t il) {
                 return kind.experts ? blocks::experts(b, x, il, *kind.experts)
                                     : blocks::ffn(b, x, il, kind.activation);
               },
           .mixer_norm = norms_twice ? "attn_norm_2" : "attn_norm",
           .ffn_norm = own_norm      ? kind.ffn_norm
                       : norms_twice ? "attn_norm"
                                     : "",
           .parallel = parallel,
           .layer_norms = true,
           .learns_positions = kind.learns_positions || b.has("position_embd.weight"),
           .begin = [&](ValueId x) { return kind.embedding_norm ? b.layer_norm(x, "token_embd_norm") : x; }});
}

} // namespace

constinit const ArchitectureFile arch::layer_norm_decoder = {.build = build};

} // namespace ridge::models
