// Encoders of pictures that `ridge convert` writes: names, shapes, the order of numbers, hyperparameters, and what it
// refuses. tests/cross_check/pictures_check.py compares what they make of pictures with transformers.
#include "checkpoint.h"
#include "convert/import/import.h"
#include "core/error.h"
#include "engine/pictures/open_pictures.h"
#include "engine/pictures/picture_reader.h"
#include "gguf/gguf.h"

#include <cstring>
#include <memory>

using namespace ridge;
using namespace ridge::tests;

namespace {

using Floats = std::vector<float>;
using Dims = std::vector<int64_t>;
using Json = nlohmann::json;

constexpr int64_t kWidth = 8, kInner = 12, kText = 16;

// An encoder without its language model, of which config.json tells all the same.
struct Encoder {
  std::shared_ptr<TemporaryFolder> own_folder = std::make_shared<TemporaryFolder>(); // it cannot be moved
  TemporaryFolder& folder = *own_folder;
  Json config;
  Json preprocessor = {{"image_mean", {0.5, 0.25, 0.125}}, {"image_std", {0.5, 1, 2}}};
  SafeFile file;

  Encoder(const char* hf_class, Json text, Json vision, Json more = Json::object()) {
    text.update({{"hidden_size", kText},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 2},
                 {"num_key_value_heads", 2},
                 {"vocab_size", 300},
                 {"intermediate_size", 16}});
    config = {{"architectures", {hf_class}}, {"text_config", std::move(text)}, {"vision_config", std::move(vision)}};
    config.update(more);
  }

  // Element i is i.
  void add(const std::string& name, const Dims& shape) {
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    Floats values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
    file.add(name, "F32", shape, values);
  }
  void add_linear(const std::string& name, int64_t rows, int64_t cols, bool bias = true) {
    add(name + ".weight", {rows, cols});
    if (bias) add(name + ".bias", {rows});
  }
  void add_norm(const std::string& name, int64_t width = kWidth, bool bias = true) {
    add(name + ".weight", {width});
    if (bias) add(name + ".bias", {width});
  }

  void write() const {
    folder.write("config.json", config.dump());
    folder.write("preprocessor_config.json", preprocessor.dump());
    folder.write("model.safetensors", file.bytes());
  }
  gguf::File converted(const std::string& type = "") const {
    write();
    core::ConvertRequest request;
    request.input = folder.path();
    request.mmproj = folder / "mmproj.gguf";
    request.type = type;
    const auto report = convert::import::convert(request);
    REQUIRE(report.files.size() == 1);
    CHECK(report.files[0].path == request.mmproj);
    return gguf::File::open(request.mmproj);
  }
  std::string problem() const { // one line, and no file
    std::filesystem::remove(folder / "mmproj.gguf");
    const size_t before = (write(), folder.file_count());
    try {
      converted();
    } catch (const Error& error) {
      CHECK(folder.file_count() == before);
      CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
      return error.what();
    }
    return "";
  }
};

Encoder qwen25() {
  Encoder e("Qwen2_5_VLForConditionalGeneration", {},
            {{"depth", 4},
             {"hidden_size", kWidth},
             {"num_heads", 2},
             {"intermediate_size", kInner},
             {"patch_size", 4},
             {"window_size", 112},
             {"fullatt_block_indexes", {1, 3}}});
  e.add("visual.patch_embed.proj.weight", {kWidth, 3, 2, 4, 4});
  for (int il = 0; il < 4; ++il) {
    const std::string layer = fmt::format("visual.blocks.{}.", il);
    e.add_norm(layer + "norm1", kWidth, false);
    e.add_norm(layer + "norm2", kWidth, false);
    e.add_linear(layer + "attn.qkv", 3 * kWidth, kWidth);
    e.add_linear(layer + "attn.proj", kWidth, kWidth);
    e.add_linear(layer + "mlp.gate_proj", kInner, kWidth);
    e.add_linear(layer + "mlp.up_proj", kInner, kWidth);
    e.add_linear(layer + "mlp.down_proj", kWidth, kInner);
  }
  e.add_norm("visual.merger.ln_q", kWidth, false);
  e.add_linear("visual.merger.mlp.0", 4 * kWidth, 4 * kWidth);
  e.add_linear("visual.merger.mlp.2", kText, 4 * kWidth);
  return e;
}

