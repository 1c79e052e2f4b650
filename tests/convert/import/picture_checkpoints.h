// Small picture encoders of every family; elements count up.
#pragma once

#include "checkpoint.h"
#include "convert/import/import.h"
#include "core/error.h"
#include "gguf/gguf.h"

#include <memory>

namespace ridge::tests::encoders {

using Floats = std::vector<float>;
using Dims = std::vector<int64_t>;
using Json = nlohmann::json;

constexpr int64_t kWidth = 8, kInner = 12, kText = 16;

struct Encoder {
  std::shared_ptr<TemporaryFolder> own_folder = std::make_shared<TemporaryFolder>();
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
    api::ConvertRequest request;
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

inline Encoder qwen25() {
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

inline Encoder qwen3() {
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

inline void add_clip_layers(Encoder& e, const std::string& tower, int layers) {
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

inline Json clip_config(const char* type, int layers) {
  return {{"model_type", type},
          {"hidden_size", kWidth},
          {"intermediate_size", kInner},
          {"num_hidden_layers", layers},
          {"num_attention_heads", 2},
          {"image_size", 16},
          {"patch_size", 4}};
}

inline Encoder gemma3() {
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

inline Encoder gemma4() {
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

inline Encoder pixtral() {
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

inline Encoder internvl() {
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

inline Encoder smolvlm() {
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

inline Encoder llava() {
  Encoder e("LlavaForConditionalGeneration", {{"model_type", "llama"}}, clip_config("clip_vision_model", 2));
  const std::string tower = "vision_tower.vision_model.";
  e.add(tower + "embeddings.patch_embedding.weight", {kWidth, 3, 4, 4});
  e.add(tower + "embeddings.class_embedding", {kWidth});
  e.add(tower + "embeddings.position_embedding.weight", {17, kWidth});
  e.file.add(tower + "embeddings.position_ids", "I64", {1, 17}, std::vector<int64_t>(17));
  e.add_norm(tower + "pre_layrnorm");
  e.add_norm(tower + "post_layernorm"); // not used after the second last layer
  add_clip_layers(e, tower, 2);
  e.add_linear("multi_modal_projector.linear_1", kText, kWidth);
  e.add_linear("multi_modal_projector.linear_2", kText, kText);
  return e;
}

inline const std::vector<std::pair<const char*, Encoder (*)()>> kAll = {
    {"qwen2.5vl_merger", qwen25}, {"qwen3vl_merger", qwen3}, {"gemma3", gemma3},    {"gemma4v", gemma4},
    {"pixtral", pixtral},         {"internvl", internvl},    {"idefics3", smolvlm}, {"mlp", llava},
};

} // namespace ridge::tests::encoders
