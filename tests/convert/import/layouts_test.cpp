// Fused matrices, unusual hyperparameters, encoders.
#include "convert/import/import.h"
#include "core/error.h"
#include "core/strings/base64.h"
#include "gguf/gguf.h"
#include "pieces.h"
#include "text/tokenizer/tokenizer.h"

using namespace ridge;
using namespace ridge::tests;

TEST_CASE("convert: GPT 2's matrices are turned, biases stay, and older masks are left out") {
  Pieces p("GPT2LMHeadModel");
  p.prefix = "transformer.";
  p.layers = "h.";
  p.config.erase("hidden_size");
  p.config.update({{"n_embd", 4}, {"head_dim", 2}, {"activation_function", "gelu_new"}});
  p.table = "wte";
  p.add("transformer.wpe.weight", {5, 4});
  p.in_layer("mlp.c_fc.weight", {4, 6});
  p.in_layer("mlp.c_fc.bias", {6}, 7);
  p.in_layer("attn.bias", {1, 1, 2, 2});
  auto made = p.made();
  CHECK(made["token_embd.weight"].dims == Dims{4, 3});
  CHECK(made["position_embd.weight"].dims == Dims{4, 5});
  CHECK(made["blk.0.ffn_up.weight"].dims == Dims{4, 6});
  CHECK(made["blk.0.ffn_up.weight"].numbers[1] == 6);
  CHECK(made["blk.0.ffn_up.bias"].numbers == Floats{7, 8, 9, 10, 11, 12});
  CHECK(made.size() == 4);
}

TEST_CASE("convert: q, k and v of each key-value head are taken apart, and rope's pairs put beside each other") {
  Pieces neox("GPTNeoXForCausalLM");
  neox.config.update({{"num_key_value_heads", 2}, {"head_dim", 2}, {"rotary_pct", 1.0}});
  neox.prefix = "gpt_neox.";
  neox.table = "embed_in";
  neox.in_layer("attention.query_key_value.weight", {12, 4}); // q, k, v per head
  CHECK(rows_of(neox.made()["blk.0.attn_qkv.weight"]) == Floats{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11});

  Pieces intern("InternLM2ForCausalLM");
  intern.table = "tok_embeddings";
  intern.in_layer("attention.wqkv.weight", {16, 4}); // q, q, k, v, width 4
  auto made = intern.made();
  CHECK(rows_of(made["blk.0.attn_q.weight"]) == Floats{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(rows_of(made["blk.0.attn_k.weight"]) == Floats{8, 10, 9, 11});
  CHECK(rows_of(made["blk.0.attn_v.weight"]) == Floats{12, 13, 14, 15});
}

TEST_CASE("convert: hyperparameters that a checkpoint keeps as tensors are read from each layer") {
  Pieces p("ApertusForCausalLM");
  for (const char* name : {"alpha_n", "alpha_p", "beta", "eps"})
    p.in_layer(std::string("mlp.act_fn.") + name, {1}, static_cast<float>(std::string_view(name).size()));
  p.made();
  CHECK(p.numbers["xielu.alpha_n"] == Floats{7});
  CHECK(p.numbers["xielu.eps"] == Floats{3});
  Pieces without("ApertusForCausalLM");
  CHECK_THROWS_WITH_AS(without.made(), doctest::Contains("model.layers.0.mlp.act_fn.alpha_n"), Error);
}

TEST_CASE("convert: Phi-3.5-MoE's norms, jitter and magnitude of long texts are kept, its biases too") {
  Pieces p("PhimoeForCausalLM");
  p.config.update({{"tie_word_embeddings", false},
                   {"num_local_experts", 2},
                   {"num_experts_per_tok", 2},
                   {"rms_norm_eps", 1e-4},
                   {"max_position_embeddings", 64},
                   {"rope_scaling",
                    {{"type", "longrope"},
                     {"short_factor", {1, 1}},
                     {"long_factor", {2, 2}},
                     {"short_mscale", 1.25},
                     {"long_mscale", 1.25},
                     {"original_max_position_embeddings", 16}}}});
  p.add("lm_head.weight", {3, 4});
  p.add("lm_head.bias", {3}, 5);
  for (const char* part : {"input_layernorm.weight", "input_layernorm.bias"}) p.in_layer(part, {4}, 2);
  auto made = p.made();
  CHECK(made["output.bias"].numbers == Floats{5, 6, 7});
  CHECK(made["blk.0.attn_norm.bias"].numbers == Floats{2, 3, 4, 5});
  const auto real = [&](const char* key) { return p.metadata.find(key)->view().as_float(); };
  CHECK(real("phimoe.attention.layer_norm_epsilon") == doctest::Approx(1e-4));
  CHECK(real("phimoe.attention.layer_norm_rms_epsilon") == doctest::Approx(1e-4));
  CHECK(real("phimoe.router_jitter_noise") == doctest::Approx(0.01));
  CHECK(real("phimoe.rope.scaling.attn_factor") == doctest::Approx(1.25));

  p.config["rope_scaling"]["long_mscale"] = 1.5;
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("long_mscale: is not short_mscale"), Error);
  p.config["rope_scaling"]["long_mscale"] = 1.25;
  p.config["num_experts_per_tok"] = 1;
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("num_experts_per_tok"), Error);
}

