#include "convert/import/config/names.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ridge::convert::import {
namespace {

using models::Change, models::Only, models::Rows, models::TensorRule;

constexpr auto kModel = std::to_array<TensorRule>({
    {"embed_tokens", "token_embd"},
    {"embeddings", "token_embd"},
    {"embedding", "token_embd"},
    {"wte", "token_embd"},
    {"embed_in", "token_embd"},
    {"word_embeddings", "token_embd"},
    {"embed", "token_embd"},
    {"tok_embeddings", "token_embd"},
    {"wpe", "position_embd"},
    {"norm", "output_norm"},
    {"norm_f", "output_norm"},
    {"ln_f", "output_norm"},
    {"final_layernorm", "output_norm"},
    {"final_layer_norm", "output_norm"},
    {"embedding_norm", "token_embd_norm"},
});

constexpr auto kLayer = std::to_array<TensorRule>({
    {"input_layernorm", "attn_norm"},
    {"operator_norm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.out_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.q_layernorm", "attn_q_norm"},
    {"self_attn.k_layernorm", "attn_k_norm"},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"post_attention_layernorm", "ffn_norm"},
    {"pre_ff_layernorm", "ffn_norm"},
    {"ffn_norm", "ffn_norm"},
    {"attention_norm", "attn_norm"},

    {"ln_1", "attn_norm"},
    {"ln_2", "ffn_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"self_attn.dense", "attn_output"},
    {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},

    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    {"feed_forward.w1", "ffn_gate"},
    {"feed_forward.w3", "ffn_up"},
    {"feed_forward.w2", "ffn_down"},

    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.router.gate", "ffn_gate_inp"},
    {"feed_forward.router", "ffn_gate_inp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"feed_forward.gate", "ffn_gate_inp"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.expert_bias", "exp_probs_b.bias"},
    {"mlp.gate.expert_bias", "exp_probs_b.bias"},
    {"mlp.experts.e_score_correction_bias", "exp_probs_b.bias"},
    {"block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    {"feed_forward.expert_bias", "exp_probs_b.bias"},
    {"mlp.experts.{}.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.{}.up_proj", "ffn_up_exps"},
    {"mlp.experts.{}.down_proj", "ffn_down_exps"},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", {.rows = Rows::first_half}},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight", {.rows = Rows::second_half}},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"block_sparse_moe.experts.{}.w1", "ffn_gate_exps"},
    {"block_sparse_moe.experts.{}.w3", "ffn_up_exps"},
    {"block_sparse_moe.experts.{}.w2", "ffn_down_exps"},
    {"block_sparse_moe.experts.gate_up_proj", "ffn_gate_exps.weight", {.rows = Rows::first_half}},
    {"block_sparse_moe.experts.gate_up_proj", "ffn_up_exps.weight", {.rows = Rows::second_half}},
    {"block_sparse_moe.experts.down_proj", "ffn_down_exps.weight"},
    {"feed_forward.experts.{}.w1", "ffn_gate_exps"},
    {"feed_forward.experts.{}.w3", "ffn_up_exps"},
    {"feed_forward.experts.{}.w2", "ffn_down_exps"},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight", {.rows = Rows::first_half}},
    {"feed_forward.experts.gate_up_proj", "ffn_up_exps.weight", {.rows = Rows::second_half}},
    {"feed_forward.experts.down_proj", "ffn_down_exps.weight"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp"},
    {"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp"},
    {"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},

    {"conv.in_proj", "shortconv.in_proj"},
    {"conv.conv", "shortconv.conv"},
    {"conv.out_proj", "shortconv.out_proj"},
});

constexpr std::string_view kPrefixes[] = {"model.language_model.",
                                          "language_model.model.",
                                          "model.text_model.",
                                          "thinker.model.",
                                          "lfm.",
                                          "model.",
                                          "backbone.",
                                          "transformer.",
                                          "gpt_neox.",
                                          "model.transformer.",
                                          "",
                                          "bert.",
                                          "roberta."};
constexpr std::string_view kTables[] = {"embed_tokens",
                                        "embeddings",
                                        "embedding",
                                        "wte",
                                        "embed_in",
                                        "word_embeddings",
                                        "tok_embeddings",
                                        "embed",
                                        "embeddings.word_embeddings",
                                        "embeddings.tok_embeddings",
                                        "shared"};
constexpr std::string_view kLayers[] = {"layers.",       "h.", "blocks.", "encoder.layer.", "encoder.layers.",
                                        "encoder.block."};
constexpr std::string_view kHeads[] = {
    "lm_head", "language_model.lm_head", "thinker.lm_head", "embed_out", "output", "head", "ff_out"};

bool any_begins(const gguf::Safetensors& tensors, const std::string& text) {
  return std::ranges::any_of(tensors.tensors(),
                             [&](const gguf::SafeTensor& tensor) { return tensor.name.starts_with(text); });
}

} // namespace

bool has_module(const gguf::Safetensors& tensors, const std::string& module) {
  return std::ranges::any_of(std::to_array({".weight", ".qweight", ".weight_packed"}),
                             [&](const char* suffix) { return tensors.find(module + suffix) != nullptr; });
}

std::string draft_prefix(const gguf::Safetensors& tensors, const Names& names, int64_t layers, int64_t head) {
  for (const std::string& prefix : {names.layer(layers + head), fmt::format("{}mtp.layers.{}.", names.prefix, head)})
    if (has_module(tensors, prefix + "eh_proj")) return prefix;
  return "";
}

int64_t count_drafts(const gguf::Safetensors& tensors, int64_t layers) {
  const Names names = find_names(tensors);
  int64_t count = 0;
  while (!draft_prefix(tensors, names, layers, count).empty()) ++count;
  const std::string aside(kDraftsAside);
  if (count == 0 && has_module(tensors, aside + "fc") && !any_begins(tensors, aside + "layers.1.")) return 1;
  return count;
}

std::span<const TensorRule> model_rules() { return kModel; }
std::span<const TensorRule> layer_rules() { return kLayer; }

Names find_names(const gguf::Safetensors& tensors) {
  Names names;
  for (const char* layer : {"midlayer.", "layers.0."}) // of EAGLE-3 heads
    if (tensors.find(layer + std::string("hidden_norm.weight")))
      return {"", "embed_tokens", std::string_view(layer) == "midlayer." ? layer : "layers.", "lm_head",
              std::string_view(layer) == "midlayer."};
  if (tensors.find("hidden_norm.weight") && tensors.find("fc.weight")) // of DFlash heads
    return {"", "embed_tokens", "layers.", "lm_head"};
  for (const std::string_view prefix : kPrefixes)
    for (const std::string_view table : kTables)
      if (names.table.empty() && tensors.find(fmt::format("{}{}.weight", prefix, table))) {
        names.prefix = prefix;
        names.table = names.prefix + std::string(table);
      }
  if (names.table.empty())
    throw_error("tensor model.embed_tokens.weight is missing: the checkpoint is incomplete or its layout is unknown");
  names.layers = names.prefix + std::string(kLayers[0]);
  for (const std::string_view layers : kLayers)
    if (any_begins(tensors, names.prefix + std::string(layers))) {
      names.layers = names.prefix + std::string(layers);
      break;
    }
  names.head = kHeads[0];
  for (const std::string_view head : kHeads)
    for (const std::string& full : {std::string(head), names.prefix + std::string(head)})
      if (names.head == kHeads[0] && has_module(tensors, full)) names.head = full;
  return names;
}

ModulePlace place_of(const std::string& module) {
  for (const std::string_view head : kHeads)
    for (const std::string_view prefix : kPrefixes)
      if (module == fmt::format("{}{}", prefix, head)) return {-1, std::string(kHeads[0])};
  for (const std::string_view prefix : kPrefixes) {
    if (!module.starts_with(prefix)) continue;
    for (const std::string_view layers : kLayers) {
      const std::string_view rest = std::string_view(module).substr(prefix.size());
      int64_t layer = -1;
      if (!rest.starts_with(layers)) continue;
      const auto [end, error] = std::from_chars(rest.data() + layers.size(), rest.data() + rest.size(), layer);
      if (error == std::errc() && layer >= 0 && end < rest.data() + rest.size() && *end == '.')
        return {layer, std::string(end + 1, rest.data() + rest.size())};
    }
    for (const std::string_view table : kTables)
      if (module == fmt::format("{}{}", prefix, table)) return {-1, std::string(table)};
  }
  return {-1, module};
}

bool is_draft(std::string_view name) { return name.starts_with(kDraftsAside) || name.starts_with("model.mtp."); }

bool is_unused_tensor(std::string_view name) {
  // Image and audio parts; quantization of activations and KV cache.
  constexpr std::string_view kParts[] = {"visual.", "vision_", "vision_tower.", "vision_adapter.", "vision_projection.",
                                         "audio_", "projector.", "patch_embedding", "multi_modal_projector",
                                         "embed_vision.", "embed_audio.", "connector.", "mlp1.", "patch_merge_mlp.",
                                         // Encoders of sound, and what speaks.
                                         "conformer.", "talker.", "token2wav.", "code2wav.", "depthformer.",
                                         "depth_linear.", "depth_embeddings.", "codebook_offsets",
                                         // Encoder heads.
                                         "pooler.dense", "cls.predictions.", "cls.seq_relationship.", "position_ids",
                                         "encoder.embed_tokens.", "decoder.embed_tokens."};
  constexpr std::string_view kEnds[] = {"rotary_emb.inv_freq",
                                        ".input_scale",
                                        ".input_global_scale",
                                        ".input_zero_point",
                                        ".k_scale",
                                        ".activation_scale",
                                        ".v_scale",
                                        ".output_scale",
                                        ".weight_format",
                                        ".slope_rate",
                                        ".query_decay",
                                        ".key_decay",
                                        ".diagonal_decay",
                                        ".attn.bias",
                                        ".attn.masked_bias",
                                        ".attention.bias",
                                        ".attention.masked_bias"};
  return is_draft(name) || name == "t2d" ||
         std::ranges::any_of(kParts, [&](auto part) { return name.find(part) != std::string_view::npos; }) ||
         std::ranges::any_of(kEnds, [&](auto end) { return name.ends_with(end); });
}

} // namespace ridge::convert::import
