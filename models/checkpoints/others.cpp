// Small differences from the common layout.
#include "models/checkpoints/drafts.h"
#include "models/checkpoints/rows.h"

namespace ridge::models {
namespace {

constexpr TensorRule kRotated[] = {{"self_attn.q_proj", "attn_q", {.rows = Rows::rope_pairs}},
                                   {"self_attn.k_proj", "attn_k", {.rows = Rows::rope_pairs}}};
constexpr TensorRule kPostNorms[] = {{"post_attention_layernorm", "post_attention_norm"},
                                     {"post_feedforward_layernorm", "post_ffw_norm"}};

constexpr FieldRule kMistral[] = {
    {"attention.temperature_scale", Kind::real, "rope_parameters.llama_4_scaling_beta"},
    {"rope.scaling.yarn_log_multiplier", Kind::real, "rope_parameters.mscale_all_dim"},
};

constexpr FixedField kSmolLm[] = {{"no_rope_layer_interval", 4, 4}};

constexpr TensorRule kErnie[] = {{"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"}};
constexpr FieldRule kErnieExperts[] = {
    {"leading_dense_block_count", Kind::count, "moe_layer_start_index", 0},
    {"interleave_moe_layer_step", Kind::count, "moe_layer_interval", 1},
    {"expert_shared_count", Kind::count, "moe_num_shared_experts", 0},
    {"expert_shared_feed_forward_length", Kind::count, "moe_num_shared_experts * moe_intermediate_size"},
};

constexpr TensorRule kHunyuan[] = {
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
    {"mlp.gate.wg", "ffn_gate_inp"},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp"},
};
constexpr FieldRule kHunyuanFields[] = {
    {"rope.scaling.alpha", Kind::real, "rope_parameters.alpha | rope_scaling.alpha", {}, Only::dense}};

constexpr FieldRule kPhiMoe[] = {
    {"attention.layer_norm_epsilon", Kind::real, "rms_norm_eps", 1e-5},
    {"router_jitter_noise", Kind::real, "router_jitter_noise", 0.01},
};
constexpr FixedField kPhiMoeFixed[] = {{"num_experts_per_tok", 2, 2}};

constexpr FieldRule kCohere[] = {
    {"attention.layer_norm_epsilon", Kind::real, "layer_norm_eps", 1e-5},
    {"logit_scale", Kind::real, "logit_scale", 1},
};

constexpr TensorRule kApertus[] = {{"attention_layernorm", "attn_norm"}, {"feedforward_layernorm", "ffn_norm"}};
constexpr NumberRule kApertusNumbers[] = {
    {"mlp.act_fn.alpha_n", "xielu.alpha_n"},
    {"mlp.act_fn.alpha_p", "xielu.alpha_p"},
    {"mlp.act_fn.beta", "xielu.beta"},
    {"mlp.act_fn.eps", "xielu.eps"},
};

constexpr TensorRule kEagle[] = {
    {"fc", "fc"},
    {"input_norm", "enc.output_norm"},
    {"hidden_norm", "attn_norm_2"},
    {"self_attn.q_proj", "attn_q", {.rows = Rows::rope_pairs}},
    {"self_attn.k_proj", "attn_k", {.rows = Rows::rope_pairs}},
};
constexpr FieldRule kEagleFields[] = {{"norm_before_fc", Kind::flag, "norm_before_fc", 0},
                                      {"norm_before_residual", Kind::flag, "norm_before_residual", 0}};
constexpr FixedField kEagleFixed[] = {{"num_hidden_layers", 1, 1}};

constexpr TensorRule kDflash[] = {{"fc", "fc"}, {"hidden_norm", "enc.output_norm"}};
constexpr FieldRule kDflashFields[] = {{"block_size", Kind::count, "block_size | dflash_config.block_size", 16}};

constexpr TensorRule kBitNet[] = {
    {"self_attn.inner_attn_ln", "attn_sub_norm"},
    {"self_attn.attn_sub_norm", "attn_sub_norm"},
    {"mlp.ffn_layernorm", "ffn_sub_norm"},
    {"mlp.ffn_sub_norm", "ffn_sub_norm"},
    {"self_attn.q_proj", "attn_q", {.change = Change::ternary}},
    {"self_attn.k_proj", "attn_k", {.change = Change::ternary}},
    {"self_attn.v_proj", "attn_v", {.change = Change::ternary}},
    {"self_attn.o_proj", "attn_output", {.change = Change::ternary}},
    {"mlp.gate_proj", "ffn_gate", {.change = Change::ternary}},
    {"mlp.up_proj", "ffn_up", {.change = Change::ternary}},
    {"mlp.down_proj", "ffn_down", {.change = Change::ternary}},
};

constexpr FieldRule kOlmo[] = {{"attention.layer_norm_epsilon", Kind::real, "0.00001"},
                               {"attention.clamp_kqv", Kind::real, "clip_qkv"}};

constexpr TensorRule kExaone[] = {
    {"attn.attention.q_proj", "attn_q"}, {"attn.attention.k_proj", "attn_k"},
    {"attn.attention.v_proj", "attn_v"}, {"attn.attention.out_proj", "attn_output"},
    {"mlp.c_fc_0", "ffn_gate"},          {"mlp.c_fc_1", "ffn_up"},
};

constexpr TensorRule kInternLm2[] = {
    {"attention.wqkv", "attn_q", {.rows = Rows::grouped_q}},
    {"attention.wqkv", "attn_k", {.rows = Rows::grouped_k}},
    {"attention.wqkv", "attn_v", {.rows = Rows::grouped_v}},
    {"attention.wo", "attn_output"},
};

constexpr FieldRule kMiniCpm[] = {
    {"embedding_scale", Kind::real, "scale_emb", 1},
    {"residual_scale", Kind::real, "scale_depth * num_hidden_layers ^ -0.5", 1},
    {"logit_scale", Kind::real, "hidden_size * dim_model_base ^ -1", 1},
};

constexpr FieldRule kCohereExperts[] = {
    {"feed_forward_length", Kind::count, "prefix_dense_intermediate_size | intermediate_size"},
    {"expert_feed_forward_length", Kind::count, "intermediate_size"},
    {"expert_shared_feed_forward_length", Kind::count, "num_shared_experts * intermediate_size"},
    {"expert_shared_count", Kind::count, "num_shared_experts", 0},
    {"expert_gating_func", Kind::count, "1 + expert_selection_fn = sigmoid", 1},
    {"expert_weights_norm", Kind::flag, "norm_topk_prob", 0},
    {"leading_dense_block_count", Kind::count, "first_k_dense_replace | mlp_layer_types = dense", 0},
};
constexpr FixedField kCohereFixed[] = {{"shared_expert_combination_strategy = average", 1, 1}};

constexpr FieldRule kMiniMax[] = {
    {"rope.dimension_count", Kind::count, "rotary_dim"},
    {"expert_feed_forward_length", Kind::count, "intermediate_size"},
    {"expert_gating_func", Kind::count, "2"},
};

// Norms are stored as w - 1.
constexpr TensorRule kMiniMax3[] = {
    {"norm", "output_norm", {.change = Change::plus_one}},
    {"input_layernorm", "attn_norm", {.change = Change::plus_one}},
    {"post_attention_layernorm", "ffn_norm", {.change = Change::plus_one}},
    {"self_attn.q_norm", "attn_q_norm", {.change = Change::plus_one}},
    {"self_attn.k_norm", "attn_k_norm", {.change = Change::plus_one}},
    {"self_attn.index_q_proj", "indexer.q_proj"},
    {"self_attn.index_k_proj", "indexer.k_proj"},
    {"self_attn.index_q_norm", "indexer.q_norm", {.change = Change::plus_one}},
    {"self_attn.index_k_norm", "indexer.k_norm", {.change = Change::plus_one}},
};
constexpr FieldRule kMiniMax3Fields[] = {
    {"feed_forward_length", Kind::count, "dense_intermediate_size"},
    {"leading_dense_block_count", Kind::count, "mlp_layer_types = dense | moe_layer_freq = 0", 0},
    {"expert_shared_count", Kind::count, "n_shared_experts", 1},
    {"expert_weights_norm", Kind::flag, "1"},
    {"expert_weights_scale", Kind::real, "routed_scaling_factor", 2},
    {"attention.indexer.head_count", Kind::count, "index_n_heads | sparse_attention_config.sparse_num_index_heads"},
    {"attention.indexer.key_length", Kind::count, "index_head_dim | sparse_attention_config.sparse_index_dim"},
    {"attention.indexer.top_k", Kind::count, "index_topk_blocks | sparse_attention_config.sparse_topk_blocks"},
    {"attention.indexer.block_size", Kind::count, "index_block_size | sparse_attention_config.sparse_block_size"},
    {"attention.indexer.local_blocks", Kind::count, "index_local_blocks | sparse_attention_config.sparse_local_block"},
};
constexpr FixedField kMiniMax3Fixed[] = {{"swiglu_alpha", 1.702, 1.702}, {"swiglu_limit", 7, 7}};

constexpr TensorRule kMiniMax01[] = {
    {"self_attn.qkv_proj", "attn_qkv"}, {"self_attn.norm", "attn_norm_2"}, {"self_attn.output_gate", "attn_gate"}};
constexpr FieldRule kMiniMax01Fields[] = {
    {"rope.dimension_count", Kind::count, "rotary_dim"},
    {"residual_scale", Kind::real, "layernorm_mlp_alpha | mlp_alpha_factor", 1},
};
// Only one common factor is supported.
constexpr FixedField kMiniMax01Fixed[] = {
    {"layernorm_mlp_beta | mlp_beta_factor", 1, 1},
    {"layernorm_full_attention_beta | full_attn_beta_factor", 1, 1},
    {"layernorm_linear_attention_beta | linear_attn_beta_factor", 1, 1},
    {"layernorm_mlp_alpha | mlp_alpha_factor + -1 * layernorm_full_attention_alpha | full_attn_alpha_factor", 0, 0},
    {"layernorm_mlp_alpha | mlp_alpha_factor + -1 * layernorm_linear_attention_alpha | linear_attn_alpha_factor", 0, 0},
};

} // namespace

constinit const Checkpoint checkpoints::chatglm = {.rotated = 0.5};
constinit const Checkpoint checkpoints::cohere2moe = {.base = &cohere2,
                                                      .fields = kCohereExperts,
                                                      .fixed = kCohereFixed,
                                                      .drafts = checkpoints::kDraftLayers,
                                                      .layers = {.windows = true}};
constinit const Checkpoint checkpoints::arcee = {.tensors = kRotated, .activation = "relu2"};
constinit const Checkpoint checkpoints::apertus = {
    .tensors = kApertus, .numbers = kApertusNumbers, .activation = "xielu"};
constinit const Checkpoint checkpoints::eagle3 = {
    .tensors = kEagle, .fields = kEagleFields, .fixed = kEagleFixed, .own_head = true};
constinit const Checkpoint checkpoints::dflash = {
    .tensors = kDflash, .fields = kDflashFields, .layers = {.windows = true}, .own_head = true};
constinit const Checkpoint checkpoints::bitnet = {.tensors = kBitNet};
constinit const Checkpoint checkpoints::bitnet_b1_58 = {.tensors = kBitNet, .activation = "relu2"};
constinit const Checkpoint checkpoints::olmo = {.tensors = kRotated, .fields = kOlmo};
constinit const Checkpoint checkpoints::exaone = {.tensors = kExaone};
constinit const Checkpoint checkpoints::internlm2 = {.tensors = kInternLm2};
constinit const Checkpoint checkpoints::minicpm = {.tensors = kRotated, .fields = kMiniCpm};
constinit const Checkpoint checkpoints::command_r = {.fields = kCohere};
constinit const Checkpoint checkpoints::mistral3 = {.tensors = kRotated, .fields = kMistral, .slides_by_default = true};
constinit const Checkpoint checkpoints::smollm3 = {.tensors = kRotated, .fixed = kSmolLm};
constinit const Checkpoint checkpoints::seed_oss = {.tensors = std::span(kPostNorms).first(1)};
constinit const Checkpoint checkpoints::plain = {};
constinit const Checkpoint checkpoints::ernie4_5_moe = {.tensors = kErnie, .fields = kErnieExperts};
constinit const Checkpoint checkpoints::hunyuan = {.tensors = kHunyuan, .fields = kHunyuanFields};
constinit const Checkpoint checkpoints::post_norms = {.tensors = kPostNorms, .layers = {.windows = true}};
constinit const Checkpoint checkpoints::cohere2 = {.fields = kCohere, .layers = {.windows = true}};
constinit const Checkpoint checkpoints::phi3 = {.slides_by_default = true};
constinit const Checkpoint checkpoints::phimoe = {.fields = kPhiMoe, .fixed = kPhiMoeFixed, .slides_by_default = true};
constinit const Checkpoint checkpoints::minimax_01 = {
    .tensors = kMiniMax01, .fields = kMiniMax01Fields, .fixed = kMiniMax01Fixed, .layers = {.recurrent_layers = true}};
constinit const Checkpoint checkpoints::minimax_m2 = {.fields = kMiniMax};
constinit const Checkpoint checkpoints::minimax_m3 = {.base = &minimax_m2,
                                                      .tensors = kMiniMax3,
                                                      .fields = kMiniMax3Fields,
                                                      .fixed = kMiniMax3Fixed,
                                                      .activation = "silu | swigluoai"};

} // namespace ridge::models