TEST_CASE("convert: lists with an entry for each layer become arrays, and dense layers are counted") {
  Pieces p("LagunaForCausalLM");
  p.config.update({{"num_hidden_layers", 3},
                   {"num_attention_heads_per_layer", {2, 4, 4}},
                   {"num_experts", 2},
                   {"num_experts_per_tok", 1},
                   {"mlp_layer_types", {"dense", "sparse", "sparse"}}});
  p.made();
  const auto heads = p.metadata.find("laguna.attention.head_count")->view().as_ints();
  CHECK(heads == std::vector<int64_t>{2, 4, 4});
  CHECK(p.metadata.find("laguna.leading_dense_block_count")->view().as_int() == 1);

  p.config["mlp_layer_types"] = {"dense", "sparse", "dense"};
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("mlp_layer_types"), Error);
  p.config["mlp_layer_types"] = {"dense", "sparse", "sparse"};
  p.config["num_attention_heads_per_layer"] = {2, -4, 4};
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("num_attention_heads_per_layer: layer 1"), Error);
  p.config["num_attention_heads_per_layer"] = {2, 4};
  CHECK_THROWS_WITH_AS(p.made(), doctest::Contains("each of 3 layers"), Error);
}

TEST_CASE("convert: RoBERTa's positions begin behind padding, and its context ends so much earlier") {
  for (const bool padded : {false, true}) {
    Pieces p("XLMRobertaModel");
    p.prefix = "";
    p.layers = "encoder.layer.";
    p.config.update({{"model_type", padded ? "xlm-roberta" : "bert"},
                     {"pad_token_id", 1},
                     {"max_position_embeddings", 7},
                     {"type_vocab_size", 2},
                     {"hidden_act", "gelu"}});
    std::filesystem::create_directory(p.folder.path() + "/1_Pooling");
    p.folder.write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
    p.table = "embeddings.word_embeddings";
    p.add("embeddings.position_embeddings.weight", {7, 4});
    p.add("pooler.dense.weight", {4, 4});
    p.in_layer("attention.output.LayerNorm.weight", {4});
    p.in_layer("attention.output.LayerNorm.bias", {4}, 5);
    auto made = p.made();
    CHECK(rows_of(made["position_embd.weight"]).front() == (padded ? 2 : 0));
    CHECK(made["position_embd.weight"].dims == Dims{4, padded ? 5 : 7});
    CHECK(made["blk.0.attn_output_norm.bias"].numbers == Floats{5, 6, 7, 8});
    CHECK(!made.contains("output.weight"));
    CHECK(p.metadata.find("bert.context_length")->view().as_int() == (padded ? 5 : 7));
    CHECK(p.metadata.find("bert.pooling_type")->view().as_int() == 2);
    CHECK(p.metadata.find("bert.attention.causal")->view().as_bool() == false);
    CHECK(p.metadata.find("tokenizer.ggml.token_type_count")->view().as_int() == 2);
  }
}

