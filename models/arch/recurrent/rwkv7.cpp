// RWKV 7 (Goose); arwkv7: its attention in Qwen 2.5.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const int64_t shifts = h.get_int("token_shift_count", 2);
  if (shifts != 1 && shifts != 2)
    h.refuse("token_shift_count", std::to_string(shifts), "other numbers than 1 and 2 are");
  const bool own = shifts == 2;
  std::optional<ValueId> values;
  Builder::Model model = {
      .mixer =
          [&](ValueId x, int64_t il) {
            const auto [mixed, first] = blocks::time_mix7(b, x, values, il);
            values = first;
            return mixed;
          },
      .ffn = [&](ValueId x, int64_t il) { return own ? blocks::channel_mix(b, x, il, false) : blocks::ffn(b, x, il); },
      .ffn_norm = own ? "attn_norm_2" : "ffn_norm",
      .layer_norms = own,
      .norm_biases = true,
      .ffn_has_state = own};
  if (own) model.begin = [&](ValueId x) { return b.layer_norm(x, "token_embd_norm"); };
  b.build(model);
}

constinit const ArchitectureFile arch::rwkv7 = {.build = build};

} // namespace ridge::models
