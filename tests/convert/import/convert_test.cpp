// Conversion of plain checkpoints.
#include "checkpoint.h"
#include "convert/import/config/config.h"
#include "convert/import/import.h"
#include "convert/import/tokenizers/tokenizer.h"
#include "core/error.h"
#include "gguf/gguf.h"
#include "models/model.h"
#include "text/tokenizer/tokenizer.h"

#include <algorithm>

using namespace ridge;
using namespace ridge::tests;
using convert::import::find_family;

namespace {

gguf::File converted(const Checkpoint& c, const std::string& type = "") {
  const std::string out = c.folder / "out.gguf";
  convert::import::convert({c.folder.path(), out, type});
  return gguf::File::open(out);
}

std::string problem(const Checkpoint& c) {
  try {
    convert::import::convert({c.folder.path(), c.folder / "out.gguf"});
  } catch (const Error& error) {
    CHECK(!std::filesystem::exists(c.folder / "out.gguf"));
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
    return error.what();
  }
  return "";
}

bool names(const std::string& message, std::string_view part) {
  CAPTURE(message);
  return message.find(part) != std::string::npos;
}

struct WithVocabulary : Checkpoint {
  WithVocabulary() {
    write();
    config["vocab_size"] = 300;
    file.add("model.embed_tokens.weight", "F32", {300, 64}, std::vector<float>(300 * 64, 0.5f));
    file.add("lm_head.weight", "F32", {300, 64}, std::vector<float>(300 * 64, 0.5f));
    save();
  }
};

} // namespace

TEST_CASE("convert: hyperparameters, types and the order of q rows are what the checkpoint says") {
  Checkpoint c;
  c.write();
  const gguf::File file = converted(c);
  CHECK(file.get_string("general.architecture") == "llama");
  CHECK(file.get_int("llama.block_count") == 1);
  CHECK(file.get_int("llama.attention.head_count_kv") == 1);
  CHECK(file.get_int("llama.rope.dimension_count") == 32);
  CHECK(file.get_float("llama.rope.freq_base") == 10000);
  CHECK(file.find_tensor("blk.0.attn_norm.weight")->type == quant::Type::F32);
  const gguf::Tensor* q = file.find_tensor("blk.0.attn_q.weight");
  REQUIRE(q->type == quant::Type::F32);
  const auto* numbers = reinterpret_cast<const float*>(q->data.data());
  const Numbers& stored = c.expected["blk.0.attn_q.weight"];
  CHECK(numbers[1 * 64 + 5] == static_cast<float>(stored[16 * 64 + 5])); // row 1 of the head was row 16
  CHECK(numbers[34 * 64 + 5] == static_cast<float>(stored[33 * 64 + 5]));

  const gguf::File half = converted(c, "f16");
  CHECK(half.find_tensor("blk.0.attn_q.weight")->type == quant::Type::F16);
  CHECK(half.get_int("general.file_type") == 1);
  CHECK(half.find_tensor("blk.0.attn_norm.weight")->type == quant::Type::F32);
}

