// Mamba 2 and Codestral Mamba.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  b.build({.mixer = [&](ValueId x, int64_t il) { return blocks::mamba2(b, x, il); }});
}

static constexpr TensorRule kTensors[] = {
    {"norm", "attn_norm"},
    {"mixer.in_proj", "ssm_in"},
    {"mixer.conv1d", "ssm_conv1d"},
    {"mixer.dt_bias", "ssm_dt.bias"},
    {"mixer.A_log", "ssm_a", {.change = Change::negative_exp, .as = As::column}},
    {"mixer.D", "ssm_d", {.as = As::column}},
    {"mixer.norm", "ssm_norm", {.as = As::by_group}},
    {"mixer.out_proj", "ssm_out"},
};
static constexpr FieldRule kFields[] = {
    {"feed_forward_length", Kind::count, "0"},          {"ssm.conv_kernel", Kind::count, "conv_kernel", 4},
    {"ssm.state_size", Kind::count, "state_size", 128}, {"ssm.group_count", Kind::count, "n_groups", 1},
    {"ssm.time_step_rank", Kind::count, "num_heads"},   {"ssm.inner_size", Kind::count, "expand | 2 * hidden_size"},
};
static constexpr FixedField kFixed[] = {{"time_step_limit.0", 0, 0}, {"time_step_limit.1", kUnlimited, kUnlimited}};

constinit const ArchitectureFile arch::mamba2 = {
    .build = build, .checkpoint = {.tensors = kTensors, .fields = kFields, .fixed = kFixed, .attention = false}};

} // namespace ridge::models
