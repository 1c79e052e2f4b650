// Draft heads of checkpoints.
#include "convert/import/import.h"
#include "core/error.h"
#include "gguf/gguf.h"
#include "pieces.h"

#include <algorithm>

using namespace ridge;
using namespace ridge::tests;

namespace {

using Ints = std::vector<int64_t>;

int64_t count(const Pieces& p, const std::string& key) {
  const auto* found = p.metadata.find(key);
  return found ? *found->view().as_int() : 0;
}

} // namespace

TEST_CASE("convert: layers behind a model's are its draft heads, without copies of its matrices") {
  Pieces p("Glm4MoeForCausalLM");
  p.config.update({{"n_routed_experts", 2}, {"num_experts_per_tok", 1}, {"tie_word_embeddings", false}});
  p.in_layer("self_attn.o_proj.weight", {4, 8});
  p.add("lm_head.weight", {3, 4}, 5);
  for (const std::string layer : {"model.layers.1.", "model.layers.2."}) {
    p.add(layer + "eh_proj.weight", {4, 8});
    for (const char* norm : {"enorm", "hnorm", "shared_head.norm", "input_layernorm"})
      p.add(layer + norm + ".weight", {4}, 3);
    p.add(layer + "embed_tokens.weight", {3, 4});
    p.add(layer + "shared_head.head.weight", {3, 4}, layer.find("1") != std::string::npos ? 5 : 6);
    p.add(layer + "self_attn.o_proj.weight", {4, 8}, 2);
    p.add(layer + "mlp.gate.e_score_correction_bias", {2}, 9);
  }
  auto made = p.made();
  CHECK(count(p, "glm4moe.block_count") == 3);
  CHECK(count(p, "glm4moe.nextn_predict_layers") == 2);
  CHECK_FALSE(p.has_drafts);
  CHECK(made["blk.1.nextn.eh_proj.weight"].dims == Dims{8, 4});
  CHECK(made["blk.2.nextn.hnorm.weight"].numbers == Floats{3, 4, 5, 6});
  CHECK(made["blk.2.nextn.shared_head_norm.weight"].numbers == Floats{3, 4, 5, 6});
  CHECK(made["blk.1.attn_norm.weight"].numbers == Floats{3, 4, 5, 6});
  CHECK(made["blk.1.attn_output.weight"].dims == Dims{8, 4});
  CHECK(made["blk.2.exp_probs_b.bias"].numbers == Floats{9, 10});
  CHECK_FALSE(made.contains("blk.1.nextn.embed_tokens.weight"));
  CHECK_FALSE(made.contains("blk.1.nextn.shared_head_head.weight"));
  CHECK(made.contains("blk.2.nextn.shared_head_head.weight"));
}

TEST_CASE("convert: the norm behind Ling 2's draft head is named like a layer's") {
  Pieces p("BailingMoeV2ForCausalLM");
  p.config.update({{"num_experts", 2}, {"num_experts_per_tok", 1}});
  p.add("model.layers.1.eh_proj.weight", {4, 8});
  for (const char* norm : {"enorm", "hnorm", "final_layernorm"})
    p.add(std::string("model.layers.1.") + norm + ".weight", {4}, 3);
  auto made = p.made();
  CHECK(count(p, "bailingmoe2.nextn_predict_layers") == 1);
  CHECK(made["blk.1.nextn.eh_proj.weight"].dims == Dims{8, 4});
  CHECK(made["blk.1.layer_output_norm.weight"].numbers == Floats{3, 4, 5, 6});
}

TEST_CASE("convert: Qwen's draft head stands aside, its norms without their one") {
  Pieces p("Qwen3_5ForCausalLM");
  p.config.update({{"num_hidden_layers", 2}, {"head_dim", 8}, {"layer_types", {"linear_attention", "full_attention"}}});
  p.add("mtp.fc.weight", {4, 8});
  for (const char* norm : {"pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm", "layers.0.input_layernorm"})
    p.add(std::string("mtp.") + norm + ".weight", {4});
  p.add("mtp.layers.0.self_attn.o_proj.weight", {4, 8});
  auto made = p.made();
  CHECK(count(p, "qwen35.block_count") == 3);
  CHECK(count(p, "qwen35.nextn_predict_layers") == 1);
  CHECK(p.metadata.find("qwen35.attention.recurrent_layers")->view().as_ints() == Ints{1, 0, 0});
  for (const char* norm : {"nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm", "attn_norm"})
    CHECK(made[std::string("blk.2.") + norm + ".weight"].numbers == Floats{1, 2, 3, 4});
  CHECK(made["blk.2.nextn.eh_proj.weight"].dims == Dims{8, 4});
  CHECK(made.contains("blk.2.attn_output.weight"));
  CHECK_FALSE(p.has_drafts);

  // Several heads that share a matrix cannot be run.
  p.add("mtp.layers.1.input_layernorm.weight", {4});
  p.metadata = {};
  p.made();
  CHECK(p.has_drafts);
  CHECK(count(p, "qwen35.nextn_predict_layers") == 0);
}

