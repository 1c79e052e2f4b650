// HRM-Text. Two stacks alternate, each with its own stream: the low one several times, then the high one. Passes share
// weights but not caches.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

namespace {

struct Stacks {
  Builder& b;
  int64_t layers;
  int64_t pass = 0;
  int64_t passes = 0;

  ValueId norm(ValueId x, const std::string& name) const { return b.unit_norm(x, name, b.hparams().width()); }

  ValueId run(ValueId x, bool high) {
    const AttentionSpec attention = {.rope = Rope::split, .rope_factors = false, .gate_matrix = true};
    for (int64_t i = 0; i < layers; ++i) {
      const int64_t slot = pass * layers + i, block = (high ? layers : 0) + i;
      b.begin_layer(slot);
      const std::string name = fmt::format("pass {} ", slot);
      x = b.add(x, blocks::attention(b, norm(x, name + "attn_norm"), block, attention), name + "attn_add");
      if (high && pass + 1 == passes && i + 1 == layers) x = b.gather(x);
      x = b.add(x, blocks::ffn(b, norm(x, name + "ffn_norm"), block), name + "ffn_add");
    }
    return norm(x, fmt::format("pass {} norm", pass++));
  }
};

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const int64_t high_cycles = h.positive_int("hrm.h_cycles", kMaxLayers),
                low_cycles = h.positive_int("hrm.l_cycles", kMaxLayers),
                layers = h.positive_int("hrm.layers_per_stack", kMaxLayers);
  Stacks stacks = {b, layers};
  stacks.passes = high_cycles * (low_cycles + 1);
  if (layers * stacks.passes != h.layers())
    h.refuse("block_count", std::to_string(h.layers()), "other numbers than one per pass and layer are");
  double scale = h.get_float("embedding_scale", 0);
  if (scale == 0) scale = 1;
  ValueId high = b.embed(scale), low = -1;
  for (int64_t i = 0; i < high_cycles; ++i) {
    for (int64_t j = 0; j < low_cycles; ++j)
      low = stacks.run(low < 0 ? b.embed(scale, core::RowUse::unscaled, "hrm.z_l_init")
                               : b.add(high, low, fmt::format("low input {}.{}", i, j)),
                       false);
    high = stacks.run(b.add(high, low, fmt::format("high input {}", i)), true);
  }
  b.logits(high, "");
}

} // namespace

constinit const ArchitectureFile arch::hrm_text = {.build = build};

} // namespace ridge::models
