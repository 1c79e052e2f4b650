// Falcon-H1.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 const ValueId attended =
                     blocks::attention(b, x, il, {.rope = Rope::split, .rope_factors = false, .output_bias = false});
                 return b.add(attended, blocks::mamba2(b, x, il), fmt::format("blk.{}.mixer_add", il));
               },
           .ffn = [&](ValueId x, int64_t il) { return blocks::ffn(b, x, il); }});
}

static constexpr TensorRule kTensors[] = {
    {"embed_tokens", "token_embd", {.scale = "embedding_multiplier"}},
    {"lm_head", "output", {.scale = "lm_head_multiplier"}},
    {"self_attn.q_proj", "attn_q", {.scale = "attention_in_multiplier"}},
    {"self_attn.k_proj", "attn_k", {.scale = "attention_in_multiplier * key_multiplier"}},
    {"self_attn.v_proj", "attn_v", {.scale = "attention_in_multiplier"}},
    {"self_attn.o_proj", "attn_output", {.scale = "attention_out_multiplier"}},
    {"feed_forward.gate_proj", "ffn_gate", {.scale = "mlp_multipliers.0"}},
    {"feed_forward.down_proj", "ffn_down", {.scale = "mlp_multipliers.1"}},
    {"mamba.in_proj", "ssm_in", {.change = Change::ssm_multipliers, .scale = "ssm_in_multiplier"}},
    {"mamba.conv1d", "ssm_conv1d"},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.A_log", "ssm_a", {.change = Change::negative_exp, .as = As::column}},
    {"mamba.D", "ssm_d", {.as = As::column}},
    {"mamba.norm", "ssm_norm", {.as = As::by_group}},
    {"mamba.out_proj", "ssm_out", {.scale = "ssm_out_multiplier"}},
};
static constexpr FieldRule kFields[] = {
    {"ssm.conv_kernel", Kind::count, "mamba_d_conv", 4},
    {"ssm.state_size", Kind::count, "mamba_d_state", 256},
    {"ssm.group_count", Kind::count, "mamba_n_groups", 1},
    {"ssm.time_step_rank", Kind::count, "mamba_n_heads", 128},
    {"ssm.inner_size", Kind::count, "mamba_d_ssm"},
    {"ssm.inner_size", Kind::count, "mamba_expand | 2 * hidden_size"},
};

constinit const ArchitectureFile arch::falcon_h1 = {.build = build,
                                                    .checkpoint = {.tensors = kTensors, .fields = kFields}};

} // namespace ridge::models
