// Checkpoints of models with windows in some layers, as their makers write config.json.
#include "core/error.h"
#include "pieces.h"

#include <algorithm>

using namespace ridge;
using namespace ridge::tests;

namespace {

using Ints = std::vector<int64_t>;

std::optional<Ints> ints(const gguf::Metadata& metadata, const std::string& key) {
  const auto* found = metadata.find(key);
  return found ? found->view().as_ints() : std::nullopt;
}
double real(const gguf::Metadata& metadata, const std::string& key) { return *metadata.find(key)->view().as_float(); }

nlohmann::json repeated(int count, const nlohmann::json& entry) {
  nlohmann::json list = nlohmann::json::array();
  for (int i = 0; i < count; ++i) list.push_back(entry);
  return list;
}

} // namespace

TEST_CASE("convert: MiMo V2's layers with a window have key-value heads, rope and sinks of their own") {
  Pieces p("MiMoV2FlashForCausalLM");
  p.config.update({{"num_hidden_layers", 2},
                   {"num_attention_heads", 4},
                   {"head_dim", 12},
                   {"v_head_dim", 8},
                   {"swa_num_key_value_heads", 2},
                   {"swa_head_dim", 12},
                   {"hybrid_layer_pattern", {0, 1}},
                   {"sliding_window", 128},
                   {"sliding_window_size", 128},
                   {"rope_theta", 5e6},
                   {"swa_rope_theta", 2e4},
                   {"partial_rotary_factor", 0.334},
                   {"attention_value_scale", 0.5},
                   {"layernorm_epsilon", 0.25},
                   {"n_routed_experts", 2},
                   {"num_experts_per_tok", 1},
                   {"routed_scaling_factor", nullptr}});
  p.in_layer("self_attn.attention_sink_bias", {4}, 3);
  p.add("model.mtp.layers.0.enorm.weight", {4});
  auto made = p.made();
  CHECK(made["blk.0.attn_sinks.weight"].numbers == Floats{3, 4, 5, 6});
  CHECK(ints(p.metadata, "mimo2.attention.head_count_kv") == Ints{1, 2});
  CHECK(ints(p.metadata, "mimo2.attention.sliding_window_pattern") == Ints{0, 1});
  CHECK(p.metadata.find("mimo2.attention.sliding_window")->view().as_int() == 129);
  CHECK(p.metadata.find("mimo2.attention.value_length")->view().as_int() == 8);
  CHECK(p.metadata.find("mimo2.rope.dimension_count")->view().as_int() == 4);
  CHECK(real(p.metadata, "mimo2.rope.freq_base_swa") == 2e4);
  CHECK(real(p.metadata, "mimo2.attention.value_scale") == 0.5);
  CHECK(real(p.metadata, "mimo2.attention.layer_norm_rms_epsilon") == 0.25);

  p.config["swa_head_dim"] = 16;
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("swa_head_dim"), Error);
  p.config["swa_head_dim"] = 12;
  p.config["hybrid_layer_pattern"] = {0};
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("hybrid_layer_pattern: expected a list"), Error);
}

TEST_CASE("convert: Step 3.5's lists give rope, heads and limits of each kind of layer") {
  Pieces p("Step3p5ForCausalLM");
  p.config.erase("num_key_value_heads");
  p.config.update({{"num_hidden_layers", 2},
                   {"head_dim", 8},
                   {"num_attention_heads", 4},
                   {"num_attention_groups", 2},
                   {"attention_other_setting", {{"num_attention_heads", 8}, {"num_attention_groups", 4}}},
                   {"layer_types", {"full_attention", "sliding_attention", "full_attention"}},
                   {"sliding_window", 5},
                   {"rope_theta", {5e6, 1e4, 5e6}},
                   {"partial_rotary_factors", {0.5, 1.0, 0.5}},
                   {"rope_scaling",
                    {{"rope_type", "llama3"},
                     {"factor", 2.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 32.0},
                     {"original_max_position_embeddings", 131072}}},
                   {"moe_num_experts", 2},
                   {"moe_top_k", 1},
                   {"share_expert_dim", 3},
                   {"swiglu_limits", {nullptr, 7, 0}}});
  p.in_layer("input_layernorm.weight", {4});
  p.in_layer("moe.gate.weight", {2, 4});
  p.in_layer("moe.router_bias", {2}, 5);
  for (const char* name : {"gate_proj", "up_proj"}) p.in_layer(std::string("moe.") + name + ".weight", {2, 3, 4});
  p.in_layer("moe.down_proj.weight", {2, 4, 3});
  p.in_layer("share_expert.up_proj.weight", {3, 4});
  auto made = p.made();
  CHECK(made["blk.0.attn_norm.weight"].numbers == Floats{1, 2, 3, 4});
  CHECK(made["blk.0.exp_probs_b.bias"].numbers == Floats{5, 6});
  CHECK(made["blk.0.ffn_up_exps.weight"].dims == Dims{4, 3, 2});
  CHECK(made["blk.0.ffn_down_exps.weight"].dims == Dims{3, 4, 2});
  CHECK(made["blk.0.ffn_up_shexp.weight"].dims == Dims{4, 3});
  CHECK(made["rope_freqs.weight"].numbers.size() == 4); // of two pairs that turn
  CHECK(made["rope_freqs.weight"].numbers[3] == 1);
  CHECK(ints(p.metadata, "step35.attention.head_count") == Ints{4, 8});
  CHECK(ints(p.metadata, "step35.attention.head_count_kv") == Ints{2, 4});
  CHECK(p.metadata.find("step35.rope.dimension_count")->view().as_int() == 8);
  CHECK(real(p.metadata, "step35.rope.freq_base") == 5e6);
  CHECK(real(p.metadata, "step35.rope.freq_base_swa") == 1e4);
  CHECK(p.metadata.find("step35.swiglu_clamp_exp")->view().as_floats() == Floats{0, 7});

  p.config["partial_rotary_factors"] = {0.25, 1.0};
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("not 0.5"), Error);
  p.config["partial_rotary_factors"] = {0.5, 1.0};
  p.config["num_hidden_layers"] = 3;
  p.config["rope_theta"] = {5e6, 1e4, 1e6};
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("rope_theta: layer 2"), Error);
  p.config["num_hidden_layers"] = 2;
  p.config["swiglu_limits"] = {"7", 0};
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("swiglu_limits: layer 0: expected a number"), Error);
}