TEST_CASE("convert: rope scaling of every kind is carried over, tied tables are not written twice") {
  Checkpoint c;
  c.config["rope_scaling"] = {{"rope_type", "yarn"},
                              {"factor", 4.0},
                              {"original_max_position_embeddings", 32},
                              {"attention_factor", 1.0},
                              {"beta_fast", 16}};
  c.config["tie_word_embeddings"] = true;
  c.write();
  const gguf::File yarn = converted(c);
  CHECK(yarn.get_string("llama.rope.scaling.type") == "yarn");
  CHECK(yarn.get_float("llama.rope.scaling.factor") == 4);
  CHECK(yarn.get_int("llama.rope.scaling.original_context_length") == 32);
  CHECK(yarn.get_float("llama.rope.scaling.attn_factor") == doctest::Approx(1 / (1 + 0.1 * std::log(4.0))));
  CHECK(yarn.get_float("llama.rope.scaling.yarn_beta_fast") == 16);
  CHECK(yarn.find_tensor("output.weight") == nullptr);

  c.config["rope_parameters"] = {{"rope_type", "llama3"},   {"rope_theta", 500000.0},
                                 {"factor", 8.0},           {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
  c.save();
  const gguf::File llama3 = converted(c);
  CHECK(llama3.get_float("llama.rope.freq_base") == 500000);
  const gguf::Tensor* factors = llama3.find_tensor("rope_freqs.weight");
  REQUIRE(factors);
  CHECK(factors->dims[0] == 16);
  CHECK(reinterpret_cast<const float*>(factors->data.data())[0] == 1);
  CHECK(reinterpret_cast<const float*>(factors->data.data())[15] == 8);
}

TEST_CASE("convert: a sliding window becomes the context's end") {
  Checkpoint c;
  c.config["architectures"] = {"MistralForCausalLM"};
  c.config["sliding_window"] = 40;
  c.write();
  CHECK(converted(c).get_int("llama.context_length") == 40);
  const auto report = convert::import::convert({c.folder.path(), c.folder / "out.gguf"});
  CHECK(names(report.notes.at(0), "a sliding window of 40 tokens"));
}

TEST_CASE("convert: what config.json claims and ridge cannot run, or the tensors do not bear out, is refused") {
  const auto with = [](const char* key, nlohmann::json value) {
    Checkpoint c;
    c.write();
    c.config[key] = std::move(value);
    c.save();
    return problem(c);
  };
  CHECK(names(with("architectures", {"ElmanModel"}),
              "unsupported model class ElmanModel; supported are LlamaForCausalLM"));
  CHECK(names(with("architectures", 7), "expected a list"));
  CHECK(names(with("hidden_act", "gelu"), "hidden_act"));
  CHECK(names(with("partial_rotary_factor", 1.5), "partial_rotary_factor"));
  CHECK(names(with("rope_scaling", {{"rope_type", "spiral"}}), "spiral"));
  CHECK(names(with("rope_scaling", {{"rope_type", "longrope"}}), "long_factor: expected 16 numbers"));
  CHECK(names(with("rope_scaling", "linear"), "rope_scaling: expected a JSON object"));
  CHECK(names(with("num_hidden_layers", 2), "blk.1.attn_norm.weight is missing"));
  CHECK(names(with("num_hidden_layers", 1e18), "num_hidden_layers"));
  CHECK(names(with("num_hidden_layers", "two"), "num_hidden_layers: is missing"));
  CHECK(names(with("num_attention_heads", 3), "head_dim: is odd"));
  CHECK(names(with("vocab_size", 97), "vocab_size: is 97, but the embedding table has 96 rows"));
  CHECK(names(with("rms_norm_eps", 5), "rms_norm_eps"));
  CHECK(names(with("rope_theta", -1), "rope_theta"));

  Checkpoint damaged;
  damaged.write();
  damaged.folder.write("config.json", "{\"architectures\": [");
  CHECK(names(problem(damaged), "config.json: is not valid JSON: error at byte"));
  std::filesystem::remove(damaged.folder / "config.json");
  CHECK(names(problem(damaged), "config.json: is missing"));
}

TEST_CASE("convert: every class of the table of architectures is taken for its row") {
  for (const models::Architecture& row : models::architecture_table())
    for (const std::string_view hf_class : row.hf_classes) {
      CAPTURE(hf_class);
      Checkpoint c;
      c.config["architectures"] = {hf_class.substr(0, hf_class.find(' '))};
      if (hf_class.ends_with(" with experts")) {
        c.config["num_experts"] = 2;
        c.config["num_experts_per_tok"] = 1;
      }
      const models::Checkpoint& layout = row.checkpoint();
      const auto activation = layout.activation.substr(0, layout.activation.find(" |"));
      const auto is_expression = [](const models::FixedField& fixed) {
        return fixed.field.find_first_of(".=+*|") != std::string_view::npos;
      };
      c.config["hidden_act"] = activation;
      for (const models::FixedField& fixed : layout.fixed)
        if (!is_expression(fixed)) c.config[fixed.field] = fixed.value;
      // Required, without defaults.
      for (const char* key : {"mamba_d_conv", "mamba_d_state", "mamba_n_groups", "mamba_n_heads", "mamba_d_ssm",
                              "mamba_expand", "num_heads", "indexer_compress_ratio"})
        c.config[key] = 2;
      c.config["output_gate_type"] = "sigmoid";
      if (row.name == "jina-bert-v2") {
        c.config["position_embedding_type"] = "alibi";
        c.config["feed_forward_type"] = "geglu";
      }
      c.save();
      gguf::Metadata metadata;
      const convert::import::Config config = config_in(c.folder, metadata);
      CHECK(config.architecture == &row);
      CHECK(metadata.find(std::string(row.name) + ".block_count") != nullptr);
      for (const models::FixedField& fixed : layout.fixed) {
        if (fixed.only != models::Only::always || is_expression(fixed)) continue;
        c.config[fixed.field] = fixed.value + 1;
        c.save();
        CHECK(names(problem(c), fixed.field));
        c.config[fixed.field] = fixed.value;
      }
      c.config["hidden_act"] = "unheard-of";
      c.save();
      CHECK(names(problem(c), "hidden_act"));
    }
}

TEST_CASE("convert: weights that the type cannot hold are refused with the tensor's name") {
  Checkpoint c;
  c.write();
  std::vector<float> numbers(64 * 64, 1.0f);
  numbers[70] = 1e6f;
  c.file.add("model.layers.0.self_attn.o_proj.weight", "F32", {64, 64}, numbers);
  c.save();
  CHECK_THROWS_WITH_AS(converted(c, "f16"), doctest::Contains("attn_output"), Error);
  CHECK_NOTHROW(converted(c, "bf16"));
  numbers[70] = NAN;
  c.file.add("model.layers.0.self_attn.o_proj.weight", "F32", {64, 64}, numbers);
  c.save();
  std::filesystem::remove(c.folder / "out.gguf");
  CHECK(names(problem(c), "attn_output"));
}

TEST_CASE("convert: a byte-level tokenizer.json keeps its tokens, merges, special tokens and chat template") {
  WithVocabulary c;
  c.folder.write("tokenizer.json", byte_level_tokenizer().dump());
  c.folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<s>"}, "chat_template": "old"})");
  c.folder.write("chat_template.jinja", "{{ messages[0].content }}");
  const gguf::File file = converted(c);
  CHECK(file.get_string("tokenizer.ggml.pre") == "gpt-2");
  CHECK(file.get_string("tokenizer.chat_template") == "{{ messages[0].content }}");
  const auto tokenizer = text::Tokenizer::from_file(file);
  CHECK(tokenizer->vocab_size() == 300);
  CHECK(tokenizer->encode("hello", {.add_special = true}) == std::vector<int32_t>{258, 257, 'l', 'o'});
  CHECK(tokenizer->encode("a<think>") == std::vector<int32_t>{'a', 259});
  CHECK(tokenizer->eos() == 258);
  CHECK(tokenizer->kind(258) == text::TokenKind::control);
  CHECK(tokenizer->kind(299) == text::TokenKind::unused);
}

TEST_CASE("convert: tokenizers that would not do what the checkpoint's does are refused") {
  WithVocabulary c;
  const auto with = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json tokenizer = byte_level_tokenizer();
    change(tokenizer);
    c.folder.write("tokenizer.json", tokenizer.dump());
    return problem(c);
  };
  CHECK(names(with([](auto& t) { t["model"]["type"] = "WordLevel"; }), "WordLevel"));
  CHECK(names(with([](auto& t) { t["model"]["vocab"]["x y"] = 300; }), "id 300, but the embedding table has 300 rows"));
  CHECK(names(with([](auto& t) { t["model"]["vocab"]["x y"] = -1; }), "ids of at least 0"));
  CHECK(names(with([](auto& t) { t["model"]["merges"] = {"h e", 5}; }), "expected pairs of strings"));
  CHECK(names(with([](auto& t) { t["normalizer"] = {{"type", "Lowercase"}}; }), "Lowercase"));
  CHECK(names(with([](auto& t) { t["pre_tokenizer"]["add_prefix_space"] = true; }), "add_prefix_space"));
  CHECK(names(with([](auto& t) { t["pre_tokenizer"] = {{"type", "Whitespace"}}; }), "Whitespace"));
  CHECK(names(with([](auto& t) { t["added_tokens"][0]["id"] = -1; }), "added_tokens"));
  const auto split = [](const char* regex) {
    return nlohmann::json{{"type", "Sequence"},
                          {"pretokenizers",
                           {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}},
                            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  };
  CHECK(names(with([&](auto& t) { t["pre_tokenizer"] = split("[aeiou]+"); }), "no known tokenizer family"));
  CHECK(names(with([&](auto& t) { t["pre_tokenizer"] = split("(unclosed"); }), "pattern (unclosed"));
  CHECK(names(with([&](auto& t) { t["pre_tokenizer"] = split("(\\w|\\w\\w|\\s)*$"); }), ""));
}

TEST_CASE("convert: added tokens without a row of the table are left out with one line, and merges may be empty") {
  WithVocabulary c;
  nlohmann::json tokenizer = byte_level_tokenizer();
  for (int id : {300, 301, 5000000})
    tokenizer["added_tokens"].push_back({{"id", id}, {"content", "<|" + std::to_string(id) + "|>"}, {"special", true}});
  tokenizer["model"]["merges"] = nlohmann::json::array();
  c.folder.write("tokenizer.json", tokenizer.dump());
  const std::string out = c.folder / "out.gguf";
  const auto report = convert::import::convert({c.folder.path(), out, ""});
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0] == "3 added tokens, starting with <|300|>, are left out: the embedding table has 300 rows");
  const gguf::File file = gguf::File::open(out);
  const auto read = text::Tokenizer::from_file(file);
  CHECK(read->vocab_size() == 300);
  CHECK(read->encode("he<think>") == std::vector<int32_t>{'h', 'e', 259});
}

