// tests/cross_check/pictures_check.py compares outputs with transformers.
#include "engine/pictures/open_pictures.h"
#include "engine/pictures/picture_reader.h"
#include "picture_checkpoints.h"

#include <cstring>

using namespace ridge;
using namespace ridge::tests;
using namespace ridge::tests::encoders;

namespace {

Floats numbers(const gguf::File& file, const std::string& name) {
  const gguf::Tensor* tensor = file.find_tensor(name);
  REQUIRE_MESSAGE(tensor, name);
  REQUIRE(tensor->type == quant::Type::F32);
  Floats values(tensor->weights());
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

Dims dims(const gguf::File& file, const std::string& name) {
  const gguf::Tensor* tensor = file.find_tensor(name);
  REQUIRE_MESSAGE(tensor, name);
  return {tensor->dims.begin(), tensor->dims.begin() + tensor->n_dims};
}

bool says(const std::string& message, std::string_view part) {
  CAPTURE(message);
  return message.find(part) != std::string::npos;
}

std::string name_with(const Encoder& e, std::string_view part) {
  for (const auto& [name, entry] : e.file.tensors)
    if (name.find(part) != std::string::npos) return name;
  return "";
}

} // namespace

TEST_CASE("convert: encoders of every family become files that make rows of pictures") {
  for (const auto& [projector, make] : kAll) {
    CAPTURE(projector);
    const Encoder e = make();
    const gguf::File file = e.converted();
    CHECK(file.get_string("general.architecture") == "clip");
    CHECK(file.get_string("general.type") == "mmproj");
    CHECK(file.get_string("clip.projector_type") == projector);
    CHECK(file.get_int("clip.vision.embedding_length") == kWidth);
    CHECK(file.get_int("clip.vision.feed_forward_length") == kInner);
    CHECK(file.get_int("clip.vision.attention.head_count") == 2);
    CHECK(file.get_int("clip.vision.projection_dim") == kText);
    CHECK(file.get_int("general.file_type") == 0);
    engine::PictureReader reader(e.folder / "mmproj.gguf", {.threads = 1, .exact = true});
    CHECK(reader.row_width() % kText == 0);
    int64_t tokens = 0;
    for (const auto& piece : reader.read(media::Picture(40, 24)))
      if (piece.tile) tokens += piece.tile->tokens;
    CHECK(tokens > 0);
  }
}

TEST_CASE("convert: matrices of an encoder get the type that is asked for, positions and patches stay F32") {
  for (const auto& [projector, make] : kAll) {
    CAPTURE(projector);
    const gguf::File half = make().converted("f16");
    CHECK(half.find_tensor("v.blk.0.ffn_up.weight")->type == quant::Type::F16);
    CHECK(half.find_tensor("v.blk.0.ln1.weight")->type == quant::Type::F32);
    CHECK(half.find_tensor("v.patch_embd.weight")->type == quant::Type::F32);
    CHECK(half.get_int("general.file_type") == 1);
    if (const gguf::Tensor* table = half.find_tensor("v.position_embd.weight")) CHECK(table->type == quant::Type::F32);
    if (const gguf::Tensor* last = half.find_tensor("mm.input_projection.weight"))
      CHECK(last->type == quant::Type::F16);
  }
  const gguf::File packed = qwen3().converted("q8_0");
  CHECK(packed.find_tensor("mm.0.weight")->type == quant::Type::Q8_0);
  CHECK(packed.find_tensor("v.blk.0.ffn_up.weight")->type == quant::Type::F16);
  CHECK(gemma3().converted("q8_0").find_tensor("mm.input_projection.weight")->type == quant::Type::F16);
}

TEST_CASE("convert: a kernel for two frames becomes two, queries, keys and values three, and windows are counted") {
  Encoder e = qwen25();
  const gguf::File file = e.converted();
  CHECK(dims(file, "v.patch_embd.weight") == Dims{4, 4, 3, kWidth});
  const Floats first = numbers(file, "v.patch_embd.weight"), second = numbers(file, "v.patch_embd.weight.1");
  for (int64_t i : {0, 15, 16, 47, 48}) { // 96 numbers per row: 16 per colour and frame
    const int64_t row = i / 48, colour = i % 48 / 16, at = row * 96 + colour * 32 + i % 16;
    CHECK(first[i] == static_cast<float>(at));
    CHECK(second[i] == static_cast<float>(at + 16));
  }
  CHECK(numbers(file, "v.blk.1.attn_k.weight")[0] == kWidth * kWidth);
  CHECK(numbers(file, "v.blk.1.attn_v.bias")[0] == 2 * kWidth);
  CHECK(file.get_int("clip.vision.n_wa_pattern") == 2);
  CHECK(file.get_bool("clip.use_silu", false));
  CHECK(file.find("clip.vision.image_mean")->as_floats() == Floats{0.5f, 0.25f, 0.125f});
  CHECK(file.find("clip.vision.image_std")->as_floats() == Floats{0.5f, 1, 2});

  const std::vector<std::pair<Json, int64_t>> patterns = {
      {{0, 1, 2, 3}, 0}, {{2}, 3}, {Json::array(), 5}, {{1, 2}, -1}, {{0, 4}, -1}, {"all", -1}, {{-1}, -1}};
  for (const auto& [list, pattern] : patterns) {
    CAPTURE(list.dump());
    e.config["vision_config"]["fullatt_block_indexes"] = list;
    if (pattern < 0)
      CHECK(says(e.problem(), "fullatt_block_indexes"));
    else
      CHECK(e.converted().get_int("clip.vision.n_wa_pattern") == pattern);
  }
}

TEST_CASE("convert: rows behind a layer are named by the layer") {
  const gguf::File file = qwen3().converted();
  CHECK(file.get_int("clip.vision.image_size") == 24);
  CHECK(dims(file, "v.deepstack.0.fc1.weight") == Dims{4 * kWidth, 4 * kWidth});
  CHECK(dims(file, "v.deepstack.2.fc2.weight") == Dims{4 * kWidth, kText});
  CHECK(!file.find_tensor("v.deepstack.1.fc1.weight"));
  CHECK(dims(file, "v.blk.2.attn_qkv.weight") == Dims{kWidth, 3 * kWidth});
}

TEST_CASE("convert: Gemma's norms, patches, limits and tables of positions") {
  const gguf::File three = gemma3().converted();
  CHECK(numbers(three, "mm.soft_emb_norm.weight") == Floats{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(dims(three, "mm.input_projection.weight") == Dims{kText, kWidth});
  CHECK(three.get_int("clip.vision.projector.scale_factor") == 2);

  const gguf::File four = gemma4().converted();
  CHECK(dims(four, "v.patch_embd.weight") == Dims{2, 2, 3, kWidth});
  const Floats patch = numbers(four, "v.patch_embd.weight");
  CHECK(Floats(patch.begin(), patch.begin() + 12) == Floats{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
  CHECK(dims(four, "v.position_embd.weight") == Dims{kWidth, 90, 2});
  CHECK(numbers(four, "v.blk.0.ffn_down.input_max") == Floats{2});
  CHECK(numbers(four, "v.blk.0.ffn_down.output_min") == Floats{3});
  CHECK(four.find("clip.vision.image_std")->as_floats() == Floats{1, 1, 1});
}

TEST_CASE("convert: Pixtral's pairs of rope are neighbours, and a row of the embedding table ends its lines") {
  Encoder e = pixtral();
  const gguf::File file = e.converted();
  const Floats q = numbers(file, "v.blk.0.attn_q.weight");
  const std::vector<int64_t> rows = {0, 2, 1, 3, 4, 6, 5, 7}; // two heads of 4
  for (int64_t r = 0; r < kWidth; ++r) CHECK(q[r * kWidth] == static_cast<float>(rows[r] * kWidth));
  CHECK(numbers(file, "v.blk.0.attn_v.weight")[kWidth] == kWidth);
  CHECK(numbers(file, "v.token_embd.img_break")[0] == 259 * kText);
  CHECK(dims(file, "v.token_embd.img_break") == Dims{kText});
  e.folder.write("tokenizer.json", byte_level_tokenizer({"[IMG]"}).dump());
  CHECK(says(e.problem(), "no token [IMG_BREAK]"));
}

TEST_CASE("convert: in a table of positions the row of the class comes last where readers count it last") {
  const gguf::File file = internvl().converted();
  const Floats table = numbers(file, "v.position_embd.weight");
  CHECK(table[0] == kWidth);
  CHECK(table[16 * kWidth] == 0);
  CHECK(dims(file, "v.class_embd") == Dims{kWidth});
  CHECK(file.get_int("clip.vision.projector.scale_factor") == 2);
  CHECK(file.get_int("clip.vision.preproc_max_tiles") == 6);
}

TEST_CASE("convert: which layers of CLIP are taken") {
  Encoder e = llava();
  CHECK(!e.converted().find("clip.vision.feature_layer"));
  CHECK(!e.converted().find_tensor("v.post_ln.weight"));
  e.config["vision_feature_layer"] = -1;
  CHECK(e.converted().find("clip.vision.feature_layer")->as_ints() == Dims{2});
  for (const Json& bad : {Json(7), Json(-4), Json({-1, -2}), Json("last"), Json({1, 1})}) {
    CAPTURE(bad.dump());
    e.config["vision_feature_layer"] = bad;
    CHECK(says(e.problem(), "vision_feature_layer"));
  }
}

TEST_CASE("convert: a checkpoint's language model and its encoder become two files, which find each other") {
  Checkpoint c;
  c.write();
  Encoder e = llava();
  SafeFile both = e.file;
  for (const auto& [name, entry] : c.file.tensors) both.tensors["language_model." + name] = entry;
  for (const char* part : {"1", "2"}) {
    e.add_linear(fmt::format("multi_modal_projector.linear_{}", part), 64, part[0] == '1' ? kWidth : 64);
    for (const char* tensor : {".weight", ".bias"}) {
      const std::string name = fmt::format("multi_modal_projector.linear_{}{}", part, tensor);
      both.tensors[name] = e.file.tensors[name];
    }
  }
  Json text = c.config;
  text.update({{"model_type", "llama"}});
  e.config["text_config"] = text;
  e.file = both;
  e.write();
  const TemporaryFolder out;
  api::ConvertRequest request;
  request.input = e.folder.path();
  request.output = out / "model.gguf";
  const auto report = convert::import::convert(request);
  REQUIRE(report.files.size() == 2);
  CHECK(report.files[0].path == request.output);
  CHECK(report.files[1].path == out / "mmproj-model.gguf");
  CHECK(gguf::File::open(request.output).get_string("general.architecture") == "llama");

  request.text_only = true;
  request.output = out / "text.gguf";
  CHECK(convert::import::convert(request).files.size() == 1);
  CHECK(!std::filesystem::exists(out / "mmproj-text.gguf"));

  // One failure leaves both files unwritten.
  request.text_only = false;
  request.output = out / "again.gguf";
  e.config["vision_config"]["hidden_act"] = "relu";
  e.write();
  CHECK_THROWS_WITH_AS(convert::import::convert(request), doctest::Contains("hidden_act"), Error);
  CHECK(!std::filesystem::exists(request.output));
}

TEST_CASE("convert: an encoder that is not known, or not there, is left out, or refused where it is asked for") {
  Encoder e = llava();
  e.config["vision_config"]["model_type"] = "unheard_of";
  CHECK(says(e.problem(), "has no image or audio encoder that can be converted"));
  Encoder none = qwen3();
  none.file.tensors.clear();
  none.add("model.language_model.embed_tokens.weight", {300, kText});
  CHECK(says(none.problem(), "has no image or audio encoder"));
}

TEST_CASE("convert: every tensor of an encoder has its place and shape") {
  for (const auto& [projector, make] : kAll) {
    CAPTURE(projector);
    const Encoder whole = make();
    for (const auto& [name, entry] : whole.file.tensors) {
      if (name.ends_with("position_ids") || name.ends_with(".bias") || entry.shape.empty()) continue;
      const bool unused = projector == std::string_view("mlp") && name.find("post_layernorm") != std::string::npos;
      if (unused) continue;
      CAPTURE(name);
      Encoder e = make();
      e.file.tensors.erase(name);
      CHECK(says(e.problem(), "is missing"));
      Dims shape = entry.shape;
      shape.back() += 1;
      e.add(name, shape);
      const bool last_layer = projector == std::string_view("mlp") && name.find("layers.1.") != std::string::npos;
      if (!last_layer) CHECK(e.problem() != "");
    }
    Encoder e = make();
    const std::string norm = name_with(whole, "norm");
    e.add(norm + "_unheard_of", {3});
    CHECK(says(e.problem(), "unheard_of is not used"));
  }
}

TEST_CASE("convert: hostile hyperparameters of encoders give one line of error, or a file that builds") {
  const std::vector<Json> values = {nullptr,        0,         -1, 1, 3, 1LL << 40, 1e300, "text", true, Json::array(),
                                    Json::object(), {1, 2, 3}, 0.3};
  for (const auto& [projector, make] : kAll) {
    CAPTURE(projector);
    const Encoder whole = make();
    const auto try_all = [&](const Json& holder, auto&& set) {
      for (const auto& [key, old] : holder.items())
        for (const Json& value : values) {
          CAPTURE(key);
          CAPTURE(value.dump());
          Encoder e = make();
          set(e, key, value);
          e.problem();
        }
    };
    try_all(whole.config["vision_config"],
            [](Encoder& e, const std::string& key, const Json& value) { e.config["vision_config"][key] = value; });
    try_all(whole.config, [](Encoder& e, const std::string& key, const Json& value) { e.config[key] = value; });
    try_all(whole.preprocessor,
            [](Encoder& e, const std::string& key, const Json& value) { e.preprocessor[key] = value; });
  }
}

TEST_CASE("convert: the language model behind an encoder is found, and what its fields leave out") {
  const auto read = [](Json text, const char* part, Json* metadata_out) {
    const TemporaryFolder folder;
    folder.write("config.json",
                 Json{{"architectures", {"LlavaForConditionalGeneration"}}, {part, std::move(text)}}.dump());
    gguf::Metadata metadata;
    const auto config = config_in(folder, metadata);
    if (metadata_out)
      for (const auto& [key, value] : metadata.entries())
        if (const auto number = value.view().as_int()) (*metadata_out)[key] = *number;
    return config;
  };
  Json llama;
  const auto config =
      read({{"model_type", "llama"}, {"vocab_size", 300}, {"rms_norm_eps", 1e-5}}, "text_config", &llama);
  CHECK(config.hf_class == "LlavaForConditionalGeneration");
  CHECK(config.architecture->name == "llama");
  CHECK(config.vocab == 300);
  CHECK(llama["llama.embedding_length"] == 4096);
  CHECK(llama["llama.feed_forward_length"] == 11008);
  CHECK(llama["llama.attention.head_count_kv"] == 32);
  const Json small = {{"vocab_size", 300},
                      {"hidden_size", 8},
                      {"num_hidden_layers", 2},
                      {"intermediate_size", 8},
                      {"num_attention_heads", 2}};
  const auto architecture = [&](Json more) {
    more.update(small);
    return std::string(read(more, "llm_config", nullptr).architecture->name);
  };
  CHECK(architecture({{"model_type", "qwen3"}}) == "qwen3");
  CHECK(architecture(
            {{"model_type", "qwen3_moe"}, {"num_experts", 2}, {"num_experts_per_tok", 1}, {"norm_topk_prob", true}}) ==
        "qwen3moe");
  CHECK(architecture({{"architectures", {"Qwen2ForCausalLM"}}, {"model_type", "unheard_of"}}) == "qwen2");
  CHECK_THROWS_WITH_AS(architecture({{"model_type", "unheard_of"}}),
                       doctest::Contains("unsupported model class LlavaForConditionalGeneration"), Error);
  CHECK_THROWS_WITH_AS(architecture({{"model_type", 5}}), doctest::Contains("unsupported model class"), Error);

  // Gemma 3: every sixth layer has full attention.
  const TemporaryFolder folder;
  folder.write("config.json", Json{{"architectures", {"Gemma3ForConditionalGeneration"}},
                                   {"text_config", {{"model_type", "gemma3_text"}, {"num_hidden_layers", 7}}}}
                                  .dump());
  gguf::Metadata metadata;
  const auto gemma = config_in(folder, metadata);
  CHECK(gemma.head_dim == 256);
  CHECK(metadata.find("gemma3.attention.sliding_window_pattern")->view().as_ints() == Dims{1, 1, 1, 1, 1, 0, 1});
}
