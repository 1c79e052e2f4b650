// Experts chosen by scores, behind some dense layers and with a shared one where the file has them: bailingmoe and
// bailingmoe2 (Ling, Ring), deepseek (DeepSeek MoE), deepseek2-ocr, dots1, olmoe, minimax-m2, minimax-m3, exaone-moe,
// hy_v3 (Hunyuan 3) and afmoe (Trinity).
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ridge::models {
namespace {

using core::ValueId;

struct Kind {
  std::string_view name;
  AttentionSpec attention;
  std::optional<bool> normalize;  // not set: expert_weights_norm, or false
  std::optional<core::Gate> gate; // not set: expert_gating_func
  ActivationSpec activation = {};
};

constexpr AttentionSpec kPlain = {.rope = Rope::adjacent}, kSplit = {.rope = Rope::split, .rope_factors = false},
                        kNormed = {.rope = Rope::split, .qk_norm = true, .rope_factors = false},
                        kNormedWhole = {.rope = Rope::split,
                                        .qk_norm = true,
                                        .norms_whole_rows = true,
                                        .rope_factors = false},
                        kSliding = {.rope = Rope::split, .qk_norm = true};
constexpr auto kKinds = std::to_array<Kind>({
    {"afmoe", kSliding, {}, {}},
    {"bailingmoe", kPlain, {}, core::Gate::softmax},
    {"bailingmoe2", kNormed, {}, {}},
    {"deepseek", kPlain, false, core::Gate::softmax},
    {"deepseek2-ocr", kSplit, {}, {}},
    {"dots1", kNormed, {}, {}},
    {"exaone-moe", kSliding, {}, {}},
    {"hy_v3", kSliding, {}, {}},
    {"minimax-m2", kNormedWhole, true, {}},
    {"minimax-m3", kNormed, {}, {}, {{core::Activation::silu, 1.702f, 7, false, 1}}},
    {"olmoe", kNormedWhole, false, core::Gate::softmax},
});

// Layers with a window have rope; those without have none, by their number in afmoe.
AttentionSpec sliding(const Hparams& h, const Kind& kind, int64_t il) {
  AttentionSpec spec = kind.attention;
  const int64_t window = h.get_int("attention.sliding_window", 0);
  const bool afmoe = kind.name == "afmoe", slides = window > 0 && h.slides(il, 4);
  spec.window = slides ? window : 0;
  spec.gate_matrix = afmoe;
  if (afmoe ? (il + 1) % 4 == 0 : !slides) spec.rope = Rope::none;
  if (const double base = afmoe && slides ? h.get_float("rope.freq_base_swa", 0) : 0; base != 0) spec.rope_base = base;
  return spec;
}

// Its files say by their tensors which layers have experts. Such layers may have a dense part as well, which is not
// used.
bool hunyuan_has_experts(Builder& b, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  if (!b.has(blk + "ffn_gate_inp.weight")) return false;
  for (const char* dense : {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}) b.skip(blk + dense);
  return true;
}

// MiniMax M3 attends to all positions, as it does in llama.cpp, too: to choose blocks of them makes a difference only
// where a text is longer than attention.indexer.top_k blocks.
void skip_block_indexer(Builder& b, int64_t il) {
  for (const char* unused : {"q_proj", "k_proj", "q_norm", "k_norm"})
    b.skip(fmt::format("blk.{}.indexer.{}.weight", il, unused));
}

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const Kind& kind = *std::ranges::find(kKinds, h.architecture(), &Kind::name);
  const bool afmoe = kind.name == "afmoe", slides = afmoe || kind.name == "exaone-moe";
  AttentionSpec attention = kind.attention;
  if (kind.name == "bailingmoe") attention.scale = 1 / std::sqrt(static_cast<double>(h.rope_dims(h.k_dim(0))));
  h.get_int("expert_shared_count", 0); // they are one, as wide as their tensors
  RoutingSpec routing = {.normalize = kind.normalize ? kind.normalize : h.get_bool("expert_weights_norm", false),
                         .gate = kind.gate,
                         .selection_bias = true,
                         .shared = true};
  const bool hunyuan = kind.name == "hy_v3";
  if (kind.name == "minimax-m3")
    for (int64_t il = 0; il < h.layers(); ++il) skip_block_indexer(b, il);
  if ((afmoe || hunyuan) && h.get_int("expert_gating_func", 0) == 0) routing.gate = core::Gate::sigmoid;
  b.build(
      {.mixer = [&](ValueId x, int64_t il) { return b.attention(x, il, slides ? sliding(h, kind, il) : attention); },
       .ffn =
           [&](ValueId x, int64_t il) {
             if (kind.name == "minimax-m2" || kind.name == "olmoe") routing.width = h.ffn_width(il);
             if (hunyuan ? hunyuan_has_experts(b, il) : kind.name == "bailingmoe" || h.has_experts(il))
               return b.experts(x, il, routing, kind.activation);
             return b.ffn(x, il, kind.activation);
           },
       .mixer_post_norm = afmoe ? "post_attention_norm" : "",
       .ffn_post_norm = afmoe ? "post_ffw_norm" : "",
       .drafts = hunyuan ? Drafts::normed : Drafts::none,
       .embedding_scale = afmoe ? std::sqrt(static_cast<double>(h.width())) : 1});
}

} // namespace

constinit const ArchitectureFile arch::bailing = {.build = build};

} // namespace ridge::models