Encoder qwen3() {
  Encoder e("Qwen3VLForConditionalGeneration", {},
            {{"depth", 3},
             {"hidden_size", kWidth},
             {"num_heads", 2},
             {"intermediate_size", kInner},
             {"patch_size", 4},
             {"num_position_embeddings", 36},
             {"deepstack_visual_indexes", {0, 2}}});
  const std::string tower = "model.visual.";
  e.add(tower + "patch_embed.proj.weight", {kWidth, 3, 2, 4, 4});
  e.add(tower + "patch_embed.proj.bias", {kWidth});
  e.add(tower + "pos_embed.weight", {36, kWidth});
  for (int il = 0; il < 3; ++il) {
    const std::string layer = fmt::format("{}blocks.{}.", tower, il);
    e.add_norm(layer + "norm1");
    e.add_norm(layer + "norm2");
    e.add_linear(layer + "attn.qkv", 3 * kWidth, kWidth);
    e.add_linear(layer + "attn.proj", kWidth, kWidth);
    e.add_linear(layer + "mlp.linear_fc1", kInner, kWidth);
    e.add_linear(layer + "mlp.linear_fc2", kWidth, kInner);
  }
  for (const std::string& merger :
       {tower + "merger.", tower + "deepstack_merger_list.0.", tower + "deepstack_merger_list.1."}) {
    e.add_norm(merger + "norm", merger.ends_with("merger.") ? kWidth : 4 * kWidth);
    e.add_linear(merger + "linear_fc1", 4 * kWidth, 4 * kWidth);
    e.add_linear(merger + "linear_fc2", kText, 4 * kWidth);
  }
  return e;
}

// Layers as CLIP and SigLIP have them.
void add_clip_layers(Encoder& e, const std::string& tower, int layers) {
  for (int il = 0; il < layers; ++il) {
    const std::string layer = fmt::format("{}encoder.layers.{}.", tower, il);
    e.add_norm(layer + "layer_norm1");
    e.add_norm(layer + "layer_norm2");
    for (const char* part : {"q_proj", "k_proj", "v_proj", "out_proj"})
      e.add_linear(layer + "self_attn." + part, kWidth, kWidth);
    e.add_linear(layer + "mlp.fc1", kInner, kWidth);
    e.add_linear(layer + "mlp.fc2", kWidth, kInner);
  }
}

Json clip_config(const char* type, int layers) {
  return {{"model_type", type},
          {"hidden_size", kWidth},
          {"intermediate_size", kInner},
          {"num_hidden_layers", layers},
          {"num_attention_heads", 2},
          {"image_size", 16},
          {"patch_size", 4}};
}

Encoder gemma3() {
  Encoder e("Gemma3ForConditionalGeneration", {{"model_type", "gemma3_text"}}, clip_config("siglip_vision_model", 1),
            {{"mm_tokens_per_image", 4}});
  const std::string tower = "vision_tower.vision_model.";
  e.add(tower + "embeddings.patch_embedding.weight", {kWidth, 3, 4, 4});
  e.add(tower + "embeddings.patch_embedding.bias", {kWidth});
  e.add(tower + "embeddings.position_embedding.weight", {16, kWidth});
  e.add_norm(tower + "post_layernorm");
  add_clip_layers(e, tower, 1);
  e.add("multi_modal_projector.mm_input_projection_weight", {kWidth, kText});
  e.add("multi_modal_projector.mm_soft_emb_norm.weight", {kWidth});
  return e;
}