TEST_CASE("convert: the makers' sampling and all tokens that end an answer are kept") {
  WithVocabulary c;
  c.folder.write("tokenizer.json", byte_level_tokenizer().dump());
  c.folder.write("tokenizer_config.json", R"({"eos_token": "<s>"})");
  const auto with = [&](const std::string& generation) {
    c.folder.write("generation_config.json", generation);
    return converted(c);
  };
  const gguf::File file = with(R"({"eos_token_id": [259, 258, 7, 400], "temperature": 0.6, "top_p": 0.9, "top_k": 20,
                                   "min_p": null, "repetition_penalty": 1.05, "do_sample": true})");
  CHECK(file.get_float("general.sampling.temp", 0) == doctest::Approx(0.6));
  CHECK(file.get_float("general.sampling.top_p", 0) == doctest::Approx(0.9));
  CHECK(file.get_float("general.sampling.penalty_repeat", 0) == doctest::Approx(1.05));
  CHECK(file.get_int("general.sampling.top_k", 0) == 20);
  CHECK(!file.find("general.sampling.min_p"));
  CHECK(file.get_int("tokenizer.ggml.eos_token_id", 0) == 258);
  const auto tokenizer = text::Tokenizer::from_file(file);
  for (const int32_t id : {7, 258, 259}) CHECK(tokenizer->is_eog(id));
  CHECK_FALSE(tokenizer->is_eog(8));
  CHECK(!with(R"({"temperature": 0.6, "do_sample": false})").find("general.sampling.temp"));
  c.folder.write("generation_config.json", R"({"temperature": -1, "top_k": 0.5})");
  CHECK(convert::import::convert({c.folder.path(), c.folder / "out.gguf", ""}).notes.size() == 2);
  c.folder.write("generation_config.json", R"({"temperature": "hot"})");
  std::filesystem::remove(c.folder / "out.gguf");
  CHECK(names(problem(c), "generation_config.json: temperature: expected a number"));
}

