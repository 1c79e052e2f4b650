// Decoders with layer norms.
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

constexpr FieldRule kBigCodeFields[] = {
    kEpsilon, {"feed_forward_length", Kind::count, "n_inner"}, {"feed_forward_length", Kind::count, "4 * n_embd"}};
constexpr FixedField kBigCodeFixed[] = {{"scale_attn_weights", 1, 1}, {"multi_query", 1, 1}};

constexpr TensorRule kBloom[] = {
    {"word_embeddings_layernorm", "token_embd_norm"},
    {"self_attention.query_key_value", "attn_qkv", {.rows = Rows::grouped_qkv}},
    {"self_attention.dense", "attn_output"},
};
constexpr FieldRule kBloomFields[] = {kEpsilon, {"feed_forward_length", Kind::count, "4 * hidden_size | n_embed"}};
constexpr FixedField kBloomFixed[] = {{"apply_residual_connection_post_layernorm", 0, 0}};

constexpr TensorRule kFalcon[] = {
    {"self_attention.query_key_value", "attn_qkv", {.rows = Rows::grouped_qkv}},
    {"self_attention.dense", "attn_output"},
    {"ln_mlp", "attn_norm"},
    {"ln_attn", "attn_norm_2"},
};
constexpr FieldRule kFalconFields[] = {kEpsilon,
                                       {"feed_forward_length", Kind::count, "ffn_hidden_size"},
                                       {"feed_forward_length", Kind::count, "4 * hidden_size"}};
constexpr FixedField kFalconFixed[] = {{"parallel_attn", 1, 1}, {"alibi", 0, 0}, {"multi_query", 1, 1}};

constexpr TensorRule kMpt[] = {
    {"norm_1", "attn_norm"},          {"norm_2", "ffn_norm"},        {"attn.Wqkv", "attn_qkv"},
    {"attn.out_proj", "attn_output"}, {"attn.q_ln", "attn_q_norm"},  {"attn.k_ln", "attn_k_norm"},
    {"ffn.up_proj", "ffn_up"},        {"ffn.down_proj", "ffn_down"},
};
constexpr FieldRule kMptFields[] = {
    kEpsilon,
    {"feed_forward_length", Kind::count, "expansion_ratio * d_model"},
    {"attention.max_alibi_bias", Kind::real, "attn_config.alibi * attn_config.alibi_bias_max", 0},
    {"attention.clamp_kqv", Kind::real, "attn_config.clip_qkv"},
};
constexpr FixedField kMptFixed[] = {{"attn_config.prefix_lm", 0, 0}};

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
constinit const Checkpoint checkpoints::starcoder = {
    .fields = kBigCodeFields, .fixed = kBigCodeFixed, .kv_heads = "1", .activation = kGelu};
constinit const Checkpoint checkpoints::bloom = {.tensors = kBloom, .fields = kBloomFields, .fixed = kBloomFixed};
constinit const Checkpoint checkpoints::falcon = {.tensors = kFalcon,
                                                  .fields = kFalconFields,
                                                  .fixed = kFalconFixed,
                                                  // The old architecture has one KV head.
                                                  .kv_heads = "num_kv_heads ^ new_decoder_architecture",
                                                  .activation = kGelu};
constinit const Checkpoint checkpoints::mpt = {.tensors = kMpt, .fields = kMptFields, .fixed = kMptFixed};
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
