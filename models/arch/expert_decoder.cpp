// Decoders with routed experts after dense layers, one row of a table each.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ridge::models {
namespace {

using core::ValueId;

constexpr AttentionSpec kPlain = {.rope = Rope::adjacent}, kSplit = {.rope = Rope::split, .rope_factors = false},
                        kNormed = {.rope = Rope::split, .qk_norm = true, .rope_factors = false},
                        kNormedWhole = {.rope = Rope::split,
                                        .qk_norm = true,
                                        .norms_whole_rows = true,
                                        .rope_factors = false},
                        kSliding = {.rope = Rope::split, .qk_norm = true},
                        kGated = {.rope = Rope::split, .qk_norm = true, .gate_matrix = true};

struct Kind {
  std::string_view name;
  AttentionSpec attention;
  std::optional<bool> normalize = {};  // default: expert_weights_norm
  std::optional<core::Gate> gate = {}; // default: expert_gating_func unless 0
  core::Gate usual_gate = core::Gate::softmax;
  ActivationSpec activation = {};
  bool (*has_experts)(Builder& b, int64_t il) = nullptr;
  bool wide_experts = false;
  void (*read)(Builder& b, AttentionSpec& attention) = nullptr;
  void (*of_layer)(const Hparams& h, AttentionSpec& attention, int64_t il) = nullptr;
  bool post_norms = false;
  bool scales_embedding = false;
  Drafts drafts = Drafts::none;
};

// Only layers with a window have rope.
void slide(const Hparams& h, AttentionSpec& attention, int64_t il) {
  const int64_t window = h.get_int("attention.sliding_window", 0);
  const bool slides = window > 0 && h.slides(il, 4);
  attention.window = slides ? window : 0;
  if (!slides) attention.rope = Rope::none;
}

// The same, but every fourth layer has no rope.
void slide_by_fours(const Hparams& h, AttentionSpec& attention, int64_t il) {
  slide(h, attention, il);
  attention.rope = (il + 1) % 4 == 0 ? Rope::none : Rope::split;
  if (const double base = attention.window > 0 ? h.get_float("rope.freq_base_swa", 0) : 0; base != 0)
    attention.rope_base = base;
}

void scale_by_rotated(Builder& b, AttentionSpec& attention) {
  const Hparams& h = b.hparams();
  attention.scale = 1 / std::sqrt(static_cast<double>(h.rope_dims(h.k_dim(0))));
}

// MiniMax M3 attends to all positions, as in llama.cpp: selecting blocks matters only beyond attention.indexer.top_k
// blocks.
void skip_block_indexer(Builder& b, AttentionSpec&) {
  for (int64_t il = 0; il < b.hparams().layers(); ++il)
    for (const char* unused : {"q_proj", "k_proj", "q_norm", "k_norm"})
      b.skip(fmt::format("blk.{}.indexer.{}.weight", il, unused));
}

bool in_every_layer(Builder&, int64_t) { return true; }

// Tensors tell which layers have experts. A dense part beside them is unused.
bool by_tensors(Builder& b, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  if (!b.has(blk + "ffn_gate_inp.weight")) return false;
  for (const char* dense : {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}) b.skip(blk + dense);
  return true;
}

constexpr ActivationSpec kShifted = {{core::Activation::silu, 1.702f, 7, false, 1}};
constexpr auto kKinds = std::to_array<Kind>({
    {.name = "afmoe",
     .attention = kGated,
     .usual_gate = core::Gate::sigmoid,
     .of_layer = slide_by_fours,
     .post_norms = true,
     .scales_embedding = true},
    {.name = "bailingmoe",
     .attention = kPlain,
     .gate = core::Gate::softmax,
     .has_experts = in_every_layer,
     .read = scale_by_rotated},
    {.name = "bailingmoe2", .attention = kNormed, .drafts = Drafts::normed},
    {.name = "deepseek", .attention = kPlain, .normalize = false, .gate = core::Gate::softmax},
    {.name = "deepseek2-ocr", .attention = kSplit},
    {.name = "dots1", .attention = kNormed},
    {.name = "exaone-moe", .attention = kSliding, .of_layer = slide},
    {.name = "hy_v3",
     .attention = kSliding,
     .usual_gate = core::Gate::sigmoid,
     .has_experts = by_tensors,
     .drafts = Drafts::normed},
    {.name = "minimax-m2", .attention = kNormedWhole, .normalize = true, .wide_experts = true},
    {.name = "minimax-m3", .attention = kNormed, .activation = kShifted, .read = skip_block_indexer},
    {.name = "olmoe", .attention = kNormedWhole, .normalize = false, .gate = core::Gate::softmax, .wide_experts = true},
});

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const Kind& kind = *std::ranges::find(kKinds, h.architecture(), &Kind::name);
  AttentionSpec attention = kind.attention;
  if (kind.read) kind.read(b, attention);
  h.get_int("expert_shared_count", 0);
  RoutingSpec routing = {.normalize = kind.normalize ? kind.normalize : h.get_bool("expert_weights_norm", false),
                         .gate = kind.gate,
                         .selection_bias = true,
                         .shared = true};
  if (!routing.gate && h.get_int("expert_gating_func", 0) == 0) routing.gate = kind.usual_gate;
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 AttentionSpec spec = attention;
                 if (kind.of_layer) kind.of_layer(h, spec, il);
                 return blocks::attention(b, x, il, spec);
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 if (kind.wide_experts) routing.width = h.ffn_width(il);
                 const bool experts = kind.has_experts ? kind.has_experts(b, il) : h.has_experts(il);
                 return experts ? blocks::experts(b, x, il, routing, kind.activation)
                                : blocks::ffn(b, x, il, kind.activation);
               },
           .mixer_post_norm = kind.post_norms ? "post_attention_norm" : "",
           .ffn_post_norm = kind.post_norms ? "post_ffw_norm" : "",
           .drafts = kind.drafts,
           .embedding_scale = kind.scales_embedding ? std::sqrt(static_cast<double>(h.width())) : 1});
}

} // namespace

constinit const ArchitectureFile arch::expert_decoder = {.build = build};

} // namespace ridge::models