TEST_CASE("convert: families of pre-tokenizers are known by how they cut, not by how they are spelled") {
  const std::string llama3 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                             R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string possessive = R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}+)"
                                 R"(| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  CHECK(find_family({llama3}, true) == "llama-bpe");
  CHECK(find_family({llama3}, false) == "dbrx");
  CHECK(find_family({possessive}, false) == "dbrx");
  std::string qwen = llama3;
  qwen.replace(qwen.find("\\p{N}{1,3}"), 10, "\\p{N}");
  CHECK(find_family({qwen}, false) == "qwen2");
  CHECK(find_family({".+"}, false).empty());
}

TEST_CASE("convert: RWKV's vocabulary has its tokens as Python writes them, and damage is named") {
  const std::string lines =
      "1 '\\x00' 1\n2 'a' 1\r\n3 \"it's\" 4\n4 '\"\\'' 2\n5 b'\\xff\\\\' 2\n6 '\\u4e2d\\n' 4\n7 '\xc3\xa9 ' 3\n";
  const convert::import::Vocabulary read = convert::import::read_rwkv(lines, "v.txt", 10);
  CHECK(read.model == "rwkv");
  std::vector<std::string> texts;
  for (const convert::import::Token& token : read.tokens) texts.push_back(token.text);
  CHECK(texts == std::vector<std::string>{"<s>", "\\x00", "a", "it's", "\"\\'", "\\xff\\\\", "\\xe4\\xb8\\xad\\n",
                                          "\\xc3\\xa9 "});
  CHECK(read.tokens[0].kind == text::TokenKind::control);
  CHECK(read.special.at("eos") == 0);
  for (const char* damaged : {"1 'a'", "1 'a' 2", "x 'a' 1", "1 'a 1", "1 '\\xg0' 1", "1 b'\\u4e2d' 3", "0 'a' 1"})
    CHECK_THROWS_WITH_AS(convert::import::read_rwkv(damaged, "v.txt", 10),
                         "v.txt: line 1: expected a token id, its quoted text and its length in bytes", Error);
  CHECK_THROWS_AS(convert::import::read_rwkv(lines, "v.txt", 7), Error); // more tokens than rows
}