TEST_CASE("convert: gate and up of Jina 2's text and code models stand the other way round") {
  for (const bool code : {false, true}) {
    Pieces p("JinaBertForMaskedLM");
    p.prefix = "";
    p.layers = "encoder.layer.";
    p.table = "embeddings.word_embeddings";
    p.config.update({{"position_embedding_type", "alibi"}, {"feed_forward_type", "geglu"}, {"hidden_act", "gelu"}});
    p.in_layer(code ? "mlp.up_gated_layer.weight" : "mlp.gated_layers.weight", {8, 4});
    p.in_layer(code ? "layer_norm_2.weight" : "mlp.layernorm.weight", {4}, 3);
    auto made = p.made();
    CHECK(rows_of(made["blk.0.ffn_gate.weight"]).front() == (code ? 4 : 0));
    CHECK(rows_of(made["blk.0.ffn_up.weight"]).front() == (code ? 0 : 4));
    CHECK(made["blk.0.layer_output_norm.weight"].numbers == Floats{3, 4, 5, 6});
    CHECK(p.metadata.find("jina-bert-v2.attention.causal")->view().as_bool() == false);
  }
}

namespace {

// Encodes with the tokenizer of a llama checkpoint with 96 rows.
std::vector<int32_t> tokens_of(std::string_view text, const nlohmann::json& tokenizer, const char* settings = "{}",
                               bool add_special = false) {
  Checkpoint c;
  c.write();
  c.folder.write("tokenizer.json", tokenizer.dump());
  c.folder.write("tokenizer_config.json", settings);
  convert::import::convert({c.folder.path(), c.folder / "out.gguf"});
  const gguf::File file = gguf::File::open(c.folder / "out.gguf");
  return text::Tokenizer::from_file(file)->encode(text, {.add_special = add_special});
}

nlohmann::json between(const char* first, const char* last) {
  const auto marker = [](const char* id) { return nlohmann::json{{"SpecialToken", {{"id", id}, {"type_id", 0}}}}; };
  return {{"type", "TemplateProcessing"},
          {"single", {marker(first), {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, marker(last)}}};
}

} // namespace

TEST_CASE("convert: a WordPiece tokenizer keeps its words, their ends, and what it does with capitals") {
  nlohmann::json tokenizer = {
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"vocab", {{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3}, {"har", 4}, {"##bour", 5}, {"Har", 6}}}}},
      {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", nullptr}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor", between("[CLS]", "[SEP]")},
      {"added_tokens", {{{"id", 2}, {"content", "[CLS]"}, {"special", true}}}}};
  const char* settings = R"({"sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]"})";
  CHECK(tokens_of("Harbour x", tokenizer, settings, true) == std::vector<int32_t>{2, 4, 5, 1, 3});
  tokenizer["normalizer"]["lowercase"] = false;
  CHECK(tokens_of("Harbour", tokenizer, settings) == std::vector<int32_t>{6, 5});
  tokenizer["normalizer"]["type"] = "NFKD";
  CHECK_THROWS_WITH_AS(tokens_of("sea", tokenizer), doctest::Contains("NFKD"), Error);
}

TEST_CASE("convert: a Unigram tokenizer keeps its pieces' scores and its rules for spaces") {
  nlohmann::json tokenizer = {
      {"model",
       {{"type", "Unigram"},
        {"unk_id", 3},
        {"vocab", nlohmann::json::parse(R"([["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0],
                     ["\u2581sea", -1.0], ["\u2581", -3.0], ["s", -4.0], ["ea", -4.0]])")}}},
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", {{{"type", "WhitespaceSplit"}}, {{"type", "Metaspace"}, {"add_prefix_space", true}}}}}},
      {"post_processor", between("<s>", "</s>")},
      {"added_tokens",
       {{{"id", 0}, {"content", "<s>"}, {"special", true}}, {{"id", 2}, {"content", "</s>"}, {"special", true}}}}};
  CHECK(tokens_of("sea  sea", tokenizer, "{}", true) == std::vector<int32_t>{0, 4, 4, 2});
  tokenizer["model"]["vocab"][4][1] = -20.0;
  CHECK(tokens_of("sea", tokenizer) == std::vector<int32_t>{5, 6, 7});
  tokenizer["model"]["unk_id"] = 90;
  CHECK_THROWS_WITH_AS(tokens_of("sea", tokenizer), doctest::Contains("unk_id"), Error);
  tokenizer["model"]["vocab"][4] = "sea";
  CHECK_THROWS_WITH_AS(tokens_of("sea", tokenizer), doctest::Contains("scores"), Error);
}
