// gpt-oss.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr TensorRule kTensors[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", {.rows = Rows::even, .transposed = true}},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", {.rows = Rows::odd, .transposed = true}},
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", {.rows = Rows::even}},
    {"mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias", {.rows = Rows::odd}},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", {.transposed = true}},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
};
constexpr FieldRule kFields[] = {{"expert_feed_forward_length", Kind::count, "intermediate_size"}};

} // namespace

constinit const Checkpoint checkpoints::gpt_oss = {.tensors = kTensors, .fields = kFields, .layers = {.windows = true}};

} // namespace ridge::models