TEST_CASE("convert: a tokenizer.model is read field by field, and damage is named") {
  const auto varint = [](uint64_t value) {
    std::string out;
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    return out + static_cast<char>(value);
  };
  const auto field = [&](int number, const std::string& bytes) {
    return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
  };
  const auto number = [&](int field, uint64_t value) { return varint(field << 3) + varint(value); };
  const auto piece = [&](const std::string& text, float score, int kind) {
    std::string bits(4, '\0');
    std::memcpy(bits.data(), &score, 4);
    return field(1, field(1, text) + varint(2 << 3 | 5) + bits + number(3, kind));
  };
  const std::string pieces = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("<0x41>", 0, 6) +
                             piece("\u2581", -1, 1) + piece("a", -2, 1) + piece("\u2581a", -3, 1);
  const std::string good = pieces + field(2, number(3, 2) + number(40, 0) + number(43, UINT64_MAX)) +
                           field(3, field(1, "identity") + number(3, 0));
  const auto read = [](const std::string& bytes) { return convert::import::read_sentencepiece(bytes, "t.model", 100); };
  const auto vocabulary = read(good);
  CHECK(vocabulary.model == "llama");
  REQUIRE(vocabulary.tokens.size() == 7);
  CHECK(vocabulary.tokens[6].text == "\u2581a");
  CHECK(vocabulary.tokens[6].score == -3);
  CHECK(vocabulary.tokens[3].kind == text::TokenKind::byte);
  CHECK(vocabulary.add_space_prefix == false);
  CHECK(vocabulary.special.at("eos") == 2);

  CHECK_THROWS_WITH_AS(read("\x0a\x7fshort"), doctest::Contains("past the end"), Error);
  CHECK_THROWS_WITH_AS(read("\x0f"), doctest::Contains("wire type"), Error);
  CHECK_THROWS_WITH_AS(read(""), doctest::Contains("no pieces"), Error);
  CHECK_THROWS_WITH_AS(read(std::string(11, '\xff')), doctest::Contains("too long"), Error);
  CHECK_THROWS_AS(convert::import::read_sentencepiece(good, "t.model", 6), Error); // more pieces than rows
  std::mt19937_64 random(tests::printed_seed());
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    try {
      read(bytes);
    } catch (const Error&) {
    }
  }
}
