// Llama 4 Scout and Maverick, text only.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  constexpr int64_t kChunk = 8192, kMaverickExperts = 128;
  // sliding_window = 0: no chunks, and rope in all layers but the last.
  const bool chunks = h.get_int("attention.sliding_window", kChunk) != 0;
  const int64_t rope_step = chunks ? 4 : h.layers();
  const bool norms = h.experts() != kMaverickExperts;
  const RoutingSpec routing = {
      .normalize = false, .gate = core::Gate::sigmoid, .shared = true, .by_score = true, .shares_scale_input = true};
  const auto attention = [&](ValueId x, int64_t il) {
    AttentionSpec spec;
    const bool chunked = chunks && h.slides(il, 4);
    spec.window = chunked ? kChunk : 0;
    spec.chunked = chunked;
    if ((il + 1) % rope_step != 0) {
      spec.rope = Rope::adjacent;
      spec.qk_unit_norm = norms;
      if (const double base = h.get_float("rope.freq_base_swa", 0); chunked && base != 0) spec.rope_base = base;
    } else if (chunks) {
      spec.position_scale = {0.1f, kChunk, 1};
    }
    return blocks::attention(b, x, il, spec);
  };
  b.build({.mixer = attention, .ffn = [&](ValueId x, int64_t il) { return blocks::feed_forward(b, x, il, routing); }});
}

constinit const ArchitectureFile arch::llama4 = {.build = build};

} // namespace ridge::models
