// Windows in some layers: Laguna, Mellum, Granite.
#include "models/architecture.h"
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr TensorRule kLaguna[] = {{"self_attn.g_proj", "attn_gate"}};
constexpr FieldRule kLagunaFields[] = {
    {"attention.head_count", Kind::counts, "num_attention_heads_per_layer"},
    {"leading_dense_block_count", Kind::count, "mlp_layer_types = dense", 0},
    {"expert_gating_func", Kind::count, "2"},
    {"expert_weights_norm", Kind::flag, "1"},
    {"expert_weights_scale", Kind::real, "moe_routed_scaling_factor", 1},
};
constexpr FixedField kLagunaFixed[] = {{"moe_apply_router_weight_on_input", 0, 0},
                                       {"moe_router_logit_softcapping", 0, 0}};

constexpr FieldRule kMellum[] = {{"expert_feed_forward_length", Kind::count, "moe_intermediate_size"}};
constexpr FixedField kMellumFixed[] = {
    {"norm_topk_prob", 1, 0},
    // Layers with a window must have the same base.
    {"rope_parameters.sliding_attention.rope_theta + -1 * rope_parameters.full_attention.rope_theta", 0, 0}};

constexpr TensorRule kGraniteSwa[] = {{"block_sparse_moe.router", "ffn_gate_inp"}};

} // namespace

constinit const Checkpoint checkpoints::granite_swa = {
    .base = &arch::granite.checkpoint, .tensors = kGraniteSwa, .layers = {.windows = true, .rope_pattern = true}};
constinit const Checkpoint checkpoints::laguna = {
    .tensors = kLaguna, .fields = kLagunaFields, .fixed = kLagunaFixed, .layers = {.windows = true}};
constinit const Checkpoint checkpoints::mellum = {
    .fields = kMellum, .fixed = kMellumFixed, .layers = {.windows = true}};

} // namespace ridge::models
