// GLM 4, dense and with experts.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr TensorRule kDense[] = {
    {"post_self_attn_layernorm", "post_attention_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
};
constexpr TensorRule kExperts[] = {{"post_attention_layernorm", "post_attention_norm"}};
constexpr FieldRule kFields[] = {
    {"leading_dense_block_count", Kind::count, "first_k_dense_replace", 0},
    {"expert_shared_count", Kind::count, "n_shared_experts", 0},
    {"expert_gating_func", Kind::count, "2"}, // sigmoid
    {"expert_weights_norm", Kind::flag, "norm_topk_prob", 1},
    {"expert_weights_scale", Kind::real, "routed_scaling_factor", 1},
    {"expert_group_count", Kind::count, "n_group"},
    {"expert_group_used_count", Kind::count, "topk_group"},
};

} // namespace

constinit const Checkpoint checkpoints::glm4 = {.tensors = kDense, .rotated = 0.5};
constinit const Checkpoint checkpoints::glm4moe = {.tensors = kExperts, .fields = kFields, .rotated = 0.5};

} // namespace ridge::models
