// Checkpoints of models with hyper-connections, and BitNet's.
#include "core/error.h"
#include "models/recipes.h"
#include "pieces.h"

#include <cmath>

using namespace ridge;
using namespace ridge::tests;

namespace {

using Ints = std::vector<int64_t>;

std::vector<int32_t> integers(const Made& made) {
  std::vector<int32_t> numbers(made.bytes.size() / sizeof(int32_t));
  std::memcpy(numbers.data(), made.bytes.data(), made.bytes.size());
  return numbers;
}

} // namespace

TEST_CASE("convert: DeepSeek V4's tensors are found by the makers' names, without a prefix") {
  Pieces p("DeepseekV4ForCausalLM");
  p.prefix = "";
  p.table = "embed";
  p.config.update({{"num_hidden_layers", 3},
                   {"head_dim", 8},
                   {"qk_rope_head_dim", 2},
                   {"tie_word_embeddings", false},
                   {"n_routed_experts", 2},
                   {"num_experts_per_tok", 1},
                   {"moe_intermediate_size", 2},
                   {"compress_ratios", {0, 4, 128}},
                   {"num_hash_layers", 1},
                   {"o_groups", 2},
                   {"swiglu_limit", 10.0},
                   {"sliding_window", 128},
                   {"rope_scaling", {{"type", "yarn"}, {"factor", 16}}},
                   {"scoring_func", "sqrtsoftplus"}});
  p.add("head.weight", {3, 4});
  p.add("hc_head_fn", {4, 16});
  p.in_layer("hc_attn_fn", {24, 16});
  p.in_layer("hc_attn_scale", {3}, 7);
  p.in_layer("attn.kv_norm.weight", {8});
  p.in_layer("attn.attn_sink", {2}, 5);
  p.in_layer("attn.wo_a.weight", {6, 4});
  p.in_layer("attn.compressor.ape", {4, 16});
  p.in_layer("ffn.gate.weight", {2, 4});
  p.in_layer("ffn.gate.bias", {2}, 3);
  p.file.add("layers.0.ffn.gate.tid2eid", "I64", {3, 1}, std::vector<int64_t>{1, 0, 1});
  for (const std::string expert : {"experts.0", "experts.1", "shared_experts"})
    p.in_layer("ffn." + expert + ".w2.weight", {4, 2});
  p.add("mtp.0.enorm.weight", {4});
  auto made = p.made();
  CHECK(made["output.weight"].dims == Dims{4, 3});
  CHECK(made["output_hc_fn.weight"].dims == Dims{16, 4});
  CHECK(made["blk.0.hc_attn_fn.weight"].dims == Dims{16, 24});
  CHECK(made["blk.0.hc_attn_scale.weight"].numbers == Floats{7, 8, 9});
  CHECK(made["blk.0.attn_kv_a_norm.weight"].dims == Dims{8});
  CHECK(made["blk.0.attn_sinks.weight"].numbers == Floats{5, 6});
  CHECK(made["blk.0.attn_output_a.weight"].dims == Dims{4, 3, 2});
  CHECK(made["blk.0.attn_compressor_ape.weight"].dims == Dims{16, 4});
  CHECK(made["blk.0.exp_probs_b.bias"].numbers == Floats{3, 4});
  CHECK(made["blk.0.ffn_gate_tid2eid.weight"].dims == Dims{1, 3});
  CHECK(integers(made["blk.0.ffn_gate_tid2eid.weight"]) == std::vector<int32_t>{1, 0, 1});
  CHECK(made["blk.0.ffn_down_exps.weight"].dims == Dims{2, 4, 2});
  CHECK(made.contains("blk.0.ffn_down_shexp.weight"));
  CHECK_FALSE(made.contains("blk.0.ffn_gate_inp.bias"));
  CHECK(p.has_drafts);
  CHECK(p.metadata.find("deepseek4.attention.compress_ratios")->view().as_ints() == Ints{0, 4, 128});
  CHECK(p.metadata.find("deepseek4.hash_layer_count")->view().as_int() == 1);
  CHECK(p.metadata.find("deepseek4.expert_gating_func")->view().as_int() == 4);
  CHECK(p.metadata.find("deepseek4.swiglu_clamp_exp")->view().as_floats() == Floats{10, 10, 10});
  CHECK(p.metadata.find("deepseek4.context_length")->view().as_int() == 2048); // not the window

  p.config.erase("compress_ratios");
  p.config["layer_types"] = {"sliding_attention", "heavily_compressed_attention", "compressed_sparse_attention"};
  p.config["compress_rates"] = {{"heavily_compressed_attention", 64}};
  p.metadata = {};
  p.made();
  CHECK(p.metadata.find("deepseek4.attention.compress_ratios")->view().as_ints() == Ints{0, 64, 4});
  p.config["o_groups"] = 4;
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("o_groups (4)"), Error);
  p.config["o_groups"] = 2;
  p.file.add("layers.0.ffn.gate.tid2eid", "I64", {3, 1}, std::vector<int64_t>{1, int64_t{1} << 40, 1});
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("beyond 32 bits"), Error);
}

