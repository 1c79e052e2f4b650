// RWKV 6 (Finch). f16 files have rescaled weights: the stream is halved every few layers.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const Hparams& h = b.hparams();
  const int64_t halved_every = h.get_int("rescale_every_n_layers", 0);
  if (const int64_t shifts = h.get_int("token_shift_count", 2); shifts != 2)
    h.refuse("token_shift_count", std::to_string(shifts), "other numbers than 2 are");
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::time_mix(b, x, il); },
           .ffn = [&](ValueId x, int64_t il) { return blocks::channel_mix(b, x, il, true); },
           .ffn_norm = "attn_norm_2",
           .layer_norms = true,
           .ffn_has_state = true,
           .begin = [&](ValueId x) { return b.layer_norm(x, "token_embd_norm"); },
           .end_layer =
               [&](ValueId x, int64_t il) {
                 if (halved_every <= 0 || (il + 1) % halved_every != 0) return x;
                 return b.scaled(x, fmt::format("blk.{}.half", il), 0.5);
               }});
}

constinit const ArchitectureFile arch::rwkv6 = {.build = build};

} // namespace ridge::models