TEST_CASE("convert: SmallThinker's experts are named by what they do, and its layers without a window have no rope") {
  Pieces p("SmallThinkerForCausalLM");
  p.config.update({{"num_hidden_layers", 5},
                   {"moe_num_primary_experts", 2},
                   {"moe_num_active_primary_experts", 1},
                   {"moe_ffn_hidden_size", 3},
                   {"sliding_window_size", 4096},
                   {"sliding_window_layout", {0, 1, 1, 1, 0}},
                   {"rope_layout", {0, 1, 1, 1, 0}}});
  p.in_layer("block_sparse_moe.primary_router.weight", {2, 4});
  for (const std::string expert : {"0", "1"}) {
    for (const char* name : {"up", "gate"})
      p.in_layer("block_sparse_moe.experts." + expert + "." + name + ".weight", {3, 4});
    p.in_layer("block_sparse_moe.experts." + expert + ".down.weight", {4, 3}, 7);
  }
  auto made = p.made();
  CHECK(made["blk.0.ffn_gate_inp.weight"].dims == Dims{4, 2});
  CHECK(made["blk.0.ffn_gate_exps.weight"].dims == Dims{4, 3, 2});
  CHECK(made["blk.0.ffn_down_exps.weight"].dims == Dims{3, 4, 2});
  CHECK(p.metadata.find("smallthinker.expert_gating_func")->view().as_int() == 2);
  CHECK(p.metadata.find("smallthinker.attention.sliding_window")->view().as_int() == 4096);

  p.config["rope_layout"] = repeated(5, 1);
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("rope_layout: layer 0: expected 0 here"), Error);
  p.config["sliding_window_layout"] = repeated(5, 0);
  p.config["moe_primary_router_apply_softmax"] = true;
  p.metadata = {};
  p.made();
  CHECK(p.metadata.find("smallthinker.attention.sliding_window") == nullptr);
  CHECK(p.metadata.find("smallthinker.expert_gating_func")->view().as_int() == 1);
  p.config["rope_layout"] = {0, 1, 1, 1, 0};
  p.config["sliding_window_layout"] = {1, 1, 1, 1, 0};
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("sliding_window_layout: layer 0"), Error);
}

TEST_CASE("convert: MiniMax M3's norms are stored without their one, its indexer under other names") {
  Pieces p("MiniMaxM3SparseForCausalLM");
  p.config.update({{"num_local_experts", 2},
                   {"num_experts_per_tok", 1},
                   {"dense_intermediate_size", 9},
                   {"shared_intermediate_size", 5},
                   {"hidden_act", "swigluoai"},
                   {"moe_layer_freq", {0}},
                   {"sparse_attention_config", {{"sparse_num_index_heads", 2}, {"sparse_topk_blocks", 16}}},
                   {"rotary_dim", 2}});
  p.in_layer("self_attn.q_norm.weight", {4});
  p.in_layer("self_attn.index_k_norm.weight", {4});
  p.in_layer("self_attn.index_q_proj.weight", {4, 4});
  p.add("patch_merge_mlp.linear_1.weight", {4, 4});
  auto made = p.made();
  CHECK(made["blk.0.attn_q_norm.weight"].numbers == Floats{1, 2, 3, 4});
  CHECK(made["blk.0.indexer.k_norm.weight"].numbers == Floats{1, 2, 3, 4});
  CHECK(made.contains("blk.0.indexer.q_proj.weight"));
  CHECK(made.size() == 4);
  CHECK(p.metadata.find("minimax-m3.feed_forward_length")->view().as_int() == 9);
  CHECK(p.metadata.find("minimax-m3.leading_dense_block_count")->view().as_int() == 1);
  CHECK(p.metadata.find("minimax-m3.attention.indexer.top_k")->view().as_int() == 16);
  CHECK(real(p.metadata, "minimax-m3.expert_weights_scale") == 2);
}
