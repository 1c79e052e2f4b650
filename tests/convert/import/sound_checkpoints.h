// Small sound encoders of every family; elements count up.
#pragma once

#include "picture_checkpoints.h"

namespace ridge::tests::encoders {

constexpr int64_t kBands = 8, kPlaces = 1500;

inline Encoder of_sound(const char* hf_class, const char* text_type, const char* section, Json encoder,
                        const Json& more = Json::object()) {
  Encoder e(hf_class, {{"model_type", text_type}}, Json::object(), more);
  e.config.erase("vision_config");
  e.config[section] = std::move(encoder);
  return e;
}

inline Json whisper_config() {
  return {{"d_model", kWidth},      {"encoder_ffn_dim", kInner},
          {"encoder_layers", 1},    {"encoder_attention_heads", 2},
          {"num_mel_bins", kBands}, {"activation_function", "gelu"}};
}

inline void add_whisper_layer(Encoder& e, const std::string& tower, bool biased_keys) {
  const std::string layer = tower + "layers.0.";
  e.add_norm(layer + "self_attn_layer_norm");
  e.add_norm(layer + "final_layer_norm");
  for (const char* part : {"q_proj", "k_proj", "v_proj", "out_proj"})
    e.add_linear(layer + "self_attn." + part, kWidth, kWidth, part[0] != 'k' || biased_keys);
  e.add_linear(layer + "fc1", kInner, kWidth);
  e.add_linear(layer + "fc2", kWidth, kInner);
}

inline void add_whisper(Encoder& e, const std::string& tower, const char* norm, bool has_token_coordinates) {
  e.add(tower + "conv1.weight", {kWidth, kBands, 3});
  e.add(tower + "conv1.bias", {kWidth});
  e.add(tower + "conv2.weight", {kWidth, kWidth, 3});
  e.add(tower + "conv2.bias", {kWidth});
  if (has_token_coordinates) e.add(tower + "embed_positions.weight", {kPlaces, kWidth});
  add_whisper_layer(e, tower, false);
  e.add_norm(tower + norm);
}

inline Encoder ultravox() {
  Encoder e = of_sound("UltravoxModel", "llama", "audio_config", whisper_config(),
                       {{"stack_factor", 8}, {"projector_act", "swiglu"}, {"projector_ln_mid", true}});
  add_whisper(e, "audio_tower.", "layer_norm", true);
  e.add("multi_modal_projector.ln_pre.weight", {8 * kWidth});
  e.add("multi_modal_projector.linear_1.weight", {24, 8 * kWidth});
  e.add("multi_modal_projector.ln_mid.weight", {12});
  e.add("multi_modal_projector.linear_2.weight", {kText, 12});
  return e;
}

inline Encoder voxtral() {
  Encoder e = of_sound("VoxtralForConditionalGeneration", "llama", "audio_config",
                       {{"hidden_size", kWidth},
                        {"intermediate_size", 4 * kWidth},
                        {"num_hidden_layers", 1},
                        {"num_attention_heads", 2},
                        {"num_mel_bins", kBands}});
  add_whisper(e, "audio_tower.", "layer_norm", true);
  e.add_linear("audio_tower.layers.0.fc1", 4 * kWidth, kWidth);
  e.add_linear("audio_tower.layers.0.fc2", kWidth, 4 * kWidth);
  e.add_linear("multi_modal_projector.linear_1", kText, 4 * kWidth, false);
  e.add_linear("multi_modal_projector.linear_2", kText, kText, false);
  return e;
}

inline Encoder audio_flamingo() {
  Encoder e = of_sound("AudioFlamingo3ForConditionalGeneration", "qwen2", "audio_config", whisper_config());
  add_whisper(e, "audio_tower.", "layer_norm", true);
  e.add_linear("multi_modal_projector.linear_1", kText, kWidth);
  e.add_linear("multi_modal_projector.linear_2", kText, kText);
  return e;
}

inline Encoder qwen2_audio() {
  Encoder e = of_sound("Qwen2AudioForConditionalGeneration", "qwen2", "audio_config", whisper_config());
  add_whisper(e, "audio_tower.", "layer_norm", true);
  e.add_linear("multi_modal_projector.linear", kText, kWidth);
  return e;
}

// As published: what thinks is one of three parts.
inline Encoder as_thinker(const char* hf_class, Json encoder, const Json& text = Json::object()) {
  Encoder e = of_sound(hf_class, "", "audio_config", std::move(encoder));
  e.config["text_config"].erase("model_type");
  e.config["text_config"].update(text);
  const Json thinker = {{"audio_config", e.config["audio_config"]}, {"text_config", e.config["text_config"]}};
  e.config = {{"architectures", {hf_class}}, {"thinker_config", thinker}, {"talker_config", Json::object()}};
  return e;
}

inline Encoder qwen25_omni() {
  Encoder e = as_thinker("Qwen2_5OmniModel", whisper_config(), {{"rope_scaling", {{"mrope_section", {2, 1, 1}}}}});
  add_whisper(e, "thinker.audio_tower.", "ln_post", false);
  e.add_linear("thinker.audio_tower.proj", kText, kWidth);
  e.add("thinker.audio_tower.audio_bos_eos_token.weight", {2, kText});
  return e;
}

inline void add_qwen3(Encoder& e, const std::string& tower) {
  for (int i = 1; i <= 3; ++i) {
    e.add(fmt::format("{}conv2d{}.weight", tower, i), {4, i == 1 ? 1 : 4, 3, 3});
    e.add(fmt::format("{}conv2d{}.bias", tower, i), {4});
  }
  e.add_linear(tower + "conv_out", kWidth, 4, false);
  add_whisper_layer(e, tower, true);
  e.add_norm(tower + "ln_post");
}

inline Encoder qwen3_omni() {
  Encoder e = as_thinker("Qwen3OmniMoeForConditionalGeneration", whisper_config(),
                         {{"num_experts", 2},
                          {"num_experts_per_tok", 1},
                          {"moe_intermediate_size", 8},
                          {"head_dim", 8},
                          {"rope_scaling", {{"mrope_section", {2, 1, 1}}}}});
  add_qwen3(e, "thinker.audio_tower.");
  e.add_linear("thinker.audio_tower.proj1", kWidth, kWidth);
  e.add_linear("thinker.audio_tower.proj2", kText, kWidth);
  return e;
}

inline Encoder qwen3_asr() { // transformers' form
  Encoder e = of_sound("Qwen3ASRForConditionalGeneration", "qwen3", "audio_config", whisper_config());
  add_qwen3(e, "model.audio_tower.");
  e.add_linear("model.multi_modal_projector.linear_1", kWidth, kWidth);
  e.add_linear("model.multi_modal_projector.linear_2", kText, kWidth);
  return e;
}

inline Encoder gemma4_unified() {
  constexpr int64_t kPixels = 48, kPlaces = 40, kSamples = 640;
  Encoder e("Gemma4UnifiedForConditionalGeneration", {{"head_dim", 8}, {"layer_types", {"full_attention"}}},
            {{"mm_embed_dim", kWidth}, {"patch_size", 2}, {"pooling_kernel_size", 2}, {"mm_posemb_size", kPlaces}},
            {{"audio_config", {{"audio_embed_dim", kSamples}}}});
  e.preprocessor = {{"do_normalize", false}};
  const std::string patches = "model.vision_embedder.";
  e.add_norm(patches + "patch_ln1", kPixels);
  e.add_linear(patches + "patch_dense", kWidth, kPixels);
  e.add_norm(patches + "patch_ln2");
  e.add(patches + "pos_embedding", {kPlaces, 2, kWidth});
  e.add_norm(patches + "pos_norm");
  e.add("model.embed_vision.embedding_projection.weight", {kText, kWidth});
  e.add("model.embed_audio.embedding_projection.weight", {kText, kSamples});
  return e;
}

inline Encoder gemma4_sound() {
  Encoder e = gemma4();
  e.config["audio_config"] = {{"hidden_size", kWidth},
                              {"num_hidden_layers", 1},
                              {"num_attention_heads", 2},
                              {"output_proj_dims", 12},
                              {"hidden_act", "silu"}};
  const std::string tower = "model.audio_tower.", start = tower + "subsample_conv_projection.",
                    layer = tower + "layers.0.";
  e.add(start + "layer0.conv.weight", {4, 1, 3, 3});
  e.add(start + "layer0.norm.weight", {4});
  e.add(start + "layer1.conv.weight", {2, 4, 3, 3});
  e.add(start + "layer1.norm.weight", {2});
  e.add(start + "input_proj_linear.weight", {kWidth, 64});
  for (const char* part : {"feed_forward1.", "feed_forward2."}) {
    e.add(layer + part + "pre_layer_norm.weight", {kWidth});
    e.add(layer + part + "post_layer_norm.weight", {kWidth});
    e.add(layer + part + "ffw_layer_1.linear.weight", {4 * kWidth, kWidth});
    e.add(layer + part + "ffw_layer_2.linear.weight", {kWidth, 4 * kWidth});
  }
  for (const char* norm : {"norm_pre_attn", "norm_post_attn", "norm_out", "lconv1d.conv_norm"})
    e.add(layer + norm + ".weight", {kWidth});
  e.file.add(layer + "lconv1d.pre_layer_norm.weight", "F32", {kWidth}, Floats(kWidth, 0.5f));
  for (const char* part : {"q_proj", "k_proj", "v_proj", "post"})
    e.add(layer + "self_attn." + part + ".linear.weight", {kWidth, kWidth});
  e.file.add(layer + "self_attn.q_proj.input_max", "F32", {}, Floats{2});
  e.add(layer + "self_attn.relative_k_proj.weight", {kWidth, kWidth});
  e.add(layer + "self_attn.per_dim_scale", {4});
  e.add(layer + "lconv1d.linear_start.linear.weight", {2 * kWidth, kWidth});
  e.add(layer + "lconv1d.linear_end.linear.weight", {kWidth, kWidth});
  e.add(layer + "lconv1d.depthwise_conv1d.weight", {kWidth, 1, 5});
  e.add_linear(tower + "output_proj", 12, kWidth);
  e.add("model.embed_audio.embedding_projection.weight", {kText, 12});
  return e;
}

inline Encoder lfm2_audio() {
  constexpr int64_t kOwn = 512; // the only width
  Encoder e =
      of_sound("Lfm2AudioForConditionalGeneration", "", "encoder",
               {{"d_model", kOwn}, {"n_layers", 1}, {"n_heads", 8}, {"feat_in", kBands}, {"ff_expansion_factor", 1}});
  Json text = e.config["text_config"];
  text.erase("model_type");
  text.update({{"architectures", {"Lfm2ForCausalLM"}}, {"layer_types", {"conv"}}, {"conv_L_cache", 3}});
  e.config.erase("text_config");
  e.config["lfm"] = text;
  for (const int i : {0, 2, 3, 5, 6}) {
    const bool point = i == 3 || i == 6;
    e.add(fmt::format("conformer.pre_encode.conv.{}.weight", i), point ? Dims{4, 4, 1, 1} : Dims{4, 1, 3, 3});
    e.add(fmt::format("conformer.pre_encode.conv.{}.bias", i), {4});
  }
  e.add_linear("conformer.pre_encode.out", kOwn, 4);
  const std::string layer = "conformer.layers.0.";
  for (const char* norm : {"norm_feed_forward1", "norm_self_att", "norm_conv", "norm_feed_forward2", "norm_out"})
    e.add_norm(layer + norm, kOwn);
  for (const char* part : {"feed_forward1.", "feed_forward2."}) {
    e.add_linear(layer + part + "linear1", kOwn, kOwn);
    e.add_linear(layer + part + "linear2", kOwn, kOwn);
  }
  for (const char* part : {"q", "k", "v", "out"}) e.add_linear(layer + "self_attn.linear_" + part, kOwn, kOwn);
  e.add(layer + "self_attn.linear_pos.weight", {kOwn, kOwn});
  e.add(layer + "self_attn.pos_bias_u", {8, 64});
  e.add(layer + "self_attn.pos_bias_v", {8, 64});
  e.add(layer + "conv.pointwise_conv1.weight", {2 * kOwn, kOwn, 1});
  e.add(layer + "conv.pointwise_conv1.bias", {2 * kOwn});
  e.add(layer + "conv.depthwise_conv.weight", {kOwn, 1, 9});
  e.add(layer + "conv.depthwise_conv.bias", {kOwn});
  for (const char* part : {"weight", "bias", "running_mean", "running_var"})
    e.add(layer + "conv.batch_norm." + part, {kOwn});
  e.file.add(layer + "conv.batch_norm.num_batches_tracked", "I64", {}, std::vector<int64_t>{5});
  e.add(layer + "conv.pointwise_conv2.weight", {kOwn, kOwn, 1});
  e.add(layer + "conv.pointwise_conv2.bias", {kOwn});
  e.add_norm("audio_adapter.model.0", kOwn);
  e.add_linear("audio_adapter.model.1", 8, kOwn);
  e.add_linear("audio_adapter.model.3", kText, 8);
  return e;
}

inline const std::vector<std::pair<const char*, Encoder (*)()>> kAllOfSound = {
    {"ultravox", ultravox},  {"voxtral", voxtral},      {"musicflamingo", audio_flamingo},
    {"qwen2a", qwen2_audio}, {"qwen2a", qwen25_omni},   {"qwen3a", qwen3_omni},
    {"qwen3a", qwen3_asr},   {"gemma4a", gemma4_sound}, {"lfm2a", lfm2_audio},
};

} // namespace ridge::tests::encoders
