// Mamba, Falcon Mamba, Jamba and RWKV 7.
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

constexpr TensorRule kRwkv7[] = {
    {"layers.0.pre_norm", "token_embd_norm"},
    {"ffn_norm", "attn_norm_2"},
    {"attn_norm", "attn_norm"},
    {"attn.x_{r,w,k,v,a,g}", "time_mix_lerp_fused.weight", {.as = As::parts}},
    {"attn.x_x", "time_mix_lerp_fused.weight"},
    {"attn.w_lora.lora.0.weight", "time_mix_w1.weight"},
    {"attn.w_lora.lora.2.weight", "time_mix_w2.weight"},
    {"attn.w_lora.lora.2.bias", "time_mix_w0.weight"},
    {"attn.a_lora.lora.0.weight", "time_mix_a1.weight"},
    {"attn.a_lora.lora.2.weight", "time_mix_a2.weight"},
    {"attn.a_lora.lora.2.bias", "time_mix_a0.weight"},
    {"attn.v_lora.lora.0.weight", "time_mix_v1.weight"},
    {"attn.v_lora.lora.2.weight", "time_mix_v2.weight"},
    {"attn.v_lora.lora.2.bias", "time_mix_v0.weight"},
    // The first layer has none; llama.cpp expects some.
    {"attn.a_lora.lora.0.weight", "time_mix_v1.weight"},
    {"attn.a_lora.lora.2.weight", "time_mix_v2.weight"},
    {"attn.a_lora.lora.2.bias", "time_mix_v0.weight"},
    {"attn.g_lora.lora.0.weight", "time_mix_g1.weight"},
    {"attn.g_lora.lora.2.weight", "time_mix_g2.weight"},
    {"attn.k_k", "time_mix_k_k.weight", {.as = As::flat}},
    {"attn.k_a", "time_mix_k_a.weight", {.as = As::flat}},
    {"attn.r_k", "time_mix_r_k.weight", {.as = As::flat}},
    {"attn.r_proj", "time_mix_receptance"},
    {"attn.k_proj", "time_mix_key"},
    {"attn.v_proj", "time_mix_value"},
    {"attn.o_proj", "time_mix_output"},
    {"attn.g_norm", "time_mix_ln"},
    {"ffn.x_k", "channel_mix_lerp_k.weight", {.as = As::flat}},
    {"ffn.key", "channel_mix_key"},
    {"ffn.value", "channel_mix_value"},
};
constexpr FieldRule kRwkv7Fields[] = {
    {"context_length", Kind::count, "1048576"}, // arbitrary: the model has no positions
    {"wkv.head_size", Kind::count, "head_dim"},
    {"attention.layer_norm_epsilon", Kind::real, "norm_eps", 1e-5},
    {"attention.decay_lora_rank", Kind::count, "decay_low_rank_dim"},
    {"attention.iclr_lora_rank", Kind::count, "a_low_rank_dim"},
    {"attention.value_residual_mix_lora_rank", Kind::count, "v_low_rank_dim"},
    {"attention.gate_lora_rank", Kind::count, "gate_low_rank_dim"},
    {"feed_forward_length", Kind::count, "intermediate_size"},
    {"feed_forward_length", Kind::count, "hidden_ratio * hidden_size"},
};
// The heads' norm has a fixed epsilon.
constexpr FixedField kRwkv7Fixed[] = {{"head_dim", 64, 64}, {"norm_eps", 1e-5, 1e-5}, {"norm_first", 1, 1}};

} // namespace

constinit const Checkpoint checkpoints::mamba = {.tensors = kMamba, .fields = kMambaFields, .attention = false};
constinit const Checkpoint checkpoints::rwkv7 = {
    .tensors = kRwkv7, .fields = kRwkv7Fields, .fixed = kRwkv7Fixed, .attention = false, .activation = "sqrelu"};
constinit const Checkpoint checkpoints::jamba = {
    .tensors = kJamba, .fields = kJambaFields, .layers = {.kv_heads = true}};

} // namespace ridge::models
