// GLM 4.
#include "models/checkpoints/drafts.h"
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

using checkpoints::kDraftLayers;

constexpr TensorRule kDense[] = {
    {"post_self_attn_layernorm", "post_attention_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
};
constexpr TensorRule kExperts[] = {{"post_attention_layernorm", "post_attention_norm"}};

} // namespace

constinit const Checkpoint checkpoints::glm4 = {.tensors = kDense, .rotated = 0.5};
constinit const Checkpoint checkpoints::glm4moe = {
    .base = &dots1, .tensors = kExperts, .drafts = kDraftLayers, .rotated = 0.5};

} // namespace ridge::models