TEST_CASE("convert: MiMo V2's draft heads stand aside and have a window") {
  Pieces p("MiMoV2FlashForCausalLM");
  p.config.update({{"num_hidden_layers", 2},
                   {"hybrid_layer_pattern", {0, 1}},
                   {"swa_num_key_value_heads", 2},
                   {"sliding_window", 5}});
  for (const int head : {0, 1, 2}) {
    const std::string prefix = fmt::format("model.mtp.layers.{}.", head);
    p.add(prefix + "eh_proj.weight", {4, 8}, static_cast<float>(head));
    for (const char* norm : {"enorm", "hnorm", "final_layernorm", "input_layernorm", "pre_mlp_layernorm"})
      p.add(prefix + norm + ".weight", {4});
    p.add(prefix + "self_attn.attention_sink_bias", {2});
  }
  auto made = p.made();
  CHECK(count(p, "mimo2.block_count") == 5);
  CHECK(count(p, "mimo2.nextn_predict_layers") == 3);
  CHECK(p.metadata.find("mimo2.attention.sliding_window_pattern")->view().as_ints() == Ints{0, 1, 1, 1, 1});
  CHECK(p.metadata.find("mimo2.attention.head_count_kv")->view().as_ints() == Ints{1, 2, 2, 2, 2});
  CHECK(made["blk.4.nextn.eh_proj.weight"].numbers.front() == 2);
  for (const char* name : {"nextn.enorm.weight", "nextn.hnorm.weight", "nextn.shared_head_norm.weight",
                           "attn_norm.weight", "ffn_norm.weight", "attn_sinks.weight"})
    CHECK(made.contains(std::string("blk.3.") + name));
  CHECK_FALSE(p.has_drafts);
}

TEST_CASE("convert: lists of layers go on with a draft head's entries") {
  Pieces p("Step3p5ForCausalLM");
  p.config.update({{"num_hidden_layers", 2},
                   {"head_dim", 8},
                   {"layer_types", {"full_attention", "sliding_attention", "sliding_attention"}},
                   {"attention_other_setting", {{"num_attention_heads", 4}}},
                   {"sliding_window", 5},
                   {"swiglu_limits", {0, 7}}});
  p.add("model.layers.2.eh_proj.weight", {4, 8});
  p.add("model.layers.2.enorm.weight", {4});
  p.add("model.layers.2.transformer.shared_head.norm.weight", {4});
  p.add("model.layers.2.transformer.shared_head.output.weight", {3, 4}, 8);
  auto made = p.made();
  CHECK(made["blk.2.nextn.enorm.weight"].numbers == Floats{1, 2, 3, 4});
  CHECK(made["blk.2.nextn.shared_head_norm.weight"].numbers == Floats{1, 2, 3, 4});
  CHECK(made.contains("blk.2.nextn.shared_head_head.weight"));
  CHECK(p.metadata.find("step35.attention.sliding_window_pattern")->view().as_ints() == Ints{0, 1, 1});
  CHECK(p.metadata.find("step35.attention.head_count")->view().as_ints() == Ints{2, 4, 4});
  CHECK(p.metadata.find("step35.swiglu_clamp_exp")->view().as_floats() == Floats{0, 7, 0});
}

TEST_CASE("convert: a draft head that is not whole is left out, and the model is written") {
  Checkpoint c;
  c.config["architectures"] = {"Glm4MoeForCausalLM"};
  c.write();
  for (const char* module : {"enorm", "hnorm"})
    c.file.add(std::string("model.layers.1.") + module + ".weight", "F32", {64}, std::vector<float>(64, 1));
  c.file.add("model.layers.1.eh_proj.weight", "F32", {64, 128}, std::vector<float>(64 * 128, 1));
  c.save();
  const auto report = convert::import::convert({c.folder.path(), c.folder / "out.gguf"});
  const gguf::File file = gguf::File::open(c.folder / "out.gguf");
  CHECK(file.get_int("glm4moe.block_count") == 1);
  CHECK(file.find("glm4moe.nextn_predict_layers") == nullptr);
  CHECK(file.find_tensor("blk.1.nextn.eh_proj.weight") == nullptr);
  const auto said = [](const std::string& note) { return note.starts_with("draft heads cannot be run: "); };
  CHECK(std::ranges::any_of(report.notes, said));
}
