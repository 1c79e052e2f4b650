// Reordering, splitting and arithmetic; the numbers show their origin.
#include "core/error.h"
#include "pieces.h"

#include <cmath>

using namespace ridge;
using namespace ridge::tests;

namespace {

struct DeltaNet : Pieces { // two key heads of 2, four value heads of 1
  explicit DeltaNet(const char* hf_class) : Pieces(hf_class) {
    config.update({{"linear_key_head_dim", 2},
                   {"linear_num_key_heads", 2},
                   {"linear_num_value_heads", 4},
                   {"linear_value_head_dim", 1},
                   {"partial_rotary_factor", 0.5},
                   {"layer_types", {"linear_attention"}}});
  }
};

} // namespace

TEST_CASE("convert: heads of values that share a key head take turns in qwen35") {
  DeltaNet p("Qwen3_5ForCausalLM");
  p.in_layer("linear_attn.in_proj_qkv.weight", {12, 4});
  p.in_layer("linear_attn.in_proj_z.weight", {4, 4});
  p.in_layer("linear_attn.in_proj_a.weight", {4, 4});
  p.in_layer("linear_attn.conv1d.weight", {12, 1, 4});
  p.in_layer("linear_attn.out_proj.weight", {2, 4});
  p.in_layer("linear_attn.A_log", {4});
  p.in_layer("linear_attn.dt_bias", {4});
  p.in_layer("linear_attn.norm.weight", {1}, 5);
  p.in_layer("input_layernorm.weight", {4}, 5);
  auto made = p.made();
  const Floats turns = {0, 2, 1, 3}, behind_keys = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9, 11};
  CHECK(rows_of(made["blk.0.attn_qkv.weight"]) == behind_keys);
  CHECK(rows_of(made["blk.0.attn_gate.weight"]) == turns);
  CHECK(rows_of(made["blk.0.ssm_alpha.weight"]) == turns);
  CHECK(made["blk.0.ssm_conv1d.weight"].dims == Dims{4, 12});
  CHECK(rows_of(made["blk.0.ssm_conv1d.weight"]) == behind_keys);
  CHECK(made["blk.0.ssm_out.weight"].numbers == Floats{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(made["blk.0.ssm_a"].numbers == Floats{-1, -std::exp(2.0f), -std::exp(1.0f), -std::exp(3.0f)});
  CHECK(made["blk.0.ssm_dt.bias"].numbers == turns);
  CHECK(made["blk.0.ssm_norm.weight"].numbers == Floats{5});
  CHECK(made["blk.0.attn_norm.weight"].numbers == Floats{6, 7, 8, 9});
}

TEST_CASE("convert: q, k, v and gates of each key head are taken apart in qwen3next") {
  DeltaNet p("Qwen3NextForCausalLM");
  p.in_layer("linear_attn.in_proj_qkvz.weight", {16, 4}); // per key head: q 2, k 2, v 2, z 2
  p.in_layer("linear_attn.in_proj_ba.weight", {8, 4});
  auto made = p.made();
  CHECK(rows_of(made["blk.0.attn_qkv.weight"]) == Floats{0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13});
  CHECK(rows_of(made["blk.0.attn_gate.weight"]) == Floats{6, 7, 14, 15});
  CHECK(rows_of(made["blk.0.ssm_ba.weight"]) == Floats{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("convert: gate and up of one tensor are parted, for experts and for dense models") {
  const auto granite = [](int experts) {
    Pieces p("GraniteMoeHybridForCausalLM");
    p.config.update({{"num_local_experts", experts}, {"num_experts_per_tok", 1}, {"layer_types", {"attention"}}});
    p.in_layer("shared_mlp.input_linear.weight", {4, 4});
    p.in_layer("shared_mlp.output_linear.weight", {4, 2});
    if (experts > 0) p.in_layer("block_sparse_moe.input_linear.weight", {2, 4, 4});
    return p.made();
  };
  auto made = granite(2);
  CHECK(made["blk.0.ffn_gate_exps.weight"].dims == Dims{4, 2, 2});
  CHECK(rows_of(made["blk.0.ffn_gate_exps.weight"]) == Floats{0, 1, 4, 5});
  CHECK(rows_of(made["blk.0.ffn_up_exps.weight"]) == Floats{2, 3, 6, 7});
  CHECK(rows_of(made["blk.0.ffn_up_shexp.weight"]) == Floats{2, 3});
  CHECK(made.contains("blk.0.ffn_down_shexp.weight"));
  made = granite(0);
  CHECK(rows_of(made["blk.0.ffn_gate.weight"]) == Floats{0, 1});
  CHECK(made.contains("blk.0.ffn_down.weight"));
  CHECK(!made.contains("blk.0.ffn_down_shexp.weight"));
}

TEST_CASE("convert: experts are stacked, whether in modules or in one tensor, transposed or not") {
  Pieces p("Qwen3VLMoeForConditionalGeneration");
  p.config.update({{"num_experts", 2}, {"num_experts_per_tok", 1}, {"moe_intermediate_size", 3}});
  p.in_layer("mlp.experts.gate_up_proj", {2, 2, 6}); // [experts, inputs, gate and up]
  p.in_layer("mlp.experts.down_proj", {2, 3, 2});
  auto made = p.made();
  CHECK(made["blk.0.ffn_gate_exps.weight"].dims == Dims{2, 3, 2});
  CHECK(made["blk.0.ffn_gate_exps.weight"].numbers == Floats{0, 6, 1, 7, 2, 8, 12, 18, 13, 19, 14, 20});
  CHECK(made["blk.0.ffn_up_exps.weight"].numbers == Floats{3, 9, 4, 10, 5, 11, 15, 21, 16, 22, 17, 23});
  CHECK(made["blk.0.ffn_down_exps.weight"].dims == Dims{3, 2, 2});
  CHECK(made["blk.0.ffn_down_exps.weight"].numbers == Floats{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11});

  Pieces modules("Qwen2MoeForCausalLM");
  modules.config.update({{"num_experts", 2}, {"num_experts_per_tok", 1}});
  modules.in_layer("mlp.experts.0.up_proj.weight", {2, 4});
  modules.in_layer("mlp.experts.1.up_proj.weight", {2, 4}, 8);
  modules.in_layer("mlp.gate.weight", {2, 4});
  modules.in_layer("mlp.shared_expert_gate.weight", {1, 4});
  made = modules.made();
  CHECK(made["blk.0.ffn_up_exps.weight"].dims == Dims{4, 2, 2});
  CHECK(rows_of(made["blk.0.ffn_up_exps.weight"]) == Floats{0, 1, 2, 3});
  modules.in_layer("mlp.experts.1.up_proj.weight", {1, 4});
  CHECK_THROWS_WITH_AS(modules.made(), doctest::Contains("experts have different shapes"), Error);
}

TEST_CASE("convert: a Mamba 2 layer's vectors get the shapes of GGUF") {
  Pieces p("Mamba2ForCausalLM");
  p.prefix = "backbone.";
  p.config.update({{"n_groups", 2}, {"num_heads", 4}, {"state_size", 2}, {"expand", 2}});
  p.config["time_step_limit"] = {0.0, nullptr};
  p.in_layer("mixer.A_log", {4});
  p.in_layer("mixer.D", {4});
  p.in_layer("mixer.norm.weight", {8});
  p.in_layer("norm.weight", {4});
  p.in_layer("mixer.conv1d.weight", {16, 1, 4});
  p.in_layer("mixer.conv1d.bias", {16});
  auto made = p.made();
  CHECK(made["blk.0.ssm_a"].dims == Dims{1, 4});
  CHECK(made["blk.0.ssm_a"].numbers[1] == -std::exp(1.0f));
  CHECK(made["blk.0.ssm_d"].dims == Dims{1, 4});
  CHECK(made["blk.0.ssm_norm.weight"].dims == Dims{4, 2});
  CHECK(made["blk.0.attn_norm.weight"].dims == Dims{4});
  CHECK(made["blk.0.ssm_conv1d.weight"].dims == Dims{4, 16});
  CHECK(made["blk.0.ssm_conv1d.bias"].dims == Dims{16});
  p.config["time_step_limit"] = {0.0, 3.0};
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("time_step_limit.1"), Error);
}

TEST_CASE("convert: multipliers of Falcon-H1 go into its matrices, a tied output gets its own") {
  Pieces p("FalconH1ForCausalLM");
  p.config.update({{"mamba_d_ssm", 2},
                   {"mamba_n_groups", 1},
                   {"mamba_d_state", 1},
                   {"mamba_n_heads", 1},
                   {"ssm_in_multiplier", 2.0},
                   {"ssm_multipliers", {1.0, 10.0, 100.0, 1000.0, 10000.0}},
                   {"attention_in_multiplier", 3.0},
                   {"key_multiplier", 5.0},
                   {"embedding_multiplier", 2.0},
                   {"lm_head_multiplier", 4.0}});
  p.in_layer("mamba.in_proj.weight", {7, 1}, 1); // z 2, x 2, b 1, c 1, dt 1
  p.in_layer("self_attn.q_proj.weight", {1, 4});
  p.in_layer("self_attn.k_proj.weight", {1, 4});
  auto made = p.made();
  CHECK(made["blk.0.ssm_in.weight"].numbers == Floats{2, 4, 60, 80, 1000, 12000, 140000});
  CHECK(made["blk.0.attn_q.weight"].numbers[1] == 3);
  CHECK(made["blk.0.attn_k.weight"].numbers[1] == 15);
  CHECK(made["token_embd.weight"].numbers[1] == 2);
  CHECK(made["output.weight"].numbers[1] == 4);
}

TEST_CASE("convert: of latent attention's expanded keys and values each head gets matrices of its own") {
  Pieces p("DeepseekV3ForCausalLM");
  p.config.update({{"num_key_value_heads", 2},
                   {"qk_nope_head_dim", 1},
                   {"qk_rope_head_dim", 2},
                   {"v_head_dim", 2},
                   {"kv_lora_rank", 4},
                   {"model_type", "deepseek_v3"}});
  p.in_layer("self_attn.kv_b_proj.weight", {6, 4}); // per head: one row of keys, two of values
  auto made = p.made();
  CHECK(made["blk.0.attn_k_b.weight"].dims == Dims{1, 4, 2});
  CHECK(made["blk.0.attn_k_b.weight"].numbers == Floats{0, 1, 2, 3, 12, 13, 14, 15});
  CHECK(made["blk.0.attn_v_b.weight"].dims == Dims{4, 2, 2});
  CHECK(rows_of(made["blk.0.attn_v_b.weight"]) == Floats{1, 2, 4, 5});
  gguf::Metadata metadata;
  config_in(p.folder, metadata);
  CHECK(metadata.find("deepseek2.attention.key_length")->view().as_int() == 6);
  CHECK(metadata.find("deepseek2.attention.key_length_mla")->view().as_int() == 3);
  CHECK(metadata.find("deepseek2.attention.head_count_kv")->view().as_int() == 1);
  CHECK(metadata.find("deepseek2.expert_gating_func")->view().as_int() == 2);
  p.config["v_head_dim"] = 3;
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("qk_nope_head_dim"), Error);
}

TEST_CASE("convert: the language model is found within a model that also sees, and its drafts are left out") {
  Pieces p("Qwen3VLForConditionalGeneration");
  p.prefix = "model.language_model.";
  nlohmann::json text = p.config;
  text.erase("architectures");
  p.config = {{"architectures", p.config["architectures"]},
              {"hidden_size", 999},
              {"text_config", text},
              {"vision_config", {{"deepstack_visual_indexes", {1, 2, 3}}}}};
  p.in_layer("self_attn.o_proj.weight", {4, 8});
  p.add("model.visual.blocks.0.attn.qkv.weight", {4, 4});
  p.add("mtp.fc.weight", {4, 8});
  auto made = p.made();
  CHECK(made.contains("blk.0.attn_output.weight"));
  CHECK(made.size() == 2);
  CHECK(p.has_drafts);
  gguf::Metadata metadata;
  config_in(p.folder, metadata);
  CHECK(metadata.find("qwen3vl.n_deepstack_layers")->view().as_int() == 3);
  CHECK(metadata.find("qwen3vl.embedding_length")->view().as_int() == 4);
}

TEST_CASE("convert: kinds of layers are read however config.json spells them") {
  const auto heads = [](const char* hf_class, const char* key, nlohmann::json value) {
    Pieces p(hf_class);
    p.config["num_hidden_layers"] = 3;
    p.config[key] = std::move(value);
    p.config["mlp_hidden_act"] = std::string(hf_class).starts_with("Nemotron") ? "relu2" : "silu";
    p.folder.write("config.json", p.config.dump());
    gguf::Metadata metadata;
    const auto config = config_in(p.folder, metadata);
    return *metadata.find(std::string(config.architecture->name) + ".attention.head_count_kv")->view().as_ints();
  };
  using Ints = std::vector<int64_t>;
  CHECK(heads("Lfm2ForCausalLM", "layer_types", {"conv", "full_attention", "conv"}) == Ints{0, 1, 0});
  CHECK(heads("Lfm2ForCausalLM", "full_attn_idxs", {2}) == Ints{0, 0, 1});
  CHECK(heads("NemotronHForCausalLM", "hybrid_override_pattern", "M*-") == Ints{0, 1, 0});
  CHECK_THROWS_WITH_AS(heads("Lfm2ForCausalLM", "layer_types", {"conv", "whirl", "conv"}), doctest::Contains("whirl"),
                       Error);
  CHECK_THROWS_WITH_AS(heads("Lfm2ForCausalLM", "layer_types", {"conv"}), doctest::Contains("has 1 entries"), Error);
  CHECK_THROWS_WITH_AS(heads("Lfm2ForCausalLM", "full_attn_idxs", {7}), doctest::Contains("0 to 2"), Error);
  CHECK_THROWS_WITH_AS(heads("Qwen3ForCausalLM", "layer_types", {"mamba", "mamba", "mamba"}),
                       doctest::Contains("recurrent layers"), Error);
}

TEST_CASE("convert: expressions over config.json take the first field that is there, and products") {
  convert::import::Config config;
  config.document = std::make_shared<const nlohmann::json>(nlohmann::json::parse(
      R"({"a": 3, "b": null, "list": [4, 5], "deep": {"x": true}, "word": "rope", "half": 0.5, "none": "auto"})"));
  config.path = "config.json";
  CHECK(config.evaluate("a") == 3);
  CHECK(config.evaluate("b") == std::nullopt);
  CHECK(config.evaluate("b | missing | a") == 3);
  CHECK(config.evaluate("missing | 7 * a") == 21);
  CHECK(config.evaluate("missing * a") == std::nullopt);
  CHECK(config.evaluate("none | a * half") == 1.5);
  CHECK(config.evaluate("list") == 2);
  CHECK(config.evaluate("list.1") == 5);
  CHECK(config.evaluate("list.2") == std::nullopt);
  CHECK(config.evaluate("deep.x") == 1);
  CHECK(config.evaluate("word = rope") == 1);
  CHECK(config.evaluate("word = nope") == 0);
  CHECK(config.evaluate("missing = nope") == std::nullopt);
  CHECK(config.evaluate("1 + word = rope | a") == 2);
  CHECK(config.evaluate("a + half") == 3.5);
  CHECK(config.evaluate("a + missing") == std::nullopt);
  CHECK(config.evaluate("word = nope / rope") == 1);
  CHECK(config.evaluate("a = 3") == 1);
  CHECK(config.evaluate("list = 5") == 1);
  CHECK(config.evaluate("list = 4 / 5") == 2);
  CHECK(config.evaluate("a + -1 * half") == 2.5);
  CHECK(config.evaluate("a * half ^ -1") == 6);
  CHECK(config.evaluate("missing ^ 2") == std::nullopt);
  CHECK_THROWS_AS(config.evaluate("deep"), Error);
}

TEST_CASE("convert: rows of gpt-oss's gate and up take turns, plain and transposed or in MXFP4") {
  Pieces p("GptOssForCausalLM");
  p.config.update({{"num_local_experts", 2}, {"num_experts_per_tok", 1}, {"intermediate_size", 2}});
  SUBCASE("plain") {
    p.in_layer("mlp.experts.gate_up_proj", {2, 4, 4}); // per expert [inputs, interleaved rows of gate and up]
    auto made = p.made();
    CHECK(made["blk.0.ffn_gate_exps.weight"].dims == Dims{4, 2, 2});
    CHECK(made["blk.0.ffn_gate_exps.weight"].numbers ==
          Floats{0, 4, 8, 12, 2, 6, 10, 14, 16, 20, 24, 28, 18, 22, 26, 30});
    CHECK(made["blk.0.ffn_up_exps.weight"].numbers ==
          Floats{1, 5, 9, 13, 3, 7, 11, 15, 17, 21, 25, 29, 19, 23, 27, 31});
  }
  SUBCASE("MXFP4") {
    const std::string name = "model.layers.0.mlp.experts.gate_up_proj";
    std::vector<uint8_t> codes, scales; // row r: the number 1 at scale 2^r
    for (uint8_t row = 0; row < 8; ++row) {
      codes.insert(codes.end(), 16, 0x22);
      scales.push_back(127 + row);
    }
    p.file.add(name + "_blocks", "U8", {2, 4, 1, 16}, codes);
    p.file.add(name + "_scales", "U8", {2, 4, 1}, scales);
    auto made = p.made();
    const auto scales_of = [&](const std::string& tensor) {
      std::vector<int> exponents;
      for (size_t at = 0; at < made[tensor].bytes.size(); at += 17)
        exponents.push_back(static_cast<int>(made[tensor].bytes[at]) - 127);
      return exponents;
    };
    CHECK(made["blk.0.ffn_up_exps.weight"].dims == Dims{32, 2, 2});
    CHECK(scales_of("blk.0.ffn_gate_exps.weight") == std::vector<int>{0, 2, 4, 6});
    CHECK(scales_of("blk.0.ffn_up_exps.weight") == std::vector<int>{1, 3, 5, 7});
  }
}

TEST_CASE("convert: Gemma 4's layers that see all have heads of their own, and rope that turns a part of them") {
  Pieces p("Gemma4ForCausalLM");
  p.config.update({{"num_hidden_layers", 4},
                   {"layer_types", {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}},
                   {"sliding_window", 8},
                   {"global_head_dim", 8},
                   {"num_attention_heads", 4},
                   {"num_key_value_heads", 2},
                   {"num_global_key_value_heads", 1},
                   {"attention_k_eq_v", true},
                   {"num_kv_shared_layers", 2},
                   {"use_double_wide_mlp", true}});
  p.config["rope_parameters"]["full_attention"] = {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.5}};
  p.config["rope_parameters"]["sliding_attention"] = {{"rope_type", "default"}, {"rope_theta", 500}};
  p.in_layer("layer_scalar", {1}, 3);
  p.in_layer("input_layernorm.weight", {4}, 5);
  p.in_layer("post_attention_layernorm.weight", {4}, 6);
  auto made = p.made();
  CHECK(made["rope_freqs.weight"].numbers == Floats{1, 1, 1e30f, 1e30f});
  CHECK(made["blk.0.layer_output_scale.weight"].numbers == Floats{3});
  CHECK(made["blk.0.attn_norm.weight"].numbers == Floats{5, 6, 7, 8}); // without + 1
  CHECK(made.contains("blk.0.post_attention_norm.weight"));

  gguf::Metadata metadata;
  config_in(p.folder, metadata);
  const auto integer = [&](const char* key) { return metadata.find(std::string("gemma4.") + key)->view().as_int(); };
  const auto integers = [&](const char* key) { return *metadata.find(std::string("gemma4.") + key)->view().as_ints(); };
  using Ints = std::vector<int64_t>;
  CHECK(integer("attention.key_length") == 8);
  CHECK(integer("attention.key_length_swa") == 4);
  CHECK(integer("rope.dimension_count") == 8);
  CHECK(integer("rope.dimension_count_swa") == 4);
  CHECK(integers("attention.head_count_kv") == Ints{2, 1, 2, 1});
  CHECK(integers("feed_forward_length") == Ints{4, 4, 8, 8});
  CHECK(integers("attention.sliding_window_pattern") == Ints{1, 0, 1, 0});

  p.config["num_kv_shared_layers"] = 3; // one layer with a window precedes them
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("num_kv_shared_layers"), Error);
}

TEST_CASE("convert: Muse Glimmer's queries get their factor by a norm's weights") {
  Pieces p("MuseGlimmerForConditionalGeneration");
  p.config.update({{"qk_scale_factor", 1.5}, {"layer_types", {"sliding_attention"}}, {"sliding_window", 8}});
  p.in_layer("self_attn.q_proj.weight", {8, 4});
  p.in_layer("input_layernorm.weight", {4}, 5);
  p.add("model.norm.weight", {4}, 5);
  auto made = p.made();
  CHECK(made["blk.0.attn_q_norm.weight"].numbers == Floats{1.5, 1.5, 1.5, 1.5});
  CHECK(made["blk.0.attn_k_norm.weight"].numbers == Floats{1, 1, 1, 1});
  CHECK(rows_of(made["blk.0.attn_q.weight"]) == Floats{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(made["blk.0.attn_norm.weight"].numbers == Floats{6, 7, 8, 9});
  CHECK(made["output_norm.weight"].numbers == Floats{5, 6, 7, 8});
  p.config["layer_rope_theta"] = {0};
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("layer_rope_theta"), Error);
}
