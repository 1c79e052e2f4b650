// Decoders with layer norms: GPT 2 and NeoX, Phi 2, StarCoder 2, Nemotron, StableLM, Jais 2.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr FieldRule kEpsilon = {"attention.layer_norm_epsilon", Kind::real,
                                "layer_norm_eps | norm_epsilon | layer_norm_epsilon | norm_eps", 1e-5};
constexpr std::string_view kGelu = "gelu_new | gelu_pytorch_tanh | gelu_fast | gelu";

constexpr TensorRule kGpt2[] = {
    {"attn.c_attn", "attn_qkv", {.transposed = true}},
    {"attn.c_proj", "attn_output", {.transposed = true}},
    {"mlp.c_fc", "ffn_up", {.transposed = true}},
    {"mlp.c_proj", "ffn_down", {.transposed = true}},
};
constexpr FieldRule kGpt2Fields[] = {
    kEpsilon, {"feed_forward_length", Kind::count, "n_inner"}, {"feed_forward_length", Kind::count, "4 * n_embd"}};
constexpr FixedField kGpt2Fixed[] = {
    {"scale_attn_weights", 1, 1}, {"scale_attn_by_inverse_layer_idx", 0, 0}, {"add_cross_attention", 0, 0}};

constexpr TensorRule kNeoX[] = {{"attention.query_key_value", "attn_qkv", {.rows = Rows::grouped_qkv}}};
constexpr FieldRule kNeoXFields[] = {kEpsilon, {"use_parallel_residual", Kind::flag, "use_parallel_residual", 1}};

constexpr FieldRule kLayerNorms[] = {kEpsilon};
constexpr FixedField kNoHeadNorms[] = {{"qk_layernorm", 0, 0}};
constexpr FixedField kParallel[] = {{"qk_layernorm", 0, 0}, {"use_parallel_residual", 0, 0}};

constexpr TensorRule kNemotron[] = {
    {"input_layernorm", "attn_norm", {.change = Change::plus_one}},
    {"post_attention_layernorm", "ffn_norm", {.change = Change::plus_one}},
    {"norm", "output_norm", {.change = Change::plus_one}},
};

} // namespace

constinit const Checkpoint checkpoints::gpt2 = {
    .tensors = kGpt2, .fields = kGpt2Fields, .fixed = kGpt2Fixed, .activation = kGelu};
constinit const Checkpoint checkpoints::gptneox = {
    .tensors = kNeoX, .fields = kNeoXFields, .rotated = 0.25, .activation = kGelu};
constinit const Checkpoint checkpoints::phi2 = {
    .fields = kLayerNorms, .fixed = kNoHeadNorms, .rotated = 0.5, .activation = kGelu};
constinit const Checkpoint checkpoints::starcoder2 = {
    .fields = kLayerNorms, .slides_by_default = true, .activation = kGelu};
constinit const Checkpoint checkpoints::nemotron = {
    .tensors = kNemotron, .fields = kLayerNorms, .rotated = 0.5, .activation = "relu2"};
constinit const Checkpoint checkpoints::stablelm = {.fields = kLayerNorms, .fixed = kParallel, .rotated = 0.25};
constinit const Checkpoint checkpoints::jais2 = {.fields = kLayerNorms, .activation = "relu2"};

} // namespace ridge::models
