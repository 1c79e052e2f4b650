// Experts chosen by scores, behind some dense layers and with a shared one where the file has them: bailingmoe and
// bailingmoe2 (Ling, Ring), deepseek (DeepSeek MoE), dots1, olmoe and minimax-m2.
#include "models/architecture.h"
#include "models/blocks.h"

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
};

constexpr AttentionSpec kPlain = {.rope = Rope::adjacent},
                        kNormed = {.rope = Rope::split, .qk_norm = true, .rope_factors = false},
                        kNormedWhole = {
                            .rope = Rope::split, .qk_norm = true, .norms_whole_rows = true, .rope_factors = false};
constexpr auto kKinds = std::to_array<Kind>({
    {"bailingmoe", kPlain, {}, core::Gate::softmax},
    {"bailingmoe2", kNormed, {}, {}},
    {"deepseek", kPlain, false, core::Gate::softmax},
    {"dots1", kNormed, {}, {}},
    {"olmoe", kNormedWhole, false, core::Gate::softmax},
    {"minimax-m2", kNormedWhole, true, {}},
});

void build(Builder& b) {
  const Hparams& h = b.hparams();
  const Kind& kind = *std::ranges::find(kKinds, h.architecture(), &Kind::name);
  AttentionSpec attention = kind.attention;
  if (kind.name == "bailingmoe") attention.scale = 1 / std::sqrt(static_cast<double>(h.rope_dims(h.k_dim(0))));
  h.get_int("expert_shared_count", 0); // they are one, as wide as their tensors
  RoutingSpec routing = {.normalize = kind.normalize ? kind.normalize : h.get_bool("expert_weights_norm", false),
                         .gate = kind.gate,
                         .selection_bias = true,
                         .shared = true};
  b.transformer(attention, [&](ValueId x, int64_t il) {
    if (kind.name == "minimax-m2" || kind.name == "olmoe") routing.width = h.ffn_width(il);
    return kind.name == "bailingmoe" ? b.experts(x, il, routing) : b.feed_forward(x, il, routing);
  });
}

} // namespace

constinit const ArchitectureFile arch::bailing = {.build = build};

} // namespace ridge::models
