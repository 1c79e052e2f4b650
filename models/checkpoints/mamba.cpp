// Mamba, Falcon Mamba and Jamba.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr TensorRule kMamba[] = {
    {"norm", "attn_norm"},          {"mixer.in_proj", "ssm_in"},
    {"mixer.conv1d", "ssm_conv1d"}, {"mixer.x_proj", "ssm_x"},
    {"mixer.dt_proj", "ssm_dt"},    {"mixer.A_log", "ssm_a", {.change = Change::negative_exp}},
    {"mixer.D", "ssm_d"},           {"mixer.out_proj", "ssm_out"},
    {"norm_f", "output_norm"},
};
constexpr FieldRule kMambaFields[] = {
    {"ssm.conv_kernel", Kind::count, "conv_kernel", 4},          {"ssm.state_size", Kind::count, "state_size", 16},
    {"ssm.inner_size", Kind::count, "intermediate_size"},        {"ssm.time_step_rank", Kind::count, "time_step_rank"},
    {"ssm.dt_b_c_rms", Kind::flag, "model_type = falcon_mamba"}, {"feed_forward_length", Kind::count, "0"},
};

constexpr TensorRule kJamba[] = {
    {"mamba.in_proj", "ssm_in"},
    {"mamba.conv1d", "ssm_conv1d"},
    {"mamba.x_proj", "ssm_x"},
    {"mamba.dt_proj", "ssm_dt"},
    {"mamba.A_log", "ssm_a", {.change = Change::negative_exp}},
    {"mamba.D", "ssm_d"},
    {"mamba.out_proj", "ssm_out"},
    {"mamba.dt_layernorm", "ssm_dt_norm"},
    {"mamba.b_layernorm", "ssm_b_norm"},
    {"mamba.c_layernorm", "ssm_c_norm"},
    {"feed_forward.experts.{}.gate_proj", "ffn_gate_exps"},
    {"feed_forward.experts.{}.up_proj", "ffn_up_exps"},
    {"feed_forward.experts.{}.down_proj", "ffn_down_exps"},
};
constexpr FieldRule kJambaFields[] = {
    {"ssm.conv_kernel", Kind::count, "mamba_d_conv", 4},
    {"ssm.state_size", Kind::count, "mamba_d_state", 16},
    {"ssm.inner_size", Kind::count, "mamba_expand * hidden_size"},
    {"ssm.time_step_rank", Kind::count, "mamba_dt_rank"},
};

} // namespace

constinit const Checkpoint checkpoints::mamba = {.tensors = kMamba, .fields = kMambaFields, .attention = false};
constinit const Checkpoint checkpoints::jamba = {
    .tensors = kJamba, .fields = kJambaFields, .layers = {.kv_heads = true}};

} // namespace ridge::models