Encoder gemma4() {
  Encoder e("Gemma4ForConditionalGeneration", {{"head_dim", 8}, {"layer_types", {"full_attention"}}},
            {{"hidden_size", kWidth},
             {"intermediate_size", kInner},
             {"num_hidden_layers", 1},
             {"num_attention_heads", 2},
             {"num_key_value_heads", 2},
             {"head_dim", 4},
             {"patch_size", 2},
             {"position_embedding_size", 50}});
  e.preprocessor = {{"do_normalize", false}};
  const std::string tower = "model.vision_tower.", layer = tower + "encoder.layers.0.";
  e.add(tower + "patch_embedder.input_proj.weight", {kWidth, 12});
  e.add(tower + "patch_embedder.position_embedding_table", {2, 90, kWidth});
  for (const char* norm :
       {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
    e.add_norm(layer + norm, kWidth, false);
  e.add_norm(layer + "self_attn.q_norm", 4, false);
  e.add_norm(layer + "self_attn.k_norm", 4, false);
  for (const char* part : {"q_proj", "k_proj", "v_proj", "o_proj"})
    e.add(layer + "self_attn." + part + ".linear.weight", {kWidth, kWidth});
  e.add(layer + "mlp.gate_proj.linear.weight", {kInner, kWidth});
  e.add(layer + "mlp.up_proj.linear.weight", {kInner, kWidth});
  e.add(layer + "mlp.down_proj.linear.weight", {kWidth, kInner});
  for (const char* limit : {"input_min", "input_max", "output_min", "output_max"})
    e.file.add(layer + "mlp.down_proj." + limit, "F32", {}, Floats{limit[0] == 'i' ? 2.0f : 3.0f});
  e.add("model.embed_vision.embedding_projection.weight", {kText, kWidth});
  return e;
}

Encoder pixtral() {
  Encoder e("LlavaForConditionalGeneration", {{"model_type", "mistral"}},
            {{"model_type", "pixtral"},
             {"hidden_size", kWidth},
             {"intermediate_size", kInner},
             {"num_hidden_layers", 1},
             {"num_attention_heads", 2},
             {"hidden_act", "silu"},
             {"image_size", 32},
             {"patch_size", 4}},
            {{"vision_feature_layer", -1}});
  const std::string tower = "vision_tower.", layer = tower + "transformer.layers.0.";
  e.add(tower + "patch_conv.weight", {kWidth, 3, 4, 4});
  e.add_norm(tower + "ln_pre", kWidth, false);
  e.add_norm(layer + "attention_norm", kWidth, false);
  e.add_norm(layer + "ffn_norm", kWidth, false);
  for (const char* part : {"q_proj", "k_proj", "v_proj", "o_proj"})
    e.add_linear(layer + "attention." + part, kWidth, kWidth, false);
  e.add_linear(layer + "feed_forward.gate_proj", kInner, kWidth, false);
  e.add_linear(layer + "feed_forward.up_proj", kInner, kWidth, false);
  e.add_linear(layer + "feed_forward.down_proj", kWidth, kInner, false);
  e.add_linear("multi_modal_projector.linear_1", kText, kWidth);
  e.add_linear("multi_modal_projector.linear_2", kText, kText);
  e.add("language_model.model.embed_tokens.weight", {300, kText});
  e.folder.write("tokenizer.json", byte_level_tokenizer({"[IMG]", "[IMG_BREAK]", "[IMG_END]"}).dump());
  return e;
}

Encoder internvl() { // as OpenGVLab has it
  Encoder e("InternVLChatModel", {}, clip_config("intern_vit_6b", 1),
            {{"downsample_ratio", 0.5},
             {"select_layer", -1},
             {"min_dynamic_patch", 1},
             {"max_dynamic_patch", 6},
             {"ps_version", "v2"}});
  e.config["llm_config"] = e.config["text_config"];
  e.config["llm_config"]["architectures"] = {"Qwen2ForCausalLM"};
  e.config.erase("text_config");
  const std::string tower = "vision_model.", layer = tower + "encoder.layers.0.";
  e.add(tower + "embeddings.patch_embedding.weight", {kWidth, 3, 4, 4});
  e.add(tower + "embeddings.patch_embedding.bias", {kWidth});
  e.add(tower + "embeddings.class_embedding", {1, 1, kWidth});
  e.add(tower + "embeddings.position_embedding", {1, 17, kWidth});
  e.add_norm(layer + "norm1");
  e.add_norm(layer + "norm2");
  e.add(layer + "ls1", {kWidth});
  e.add(layer + "ls2", {kWidth});
  e.add_linear(layer + "attn.qkv", 3 * kWidth, kWidth);
  e.add_linear(layer + "attn.proj", kWidth, kWidth);
  e.add_linear(layer + "mlp.fc1", kInner, kWidth);
  e.add_linear(layer + "mlp.fc2", kWidth, kInner);
  e.add_norm("mlp1.0", 4 * kWidth);
  e.add_linear("mlp1.1", kText, 4 * kWidth);
  e.add_linear("mlp1.3", kText, kText);
  return e;
}

Encoder smolvlm() {
  Encoder e("SmolVLMForConditionalGeneration", {{"model_type", "llama"}}, clip_config("smolvlm_vision", 1),
            {{"scale_factor", 2}});
  e.preprocessor["size"] = {{"longest_edge", 64}};
  const std::string tower = "model.vision_model.";
  e.add(tower + "embeddings.patch_embedding.weight", {kWidth, 3, 4, 4});
  e.add(tower + "embeddings.patch_embedding.bias", {kWidth});
  e.add(tower + "embeddings.position_embedding.weight", {16, kWidth});
  e.add_norm(tower + "post_layernorm");
  add_clip_layers(e, tower, 1);
  e.add_linear("model.connector.modality_projection.proj", kText, 4 * kWidth, false);
  return e;
}

Encoder llava() {
  Encoder e("LlavaForConditionalGeneration", {{"model_type", "llama"}}, clip_config("clip_vision_model", 2));
  const std::string tower = "vision_tower.vision_model.";
  e.add(tower + "embeddings.patch_embedding.weight", {kWidth, 3, 4, 4});
  e.add(tower + "embeddings.class_embedding", {kWidth});
  e.add(tower + "embeddings.position_embedding.weight", {17, kWidth});
  e.file.add(tower + "embeddings.position_ids", "I64", {1, 17}, std::vector<int64_t>(17));
  e.add_norm(tower + "pre_layrnorm");
  e.add_norm(tower + "post_layernorm"); // which the last layer but one does not pass
  add_clip_layers(e, tower, 2);
  e.add_linear("multi_modal_projector.linear_1", kText, kWidth);
  e.add_linear("multi_modal_projector.linear_2", kText, kText);
  return e;
}

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

const std::vector<std::pair<const char*, Encoder (*)()>> kAll = {
    {"qwen2.5vl_merger", qwen25}, {"qwen3vl_merger", qwen3}, {"gemma3", gemma3},    {"gemma4v", gemma4},
    {"pixtral", pixtral},         {"internvl", internvl},    {"idefics3", smolvlm}, {"mlp", llava},
};

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
  CHECK(packed.find_tensor("v.blk.0.ffn_up.weight")->type == quant::Type::F16); // rows of 8
  CHECK(gemma3().converted("q8_0").find_tensor("mm.input_projection.weight")->type == quant::Type::F16);
}

TEST_CASE("convert: a kernel for two frames becomes two, queries, keys and values three; windows are counted") {
  Encoder e = qwen25();
  const gguf::File file = e.converted();
  CHECK(dims(file, "v.patch_embd.weight") == Dims{4, 4, 3, kWidth});
  const Floats first = numbers(file, "v.patch_embd.weight"), second = numbers(file, "v.patch_embd.weight.1");
  for (int64_t i : {0, 15, 16, 47, 48}) { // 96 numbers of a row: 16 of a colour and frame
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
  const std::vector<int64_t> rows = {0, 2, 1, 3, 4, 6, 5, 7}; // of two heads of 4
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
  CHECK(!e.converted().find("clip.vision.feature_layer")); // the last but one
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
  for (const char* part : {"1", "2"}) { // as wide as this language model
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
  core::ConvertRequest request;
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

  // One that cannot be written leaves the other one unwritten, too.
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
  CHECK(says(e.problem(), "has no encoder of pictures that can be converted"));
  Encoder none = qwen3();
  none.file.tensors.clear();
  none.add("model.language_model.embed_tokens.weight", {300, kText});
  CHECK(says(none.problem(), "has no encoder of pictures"));
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
      if (!last_layer) CHECK(e.problem() != ""); // which is not run
    }
    Encoder e = make();
    const std::string norm = name_with(whole, "norm");
    e.add(norm + "_unheard_of", {3});
    CHECK(says(e.problem(), "unheard_of has no place"));
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
