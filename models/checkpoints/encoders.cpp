// BERT-like encoders, ModernBERT and T5.
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr std::string_view kGelu = "gelu | gelu_new | gelu_pytorch_tanh";
constexpr FieldRule kSeesAll = {"attention.causal", Kind::flag, "0"};
constexpr FieldRule kEpsilon = {"attention.layer_norm_epsilon", Kind::real,
                                "layer_norm_eps | layer_norm_epsilon | norm_eps", 1e-12};
constexpr FieldRule kNormed[] = {kSeesAll, kEpsilon};

constexpr TensorRule kBert[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.position_embeddings", "position_embd", {.rows = Rows::positions}},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
};
constexpr FieldRule kBertFields[] = {
    kSeesAll,
    kEpsilon,
    {"context_length", Kind::count,
     "max_position_embeddings + -1 * model_type = roberta / xlm-roberta / camembert"
     " + -1 * model_type = roberta / xlm-roberta / camembert * pad_token_id"},
};
constexpr FixedField kBertFixed[] = {{"position_embedding_type = absolute", 1, 1}, {"is_decoder", 0, 0}};

// "gated" is up's half in text models, the gate's in code models.
constexpr TensorRule kJina2[] = {
    {"attention.self.layer_norm_q", "attn_q_norm"},
    {"attention.self.layer_norm_k", "attn_k_norm"},
    {"layer_norm_1", "attn_norm_2"},
    {"layer_norm_2", "layer_output_norm"},
    {"mlp.layernorm", "layer_output_norm"},
    {"mlp.gated_layers", "ffn_gate", {.rows = Rows::first_half}},
    {"mlp.gated_layers", "ffn_up", {.rows = Rows::second_half}},
    {"mlp.up_gated_layer", "ffn_up", {.rows = Rows::first_half}},
    {"mlp.up_gated_layer", "ffn_gate", {.rows = Rows::second_half}},
    {"mlp.wo", "ffn_down"},
    {"mlp.down_layer", "ffn_down"},
};
constexpr FixedField kJina2Fixed[] = {{"position_embedding_type = alibi", 1, 0}, {"feed_forward_type = geglu", 1, 0}};

constexpr TensorRule kNomic[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"emb_ln", "token_embd_norm"},
    {"attn.Wqkv", "attn_qkv"},
    {"mixer.Wqkv", "attn_qkv"},
    {"attn.out_proj", "attn_output"},
    {"mixer.out_proj", "attn_output"},
    {"norm1", "attn_output_norm"},
    {"norm2", "layer_output_norm"},
    {"mlp.fc11", "ffn_up"},
    {"mlp.fc12", "ffn_gate"},
};
constexpr FixedField kNomicFixed[] = {{"prenorm", 0, 0}, {"moe_every_n_layers", 0, 0}, {"rotary_emb_fraction", 1, 1}};

constexpr TensorRule kModern[] = {
    {"embeddings.tok_embeddings", "token_embd"},
    {"embeddings.norm", "token_embd_norm"},
    {"final_norm", "output_norm"},
    {"attn_norm", "attn_norm"},
    {"attn.Wqkv", "attn_qkv"},
    {"attn.Wo", "attn_output"},
    {"mlp_norm", "ffn_norm"},
    {"mlp.Wi", "ffn_up"},
    {"mlp.Wo", "ffn_down"},
};
constexpr FieldRule kModernFields[] = {
    kSeesAll,
    {"attention.layer_norm_epsilon", Kind::real, "norm_eps", 1e-5},
    {"attention.sliding_window", Kind::count, "local_attention", 128},
    {"attention.sliding_window_pattern", Kind::count, "global_attn_every_n_layers", 3},
};

constexpr FieldRule kEuro[] = {kSeesAll};

