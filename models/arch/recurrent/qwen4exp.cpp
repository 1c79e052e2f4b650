// Qwen3.8-Flash-Next.
#include "models/architecture.h"
#include "models/blocks/blocks.h"

namespace ridge::models {

using core::ValueId;

static void build(Builder& b) {
  const AttentionSpec attention = {
      .rope = Rope::split, .qk_norm = true, .rope_axes = RopeAxes::interleaved, .qkv_bias = false, .output_gate = true};
  const auto mixer = [&](ValueId x, int64_t il) {
    if (b.hparams().is_recurrent(il)) return blocks::delta_net(b, x, il, false, core::Activation::sigmoid);
    AttentionSpec sparse = attention;
    sparse.chosen = blocks::chosen_blocks(b, x, il, attention);
    return blocks::attention(b, x, il, sparse);
  };
  const auto feed_forward = [&](ValueId x, int64_t il) {
    return blocks::experts(b, x, il, {.normalize = true, .gate = core::Gate::softmax, .shared = true});
  };
  b.build({.mixer = mixer,
           .ffn = feed_forward,
           .mixer_norm = "",
           .ffn_norm = "",
           .output_norm = "",
           .hyper_connections = HyperConnections::gated,
           .start_layer = [&](ValueId x, int64_t il) { return blocks::add_ngrams(b, x, il); }});
}

static constexpr TensorRule kTensors[] = {
    {"hyper_connection_mixer.hc_norm", "output_hc_norm", {.change = Change::plus_one}},
    {"hyper_connection_mixer.input_mix_weight_down", "output_hc_down"},
    {"hyper_connection_mixer.input_mix_weight_up", "output_hc_up"},
    {"attn_hyper_connection.hc_norm", "hc_attn_norm", {.change = Change::plus_one}},
    {"attn_hyper_connection.input_mix_weight_down", "hc_attn_down"},
    {"attn_hyper_connection.input_mix_weight_up", "hc_attn_up"},
    {"attn_hyper_connection.block_inject_weight", "hc_attn_inject"},
    {"mlp_hyper_connection.hc_norm", "hc_ffn_norm", {.change = Change::plus_one}},
    {"mlp_hyper_connection.input_mix_weight_down", "hc_ffn_down"},
    {"mlp_hyper_connection.input_mix_weight_up", "hc_ffn_up"},
    {"mlp_hyper_connection.block_inject_weight", "hc_ffn_inject"},
    {"self_attn.indexer.index_qk_proj", "indexer.q_proj", {.rows = Rows::index_queries}},
    {"self_attn.indexer.index_qk_proj", "indexer.k_proj", {.rows = Rows::index_key}},
    {"self_attn.indexer.q_layernorm", "indexer.q_norm", {.change = Change::plus_one}},
    {"self_attn.indexer.k_layernorm", "indexer.k_norm", {.change = Change::plus_one}},
    {"ple.key_proj", "ple_key"},
    {"ple.value_proj", "ple_value"},
    {"ple.norm_key", "ple_norm_key", {.change = Change::plus_one}},
    {"ple.norm_query", "ple_norm_query", {.change = Change::plus_one}},
    {"ple.norm_conv", "ple_norm_conv", {.change = Change::plus_one}},
    {"ple.conv1d", "ple_conv1d"},
    {"ple.ple_embedding.ngram_embedding.shard_{}", "/per_layer_token_embd", {.as = As::stacked}},
    {"ple.ple_embedding.ngram_embedding", "/per_layer_token_embd"},
};
static constexpr FieldRule kFields[] = {
    {"hyper_connection.count", Kind::count, "hc_count", 4},
    {"hyper_connection.low_rank", Kind::count, "hc_lowrank", 320},
    {"attention.indexer.head_count", Kind::count, "indexer_n_heads"},
    {"attention.indexer.key_length", Kind::count, "indexer_head_dim"},
    {"attention.indexer.top_k", Kind::count, "indexer_budget"},
};
static constexpr FixedField kFixed[] = {{"indexer_kv_heads", 1, 1},
                                        {"attention_bias", 0, 0},
                                        {"norm_topk_prob", 1, 1},
                                        {"output_gate_type = sigmoid", 1, 0}};
static constexpr NumberRule kNumbers[] = {
    {"ple.ple_embedding.layer_multipliers", "qwen4exp.ple.layer_multipliers", true},
    {"ple.ple_embedding.ngram_heads_offsets", "qwen4exp.ple.head_offsets", true},
    {"ple.ple_embedding.ngram_heads_vocab_sizes", "qwen4exp.ple.head_vocab_sizes", true},
};

constinit const ArchitectureFile arch::qwen4exp = {
    .build = build,
    .checkpoint = {.base = &arch::qwen35.checkpoint,
                   .tensors = kTensors,
                   .fields = kFields,
                   .fixed = kFixed,
                   .numbers = kNumbers,
                   .layers = {.recurrent_layers = true, .block_sizes = true, .ngrams = true},
                   .rotated = 0.25,
                   .sections = {11, 11, 10}}};

} // namespace ridge::models
