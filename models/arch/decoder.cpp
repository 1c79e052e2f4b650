// Decoders like Llama, with RMS norms before the blocks; one row of a table each.
#include "core/error.h"
#include "models/architecture.h"
#include "models/blocks/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ridge::models {
namespace {

using core::Activation;
using core::ValueId;

struct Kind {
  std::string_view name;
  AttentionSpec attention;
  ActivationSpec activation = {};
  std::optional<RoutingSpec> experts = {};
  void (*read)(Builder& b, AttentionSpec& attention) = nullptr;
  ValueId (*ffn)(Builder& b, ValueId x, int64_t il) = nullptr;
  int64_t without_rope_every = 0; // no rope in every n-th layer
  std::string_view ffn_norm = "ffn_norm";
  bool layer_norms = false; // no weights
  bool norm_biases = false;
  bool sparse_mixer = false; // if the file says so
  bool output_bias = true;
  bool embeds = false;
  std::string_view unused_tensor = {}; // may be in files, ignored
};

// The 7B model has rope, the 13B model ALiBi.
void read_baichuan(Builder& b, AttentionSpec& attention) {
  const int64_t layers = b.hparams().layers();
  if (layers != 32) attention.rope = Rope::none;
  if (layers == 40) attention.max_bias = 8;
}

void read_causal(Builder& b, AttentionSpec& attention) {
  attention.causal = b.hparams().get_bool("attention.causal", false);
}

// Changes the rope base; image tokens have their own positions.
void read_hunyuan(Builder& b, AttentionSpec& attention) {
  const Hparams& h = b.hparams();
  if (h.has_rope_sections()) attention.rope_axes = b.takes_pictures() ? RopeAxes::numbered : RopeAxes::in_order;
  const double alpha = h.get_float("rope.scaling.alpha", 0);
  if (alpha <= 0) return;
  const auto dim = static_cast<double>(h.k_dim(0));
  attention.rope_base = h.get_float("rope.freq_base", 10000) * std::pow(alpha, dim / (dim - 2));
}

void read_mistral(Builder& b, AttentionSpec& attention) {
  const double scale = b.hparams().get_float("attention.temperature_scale", 0);
  if (scale != 0) attention.position_scale = {static_cast<float>(scale), b.hparams().original_context()};
}

// Matrices of CogVLM's texts and images, also of the ends of images.
constexpr std::pair<std::string_view, std::string_view> kCogVlmTwins[] = {{"attn_qkv", "vis_attn_qkv"},
                                                                          {"attn_output", "vis_attn_output"},
                                                                          {"ffn_gate", "vis_gate"},
                                                                          {"ffn_down", "vis_down"},
                                                                          {"ffn_up", "vis_up"}};

std::string cogvlm_twin(const std::string& tensor) {
  const size_t name = tensor.rfind('.') + 1; // of "blk.0.attn_qkv"
  for (const auto& [of_text, of_pictures] : kCogVlmTwins)
    if (std::string_view(tensor).substr(name) == of_text) return tensor.substr(0, name).append(of_pictures);
  return "";
}

void read_cogvlm(Builder& b, AttentionSpec&) {
  if (b.takes_pictures()) return b.take_matrices_of_pictures(cogvlm_twin);
  for (int64_t il = 0; il < b.hparams().layers(); ++il)
    for (const auto& twins : kCogVlmTwins) b.skip(fmt::format("blk.{}.{}.weight", il, twins.second));
}

void skip_norm_biases(Builder& b, AttentionSpec&) {
  for (int64_t il = 0; il < b.hparams().layers(); ++il)
    for (const char* norm : {"q", "k"}) b.skip(fmt::format("blk.{}.attn_{}_norm.bias", il, norm));
}

ValueId apertus_ffn(Builder& b, ValueId x, int64_t il) {
  const auto number = [&](std::string_view name) {
    return static_cast<float>(b.hparams().layer_float_of_all(name, il));
  };
  const auto softplus = [](float v) { return v > 20 ? v : std::log1p(std::exp(v)); };
  core::ActivationParams xielu = {Activation::xielu, softplus(number("xielu.alpha_p"))};
  xielu.beta = number("xielu.beta");
  xielu.alpha_negative = xielu.beta + softplus(number("xielu.alpha_n"));
  xielu.epsilon = number("xielu.eps");
  return blocks::ffn(b, x, il, {xielu, false});
}

// The file's width counts gate and up.
ValueId qwen_ffn(Builder& b, ValueId x, int64_t il) {
  return blocks::ffn(b, x, il, {.width = b.hparams().ffn_width(il) / 2});
}

ValueId hunyuan_experts(Builder& b, ValueId x, int64_t il) {
  return blocks::experts(
      b, x, il, {.width = b.hparams().ffn_width(il), .normalize = true, .gate = core::Gate::softmax, .shared = true});
}

// The experts of this layer are unused: only the activation remains.
ValueId only_activation(Builder& b, ValueId x, int64_t il) {
  const std::string blk = fmt::format("blk.{}.", il);
  for (const char* tensor :
       {"ffn_gate_inp.weight", "exp_probs_b.bias", "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight",
        "ffn_gate_shexp.weight", "ffn_up_shexp.weight", "ffn_down_shexp.weight"})
    b.skip(blk + tensor);
  return blocks::activate(b, x, blk + "ffn_activation");
}

ValueId refact_ffn(Builder& b, ValueId x, int64_t il) {
  return b.hparams().experts() > 0 ? only_activation(b, x, il) : blocks::ffn(b, x, il, {.bias = false});
}

// A layer between two with experts has experts but does not use them.
ValueId ernie_ffn(Builder& b, ValueId x, int64_t il) {
  const Hparams& h = b.hparams();
  h.get_int("expert_shared_count", 0);
  if (!h.has_experts(il) && !b.has(fmt::format("blk.{}.ffn_up.weight", il))) return only_activation(b, x, il);
  return blocks::feed_forward(b, x, il,
                              {.normalize = true, .gate = core::Gate::softmax, .selection_bias = true, .shared = true});
}

constexpr AttentionSpec
    kBiased = {.output_bias = false, .max_bias = 8},
    kLlada = {.rope = Rope::adjacent, .rope_factors = false, .output_bias = false},
    kAdjacent = {.rope = Rope::adjacent}, kUnbiased = {.rope = Rope::adjacent, .output_bias = false},
    kSplit = {.rope = Rope::split}, kNormed = {.rope = Rope::split, .qk_norm = true},
    kInOrder = {.rope = Rope::split, .rope_axes = RopeAxes::in_order},
    kNoFactors = {.rope = Rope::split, .rope_factors = false},
    kNormedNoFactors = {.rope = Rope::split, .qk_norm = true, .rope_factors = false},
    kNormedBehind = {.rope = Rope::split, .qk_norm = true, .norms_behind_rope = true, .rope_factors = false},
    kMaincoder = {.rope = Rope::adjacent, .qk_norm = true, .norms_behind_rope = true, .rope_factors = false},
    kCogVlm = {
        .rope = Rope::split, .rope_base = 10000, .rope_scaling = false, .rope_factors = false, .qkv_thirds = true};
constexpr AttentionSpec kBitNet = {.rope = Rope::split, .output_norm = true};
constexpr ActivationSpec kUngated = {{Activation::relu_squared}, false};
constexpr RoutingSpec kExperts = {}, kSoftmax = {.normalize = true, .gate = core::Gate::softmax},
                      kShares = {.normalize = false, .gate = core::Gate::softmax},
                      kSharesAndShared = {.normalize = false, .gate = core::Gate::softmax, .shared = true};

constexpr auto kKinds = std::to_array<Kind>({
    {.name = "llama", .attention = kAdjacent, .experts = kExperts},
    {.name = "llama-embed", .attention = kAdjacent, .experts = kExperts, .embeds = true},
    {.name = "mistral3", .attention = kAdjacent, .experts = kExperts, .read = read_mistral},
    {.name = "smollm3", .attention = kAdjacent, .without_rope_every = 4},
    {.name = "seed_oss", .attention = kSplit, .ffn_norm = "post_attention_norm"},
    {.name = "ernie4_5", .attention = kUnbiased},
    {.name = "ernie4_5-moe", .attention = kUnbiased, .ffn = ernie_ffn},
    {.name = "internlm2", .attention = kAdjacent},
    {.name = "xverse", .attention = kAdjacent},
    {.name = "nanbeige", .attention = kAdjacent},
    {.name = "chatglm", .attention = kUnbiased},
    {.name = "baichuan", .attention = kAdjacent, .read = read_baichuan},
    {.name = "refact", .attention = kBiased, .ffn = refact_ffn, .unused_tensor = "rope_freqs.weight"},
    {.name = "arcee", .attention = kAdjacent, .activation = kUngated},
    {.name = "olmo", .attention = kAdjacent, .layer_norms = true},
    {.name = "apertus", .attention = kNormed, .read = skip_norm_biases, .ffn = apertus_ffn},
    {.name = "bitnet", .attention = kBitNet, .activation = {.norm = true}},
    {.name = "bitnet-b1.58",
     .attention = kBitNet,
     .activation = {.activation = {Activation::relu_squared}, .norm = true}},
    {.name = "exaone", .attention = kSplit},
    {.name = "openelm", .attention = kNormed},
    {.name = "paddleocr", .attention = kInOrder},
    {.name = "pangu-embedded", .attention = kNoFactors},
    {.name = "eurobert", .attention = kNoFactors, .read = read_causal, .embeds = true},
    {.name = "cogvlm", .attention = kCogVlm, .read = read_cogvlm, .unused_tensor = "rope_freqs.weight"},
    // Files state windows that these models do not use.
    {.name = "phi3", .attention = {.rope = Rope::split, .window = 0}},
    {.name = "phimoe",
     .attention = {.rope = Rope::split, .window = 0},
     .experts = kSoftmax,
     .norm_biases = true,
     .sparse_mixer = true},
    {.name = "qwen", .attention = {.rope = Rope::split, .qkv_has_more = true}, .ffn = qwen_ffn},
    {.name = "qwen2", .attention = kSplit},
    {.name = "qwen2vl", .attention = kInOrder, .output_bias = false},
    {.name = "qwen2moe", .attention = kSplit, .experts = kSharesAndShared},
    {.name = "qwen3", .attention = kNormed, .unused_tensor = "cls.output.weight"},
    {.name = "qwen3moe", .attention = kNormed, .experts = kExperts},
    {.name = "hunyuan-dense", .attention = kNormedBehind, .read = read_hunyuan},
    {.name = "hunyuan_vl", .attention = kNormedBehind, .read = read_hunyuan},
    {.name = "hunyuan-moe", .attention = kNormedBehind, .ffn = hunyuan_experts},
    {.name = "maincoder", .attention = kMaincoder, .read = read_hunyuan},
    // Diffusion models: not causal.
    {.name = "llada",
     .attention = kLlada,
     .activation = {.bias = false},
     .read = read_causal,
     .output_bias = false,
     .unused_tensor = "rope_freqs.weight"},
    {.name = "llada-moe", .attention = kNormedNoFactors, .experts = kShares, .read = read_causal, .output_bias = false},
    {.name = "dream", .attention = kNoFactors, .read = read_causal, .output_bias = false},
    {.name = "rnd1", .attention = kNormedNoFactors, .experts = kSoftmax, .read = read_causal, .output_bias = false},
});

// Files of other converters lack this key; llama.cpp, without layer norms and sparse mixer, reads both kinds alike.
std::optional<double> mixer_nearness(const Builder& b) {
  const std::string key = b.hparams().key("router_jitter_noise");
  if (!b.file().find(key)) return {};
  const double noise = b.hparams().get_float("router_jitter_noise", 0);
  if (!(noise >= 0 && noise < 1)) throw_error("{}: {} is {}, expected 0 to 1", b.file().path(), key, noise);
  return std::max(2 * noise, 1e-30); // only equal ones without noise
}

void build(Builder& b) {
  const Kind& kind = *std::ranges::find(kKinds, b.hparams().architecture(), &Kind::name);
  AttentionSpec attention = kind.attention;
  if (kind.read) kind.read(b, attention);
  if (!kind.unused_tensor.empty()) b.skip(kind.unused_tensor);
  AttentionSpec without_rope = attention;
  without_rope.rope = Rope::none;
  const int64_t every = kind.without_rope_every;
  const bool experts = kind.experts && b.hparams().experts() > 0;
  RoutingSpec routing = kind.experts.value_or(RoutingSpec());
  const std::optional<double> nearness = kind.sparse_mixer ? mixer_nearness(b) : std::nullopt;
  if (nearness) routing = {.normalize = false, .gate = core::Gate::softmax, .by_score = true, .nearness = *nearness};
  b.build({.mixer =
               [&](ValueId x, int64_t il) {
                 return blocks::attention(b, x, il, every > 0 && (il + 1) % every == 0 ? without_rope : attention);
               },
           .ffn =
               [&](ValueId x, int64_t il) {
                 if (kind.ffn) return kind.ffn(b, x, il);
                 return experts ? blocks::experts(b, x, il, routing) : blocks::ffn(b, x, il, kind.activation);
               },
           .ffn_norm = kind.ffn_norm,
           .layer_norms = kind.layer_norms || nearness,
           .norm_biases = kind.norm_biases,
           .bare_norms = kind.layer_norms,
           .output_bias = kind.output_bias,
           .embeds = kind.embeds});
}

constexpr TensorRule kTensors[] = {{"self_attn.q_proj", "attn_q", {.rows = Rows::rope_pairs}},
                                   {"self_attn.k_proj", "attn_k", {.rows = Rows::rope_pairs}}};

} // namespace

constinit const ArchitectureFile arch::decoder = {.build = build,
                                                  .checkpoint = {.tensors = kTensors, .slides_by_default = true}};

} // namespace ridge::models