constexpr TensorRule kT5[] = {
    {"shared", "token_embd"},
    {"encoder.final_layer_norm", "enc.output_norm"},
    {"layer.0.SelfAttention.q", "attn_q"},
    {"layer.0.SelfAttention.k", "attn_k"},
    {"layer.0.SelfAttention.v", "attn_v"},
    {"layer.0.SelfAttention.o", "attn_o"},
    {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"},
    {"layer.0.layer_norm", "attn_norm"},
    {"layer.1.layer_norm", "ffn_norm"},
    {"layer.1.DenseReluDense.wi", "ffn_up"},
    {"layer.1.DenseReluDense.wi_0", "ffn_gate"},
    {"layer.1.DenseReluDense.wi_1", "ffn_up"},
    {"layer.1.DenseReluDense.wo", "ffn_down"},
};
constexpr FieldRule kT5EncoderFields[] = {kSeesAll};
constexpr FieldRule kT5Fields[] = {
    {"context_length", Kind::count, "n_positions", 512},
    {"feed_forward_length", Kind::count, "d_ff"},
    {"attention.key_length", Kind::count, "d_kv"},
    {"attention.value_length", Kind::count, "d_kv"},
    {"attention.relative_buckets_count", Kind::count, "relative_attention_num_buckets", 32},
};
constexpr TensorRule kT5Model[] = {{"decoder.final_layer_norm", "dec.output_norm"}};
constexpr TensorRule kT5Decoder[] = {
    {"layer.0.SelfAttention.q", "attn_q"},
    {"layer.0.SelfAttention.k", "attn_k"},
    {"layer.0.SelfAttention.v", "attn_v"},
    {"layer.0.SelfAttention.o", "attn_o"},
    {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"},
    {"layer.0.layer_norm", "attn_norm"},
    {"layer.1.EncDecAttention.q", "cross_attn_q"},
    {"layer.1.EncDecAttention.k", "cross_attn_k"},
    {"layer.1.EncDecAttention.v", "cross_attn_v"},
    {"layer.1.EncDecAttention.o", "cross_attn_o"},
    {"layer.1.EncDecAttention.relative_attention_bias", "cross_attn_rel_b"},
    {"layer.1.layer_norm", "cross_attn_norm"},
    {"layer.2.layer_norm", "ffn_norm"},
    {"layer.2.DenseReluDense.wi", "ffn_up"},
    {"layer.2.DenseReluDense.wi_0", "ffn_gate"},
    {"layer.2.DenseReluDense.wi_1", "ffn_up"},
    {"layer.2.DenseReluDense.wo", "ffn_down"},
};
constexpr FieldRule kT5DecoderFields[] = {
    {"decoder_block_count", Kind::count, "num_decoder_layers | num_layers"},
    {"decoder_start_token_id", Kind::count, "decoder_start_token_id | pad_token_id", 0},
    // T5 divides logits by sqrt(width); T5 1.1 and mT5 do not.
    {"logit_scale", Kind::real,
     "scale_decoder_outputs | tie_word_embeddings | 1 * model_type = t5 / umt5 * d_model ^ 0.5", 0},
};
constexpr FixedField kT5Fixed[] = {{"relative_attention_max_distance", 128, 128},
                                   {"feed_forward_proj = relu / gated-gelu", 1, 1}};

} // namespace

constinit const Checkpoint checkpoints::bert = {
    .tensors = kBert, .fields = kBertFields, .fixed = kBertFixed, .head = false, .activation = kGelu};
constinit const Checkpoint checkpoints::nomic_bert = {
    .tensors = kNomic, .fields = kNormed, .fixed = kNomicFixed, .head = false, .activation = "silu | swiglu"};
static constexpr Checkpoint kBertNames = {.tensors = kBert, .fields = kNormed};
constinit const Checkpoint checkpoints::jina_bert_v2 = {
    .base = &kBertNames, .tensors = kJina2, .fixed = kJina2Fixed, .head = false, .activation = kGelu};
constinit const Checkpoint checkpoints::jina_bert_v3 = {
    .tensors = kNomic, .fields = kNormed, .fixed = kNomicFixed, .head = false, .activation = kGelu};
constinit const Checkpoint checkpoints::modern_bert = {
    .tensors = kModern, .fields = kModernFields, .head = false, .activation = kGelu};
static constexpr Checkpoint kT5Both = {.tensors = kT5, .fields = kT5Fields, .fixed = kT5Fixed};
constinit const Checkpoint checkpoints::t5encoder = {
    .base = &kT5Both, .fields = kT5EncoderFields, .head = false, .stack = "enc."};
constinit const Checkpoint checkpoints::t5 = {.base = &kT5Both,
                                              .tensors = kT5Model,
                                              .fields = kT5DecoderFields,
                                              .decoder = kT5Decoder,
                                              .own_head = true,
                                              .stack = "enc."};
constinit const Checkpoint checkpoints::eurobert = {.fields = kEuro, .head = false};

} // namespace ridge::models
