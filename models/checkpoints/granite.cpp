// Granite 3 and 4.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr TensorRule kTensors[] = {
    {"self_attn.q_proj", "attn_q", {.rows = Rows::rope_pairs}},
    {"self_attn.k_proj", "attn_k", {.rows = Rows::rope_pairs}},
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"block_sparse_moe.input_linear", "ffn_gate_exps", {.rows = Rows::first_half}},
    {"block_sparse_moe.input_linear", "ffn_up_exps", {.rows = Rows::second_half}},
    {"block_sparse_moe.output_linear", "ffn_down_exps"},
    {"shared_mlp.input_linear", "ffn_gate", {.rows = Rows::first_half, .only = Only::dense}},
    {"shared_mlp.input_linear", "ffn_up", {.rows = Rows::second_half, .only = Only::dense}},
    {"shared_mlp.output_linear", "ffn_down", {.only = Only::dense}},
    {"shared_mlp.input_linear", "ffn_gate_shexp", {.rows = Rows::first_half, .only = Only::experts}},
    {"shared_mlp.input_linear", "ffn_up_shexp", {.rows = Rows::second_half, .only = Only::experts}},
    {"shared_mlp.output_linear", "ffn_down_shexp", {.only = Only::experts}},
    {"mamba.in_proj", "ssm_in"},
    {"mamba.conv1d", "ssm_conv1d"},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.A_log", "ssm_a", {.change = Change::negative_exp, .as = As::column}},
    {"mamba.D", "ssm_d", {.as = As::column}},
    {"mamba.norm", "ssm_norm", {.as = As::by_group}},
    {"mamba.out_proj", "ssm_out"},
};
constexpr FieldRule kFields[] = {
    {"rope.scaling.finetuned", Kind::flag, "position_embedding_type = rope | 0 * mamba_n_heads", 1},
    {"feed_forward_length", Kind::count, "shared_intermediate_size | intermediate_size", {}, Only::dense},
    {"attention.scale", Kind::real, "attention_multiplier", 1},
    {"embedding_scale", Kind::real, "embedding_multiplier", 1},
    {"residual_scale", Kind::real, "residual_multiplier", 1},
    {"logit_scale", Kind::real, "logits_scaling", 1},
    {"ssm.conv_kernel", Kind::count, "mamba_d_conv"},
    {"ssm.state_size", Kind::count, "mamba_d_state"},
    {"ssm.group_count", Kind::count, "mamba_n_groups"},
    {"ssm.time_step_rank", Kind::count, "mamba_n_heads"},
    {"ssm.inner_size", Kind::count, "mamba_expand * hidden_size"},
};
constexpr FixedField kFixed[] = {{"time_step_limit.0", 0, 0}, {"time_step_limit.1", kUnlimited, kUnlimited}};

} // namespace

constinit const Checkpoint checkpoints::granite = {
    .tensors = kTensors, .fields = kFields, .fixed = kFixed, .layers = {.kv_heads = true}};

} // namespace ridge::models