TEST_CASE("quantize: what DeepSeek V4's compressors and hyper-connections read as F32 stays") {
  for (const char* name : {"blk.2.attn_compressor_ape.weight", "blk.2.indexer_compressor_ape.weight",
                           "blk.0.hc_attn_fn.weight", "blk.0.hc_ffn_fn.weight", "output_hc_fn.weight"})
    CHECK_FALSE(models::is_quantizable({name, quant::Type::F32, {128, 4}}));
  CHECK(models::is_quantizable({"blk.2.attn_compressor_kv.weight", quant::Type::F32, {128, 4}}));
}

TEST_CASE("convert: Hunyuan 4's sinks, gates and streams") {
  Pieces p("HYV4ForCausalLM");
  p.config.update({{"n_routed_experts", 2},
                   {"num_experts_per_tok", 1},
                   {"kv_lora_rank", 2},
                   {"qk_nope_head_dim", 2},
                   {"qk_rope_head_dim", 4},
                   {"v_head_dim", 2},
                   {"index_head_dim", 8},
                   {"swiglu_limit", 0},
                   {"mlp_layer_types", {"dense"}},
                   {"indexer_types", {"full"}}});
  p.add("model.hc_pre.hc_head.hc_head_fn", {4, 16});
  p.in_layer("hc_pre.hc_mlp_layer.hc_base", {8}, 2);
  p.in_layer("self_attn.learnable_sink_param", {2}, 4);
  p.in_layer("self_attn.q_b_proj.weight", {12, 4});
  p.in_layer("self_attn.kv_a_proj_with_mqa.weight", {6, 4});
  p.in_layer("self_attn.indexer.wk.weight", {8, 4});
  p.in_layer("self_attn.indexer.k_norm.bias", {8});
  p.in_layer("self_attn.indexer.k_norm.weight", {8});
  p.in_layer("self_attn.linear_gate.weight", {4, 4});
  p.in_layer("mlp.gate_proj.weight", {4, 4});
  auto made = p.made();
  CHECK(made.contains("output_hc_fn.weight"));
  CHECK(made["blk.0.hc_ffn_base.weight"].numbers == Floats{2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(made["blk.0.attn_sinks.weight"].numbers == Floats{4, 5});
  // The rotated ends of heads pair neighbours.
  CHECK(rows_of(made["blk.0.attn_q_b.weight"]) == Floats{0, 1, 2, 4, 3, 5, 6, 7, 8, 10, 9, 11});
  CHECK(rows_of(made["blk.0.attn_kv_a_mqa.weight"]) == Floats{0, 1, 2, 4, 3, 5});
  CHECK(rows_of(made["blk.0.indexer.attn_k.weight"]) == Floats{0, 1, 2, 3, 4, 6, 5, 7});
  CHECK(made["blk.0.indexer.k_norm.bias"].numbers == Floats{0, 1, 2, 3, 4, 6, 5, 7});
  CHECK(made.contains("blk.0.attn_gate.weight"));
  CHECK(made.contains("blk.0.ffn_gate.weight"));
  CHECK(p.metadata.find("hy_v4.attention.indexer.types")->view().as_ints() == Ints{1});
}

TEST_CASE("convert: Qwen 3.8's n-grams, blocks and streams") {
  Pieces p("Qwen4ExpForCausalLM");
  p.config.update({{"num_hidden_layers", 2},
                   {"num_experts", 2},
                   {"num_experts_per_tok", 1},
                   {"moe_intermediate_size", 2},
                   {"head_dim", 8},
                   {"layer_types", {"linear_attention", "full_attention"}},
                   {"linear_num_key_heads", 1},
                   {"linear_num_value_heads", 1},
                   {"linear_key_head_dim", 2},
                   {"linear_value_head_dim", 2},
                   {"output_gate_type", "sigmoid"},
                   {"rope_parameters", {{"mrope_section", {1, 0, 0}}}},
                   {"ple_layer_ids", {1}},
                   {"heads_per_ngram", 1},
                   {"eos_token_id", {2, 1}},
                   {"indexer_n_heads", 2},
                   {"indexer_head_dim", 2},
                   {"indexer_budget", 8},
                   {"indexer_compress_ratio", 4}});
  const std::string embedding = "model.layers.0.ple.ple_embedding.";
  p.add("model.hyper_connection_mixer.hc_norm.weight", {8}, 1);
  p.in_layer("attn_hyper_connection.block_inject_weight.weight", {2, 8});
  p.in_layer("ple.norm_key.weight", {8}, 0);
  p.in_layer("ple.conv1d.weight", {8, 1, 4});
  p.add(embedding + "ngram_embedding.shard_0.weight", {3, 2});
  p.add(embedding + "ngram_embedding.shard_1.weight", {1, 2}, 6);
  p.add(embedding + "ngram_embedding.shard_2.weight", {2, 2}, 8);
  p.file.add(embedding + "layer_multipliers", "I64", {3}, std::vector<int64_t>{3, int64_t{1} << 45, 5});
  p.file.add(embedding + "ngram_heads_offsets", "I64", {2}, std::vector<int64_t>{0, 3});
  p.file.add(embedding + "ngram_heads_vocab_sizes", "I64", {2}, std::vector<int64_t>{3, 3});
  p.add("model.layers.1.self_attn.indexer.index_qk_proj.weight", {6, 4});
  p.add("model.layers.1.self_attn.indexer.k_layernorm.weight", {2}, 1);
  p.add("mtp.fc.weight", {4, 8});
  auto made = p.made();
  CHECK(made["output_hc_norm.weight"].numbers.front() == 2); // stored as w - 1
  CHECK(made.contains("blk.0.hc_attn_inject.weight"));
  CHECK(made["blk.0.ple_norm_key.weight"].numbers.front() == 1);
  CHECK(made["blk.0.ple_conv1d.weight"].dims == Dims{4, 8});
  CHECK(made["per_layer_token_embd.weight"].dims == Dims{2, 6});
  CHECK(made["per_layer_token_embd.weight"].numbers == Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(rows_of(made["blk.1.indexer.q_proj.weight"]) == Floats{0, 1, 2, 3});
  CHECK(rows_of(made["blk.1.indexer.k_proj.weight"]) == Floats{4, 5});
  CHECK(made["blk.1.indexer.k_norm.weight"].numbers.front() == 2);
  CHECK(p.lists["qwen4exp.ple.layer_multipliers"] == std::vector<uint64_t>{3, uint64_t{1} << 45, 5});
  CHECK(p.lists["qwen4exp.ple.head_offsets"] == std::vector<uint64_t>{0, 3});
  CHECK(p.has_drafts);
  const auto ints = [&](const char* key) { return p.metadata.find(key)->view().as_ints(); };
  CHECK(ints("qwen4exp.ple.layers") == Ints{0});
  CHECK(ints("qwen4exp.attention.compress_ratios") == Ints{0, 4});
  const auto number = [&](const char* key) { return p.metadata.find(key)->view().as_int(); };
  CHECK(number("qwen4exp.ple.eos_token_id") == 2); // the first
  CHECK(number("qwen4exp.embedding_length_per_layer_input") == 2);
  CHECK(number("qwen4exp.attention.indexer.top_k") == 8);
  CHECK(number("qwen4exp.ple.ngram_size") == 3);

  const auto refused = [&](const char* field, nlohmann::json value, const char* message) {
    const nlohmann::json before = p.config;
    p.config[field] = std::move(value);
    CHECK_THROWS_WITH_AS(p.made(), doctest::Contains(message), Error);
    p.config = before;
  };
  refused("output_gate_type", nullptr, "output_gate_type");
  refused("ple_layer_ids", {1, 2}, "n-grams in more than one layer are not supported yet");
  refused("ple_layer_ids", {3}, "ple_layer_ids: expected a number from 1 to 2");
  refused("ple_embed_dim", 5, "ple_embed_dim: is 5, which does not divide into 2 n-gram heads");
  refused("eos_token_id", nullptr, "eos_token_id: expected a token");
  refused("indexer_head_dim", 3, "its 6 rows do not match the heads");
  p.add(embedding + "ngram_embedding.shard_1.weight", {1, 3});
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("shard_1.weight has shape [1, 3], expected [rows, 2]"), Error);
  p.add(embedding + "ngram_embedding.shard_1.weight", {1, 2});
  p.file.add(embedding + "ngram_heads_offsets", "I64", {2}, std::vector<int64_t>{0, -3});
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("has -3, expected 0 or more"), Error);
}

TEST_CASE("convert: packed matrices of latent attention become numbers, a matrix for each head") {
  Pieces p("DeepseekV3ForCausalLM");
  p.config.update({{"n_routed_experts", 2},
                   {"num_experts_per_tok", 1},
                   {"kv_lora_rank", 64},
                   {"qk_nope_head_dim", 2},
                   {"qk_rope_head_dim", 4},
                   {"v_head_dim", 2},
                   {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}}});
  std::vector<uint8_t> codes; // row r: r
  for (const uint8_t code : {0x00, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e}) codes.insert(codes.end(), 64, code);
  const std::string name = "model.layers.0.self_attn.kv_b_proj.weight";
  p.file.add(name, "F8_E4M3", {8, 64}, codes);
  p.file.add(name + "_scale_inv", "F32", {1, 1}, std::vector<float>{0.5f});
  auto made = p.made();
  CHECK(made["blk.0.attn_k_b.weight"].dims == Dims{2, 64, 2});
  const Floats& keys = made["blk.0.attn_k_b.weight"].numbers; // transposed
  CHECK(Floats(keys.begin(), keys.begin() + 4) == Floats{0, 0.5f, 0, 0.5f});
  CHECK(Floats(keys.end() - 2, keys.end()) == Floats{2, 2.5f});
  CHECK(made["blk.0.attn_v_b.weight"].dims == Dims{64, 2, 2});
  const Floats& values = made["blk.0.attn_v_b.weight"].numbers;
  CHECK(Floats{values[0], values[64], values[128], values[192]} == Floats{1, 1.5f, 3, 3.5f});
}

TEST_CASE("convert: BitNet's matrices become ternary, or are so") {
  Pieces first("BitnetForCausalLM");
  first.file.add("model.layers.0.self_attn.o_proj.weight", "F32", {2, 4},
                 std::vector<float>{1, -1, 0.2f, 3, -4, 0.1f, 0.3f, 0.4f});
  first.in_layer("self_attn.inner_attn_ln.weight", {4});
  auto made = first.made();
  CHECK(made["blk.0.attn_output.weight"].numbers == Floats{1.25f, -1.25f, 0, 1.25f, -1.25f, 0, 0, 0});
  CHECK(made.contains("blk.0.attn_sub_norm.weight"));

  // The same in training form, and as it is where nothing says so.
  for (const bool online : {true, false}) {
    Pieces p("BitNetForCausalLM");
    p.config["hidden_act"] = "relu2";
    if (online) p.config["quantization_config"] = {{"quant_method", "bitnet"}, {"quantization_mode", "online"}};
    p.file.add("model.layers.0.mlp.down_proj.weight", "F32", {1, 4}, std::vector<float>{2, -2, 0.1f, 0});
    CHECK(p.made()["blk.0.ffn_down.weight"].numbers[0] == doctest::Approx(online ? 1.025f : 2));
  }
}
