#include "models/file/hparams.h"

#include "core/error.h"
#include "core/strings/printable.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace ridge::models {
namespace {

// A hyperparameter that changes the computation, its neutral values, and the message.
struct Computing {
  std::string_view name;
  double neutral, also_neutral;
  std::string_view what;
};

// A key belongs here if ignoring it would change logits without a missing or extra tensor. Builder always reads the
// keys of AttentionSpec and RoutingSpec.
constexpr auto kComputing = std::to_array<Computing>({
    {"attention.max_alibi_bias", 0, 0, "ALiBi is"},
    {"attention.output_scale", 0, 1, "a scale of the attention output is"},
    {"attention.temperature_scale", 0, 0, "an attention temperature is"},
    {"attention.value_scale", 0, 1, "a scale of the attention values is"},
    {"embedding_scale", 0, 1, "a scale of embeddings is"},
    {"expert_group_scale", 0, 1, "a scale of expert groups is"},
    {"expert_shared_count", 0, 0, "shared experts are"},
    {"final_logit_softcapping", 0, 0, "logit soft caps are"},
    {"interleave_moe_layer_step", 0, 1, "experts in some layers only are"},
    {"leading_dense_block_count", 0, 0, "leading dense layers are"},
    {"logit_scale", 0, 1, "a scale of logits is"},
    {"moe_every_n_layers", 0, 1, "experts in some layers only are"},
    {"num_loops", 0, 1, "looped layers are"},
    {"residual_scale", 0, 1, "a scale of the residual stream is"},
    {"rope.dimension_sections", 0, 0, "rope in sections is"},
    {"rope.scaling.alpha", 0, 0, "a scale of the rope base is"},
    {"rope.scaling.yarn_log_multiplier", 0, 0, "a separate YaRN magnitude is"},
    {"router_logit_softcapping", 0, 0, "router soft caps are"},
    {"swiglu_clamp_exp", 0, 0, "clamped activations are"},
    {"swiglu_clamp_shexp", 0, 0, "clamped activations are"},
    {"use_parallel_residual", 0, 0, "parallel attention and feed-forward are"},
});

std::optional<double> effective(const gguf::Value& value, const Computing& row) {
  const auto differs = [&](double number) { return number != row.neutral && number != row.also_neutral; };
  if (value.is_array()) {
    const auto numbers = value.as_floats();
    if (!numbers) return std::nullopt;
    const auto at = std::ranges::find_if(*numbers, differs);
    return at == numbers->end() ? std::nullopt : std::optional<double>(*at);
  }
  std::optional<double> number = value.as_float();
  if (const auto flag = value.as_bool()) number = *flag ? 1 : 0;
  return number && differs(*number) ? number : std::nullopt;
}

} // namespace

Hparams::Hparams(const gguf::File& file) : file_(file), architecture_(file.get_string("general.architecture")) {}

std::string Hparams::asked(std::string_view name) const {
  asked_.emplace(name);
  return key(name);
}

int64_t Hparams::get_int(std::string_view name) const { return file_.get_int(asked(name)); }
int64_t Hparams::get_int(std::string_view name, int64_t fallback) const { return file_.get_int(asked(name), fallback); }
int64_t Hparams::positive_int(std::string_view name, int64_t most) const {
  return in_range(name, get_int(name), 1, most);
}
double Hparams::get_float(std::string_view name, double fallback) const {
  return file_.get_float(asked(name), fallback);
}
bool Hparams::get_bool(std::string_view name, bool fallback) const { return file_.get_bool(asked(name), fallback); }
std::string Hparams::get_string(std::string_view name, std::string_view fallback) const {
  return core::printable(file_.get_string(asked(name), fallback));
}

const gguf::Value* Hparams::array(std::string_view name) const {
  const gguf::Value* value = file_.find(asked(name));
  return value && value->is_array() ? value : nullptr;
}

int64_t Hparams::layer_of_array(std::string_view name, const gguf::Value& array, int64_t layer) const {
  const auto values = array.as_ints();
  const int64_t wanted = std::max(layers(), layer + 1);
  if (!values || std::ssize(*values) < wanted)
    throw_error("{}: {}: expected {} integers, one per layer", file_.path(), key(name), wanted);
  return (*values)[layer];
}

int64_t Hparams::layer_int(std::string_view name, int64_t layer) const {
  const gguf::Value* values = array(name);
  return values ? layer_of_array(name, *values, layer) : get_int(name);
}
int64_t Hparams::layer_int(std::string_view name, int64_t layer, int64_t fallback) const {
  const gguf::Value* values = array(name);
  return values ? layer_of_array(name, *values, layer) : get_int(name, fallback);
}

double Hparams::layer_float(std::string_view name, int64_t layer, double fallback) const {
  return file_.find(asked(name)) ? layer_float_of_all(key(name), layer) : fallback;
}
double Hparams::layer_float_of_all(std::string_view key, int64_t layer) const {
  const gguf::Value* value = file_.find(key);
  if (!value || !value->is_array()) return file_.get_float(key);
  const auto values = value->as_floats();
  const int64_t wanted = std::max(layers(), layer + 1);
  if (!values || std::ssize(*values) < wanted)
    throw_error("{}: {}: expected {} numbers, one per layer", file_.path(), key, wanted);
  return (*values)[layer];
}

std::vector<int64_t> Hparams::ints(std::string_view name, int64_t count) const {
  const gguf::Value* values = array(name);
  auto numbers = values ? values->as_ints() : std::nullopt;
  if (!numbers || std::ssize(*numbers) < count)
    throw_error("{}: {}: expected an array of {} integers", file_.path(), key(name), count);
  numbers->resize(count);
  return *std::move(numbers);
}

std::vector<int64_t> Hparams::all_ints(std::string_view name) const {
  const gguf::Value* values = array(name);
  if (!values) return {};
  const auto numbers = values->as_ints();
  if (!numbers) throw_error("{}: {}: expected an array of integers", file_.path(), key(name));
  return *numbers;
}

int64_t Hparams::in_range(std::string_view name, int64_t value, int64_t low, int64_t high) const {
  if (value < low || value > high)
    throw_error("{}: {} is {}, expected {} to {}: the file is damaged or not a {} model", file_.path(), key(name),
                value, low, high, architecture_);
  return value;
}

int64_t Hparams::blocks() const { return in_range("block_count", get_int("block_count"), 1, kMaxLayers); }
int64_t Hparams::layers() const {
  constexpr std::string_view kDrafts = "nextn_predict_layers";
  return blocks() - in_range(kDrafts, get_int(kDrafts, 0), 0, blocks() - 1);
}
int64_t Hparams::width() const { return in_range("embedding_length", get_int("embedding_length"), 1, kMaxWidth); }
int64_t Hparams::context() const { return in_range("context_length", get_int("context_length", 2048), 1, kMaxContext); }

int64_t Hparams::heads(int64_t layer) const {
  constexpr std::string_view kName = "attention.head_count";
  return in_range(kName, layer_int(kName, layer), 1, kMaxHeads);
}

int64_t Hparams::kv_heads(int64_t layer) const {
  constexpr std::string_view kName = "attention.head_count_kv";
  const int64_t queries = heads(layer), found = in_range(kName, layer_int(kName, layer, queries), 1, queries);
  if (queries % found != 0)
    throw_error("{}: layer {}: {} attention heads cannot share {} key-value heads evenly", file_.path(), layer, queries,
                found);
  return found;
}

int64_t Hparams::head_dim(std::string_view name, int64_t layer) const {
  if (file_.find(asked(name))) return in_range(name, layer_int(name, layer), 1, kMaxHeadDim);
  int64_t first = 0;
  while (first < layer && layer_int("attention.head_count", first) == 0) ++first;
  return in_range(name, width() / heads(first), 1, kMaxHeadDim);
}
int64_t Hparams::k_dim(int64_t layer, bool slides) const {
  return head_dim(of_sliding("attention.key_length", slides), layer);
}
int64_t Hparams::v_dim(int64_t layer, bool slides) const {
  return head_dim(of_sliding("attention.value_length", slides), layer);
}

int64_t Hparams::latent_k_dim(int64_t layer) const {
  constexpr std::string_view kName = "attention.key_length_mla";
  return get_int(kName, 0) == 0 ? k_dim(layer) : in_range(kName, get_int(kName), 1, kMaxHeadDim);
}
int64_t Hparams::latent_v_dim(int64_t layer) const {
  constexpr std::string_view kName = "attention.value_length_mla";
  return get_int(kName, 0) == 0 ? v_dim(layer) : in_range(kName, get_int(kName), 1, kMaxHeadDim);
}

int64_t Hparams::window(std::optional<int64_t> fallback) const {
  constexpr std::string_view kName = "attention.sliding_window";
  return in_range(kName, fallback ? get_int(kName, *fallback) : get_int(kName), 1, kMaxContext);
}

double Hparams::sliding_rope_base(std::optional<double> fallback) const {
  const double base = get_float("rope.freq_base_swa", fallback ? *fallback : get_float("rope.freq_base", 10000));
  if (!(base > 0 && std::isfinite(base)))
    throw_error("{}: {} is {}, expected a number above 0", file_.path(), key("rope.freq_base_swa"), base);
  return base;
}

// Appends "_swa" for a layer with a window, if the file has that key.
std::string Hparams::of_sliding(std::string_view name, bool slides) const {
  const std::string own = std::string(name) + "_swa";
  return slides && file_.find(asked(own)) ? own : std::string(name);
}

int64_t Hparams::rope_dims(int64_t k_dim, bool slides) const {
  const std::string name = of_sliding("rope.dimension_count", slides);
  const int64_t dims = in_range(name, get_int(name, k_dim), 2, k_dim);
  if (dims % 2 != 0) throw_error("{}: {} is odd ({})", file_.path(), key(name), dims);
  return dims;
}

float Hparams::epsilon(std::string_view name) const {
  const double epsilon = get_float(name, 1e-5);
  if (!(epsilon >= 0 && epsilon < 1)) throw_error("{}: {} is {}, expected 0 to 1", file_.path(), key(name), epsilon);
  return static_cast<float>(epsilon);
}
float Hparams::norm_epsilon() const { return epsilon("attention.layer_norm_rms_epsilon"); }
float Hparams::layer_norm_epsilon() const { return epsilon("attention.layer_norm_epsilon"); }

bool Hparams::has_rope_sections() const {
  if (!array("rope.dimension_sections")) return false;
  const std::vector<int64_t> sections = ints("rope.dimension_sections", 2);
  return sections[0] > 0 && sections[1] > 0;
}

int64_t Hparams::original_context() const {
  constexpr std::string_view kName = "rope.scaling.original_context_length";
  const int64_t tokens = get_int(kName, 0);
  return tokens == 0 ? context() : in_range(kName, tokens, 1, kMaxContext);
}

int64_t Hparams::ffn_width(int64_t layer) const {
  constexpr std::string_view kName = "feed_forward_length";
  return in_range(kName, layer_int(kName, layer), 1, 16 * kMaxWidth);
}
int64_t Hparams::expert_width(int64_t layer) const {
  constexpr std::string_view kName = "expert_feed_forward_length";
  if (!file_.find(asked(kName))) return ffn_width(layer);
  return in_range(kName, layer_int(kName, layer), 1, 16 * kMaxWidth);
}

int64_t Hparams::experts() const { return in_range("expert_count", get_int("expert_count", 0), 0, kMaxExperts); }
int64_t Hparams::experts_used(int64_t layer) const {
  return in_range("expert_used_count", layer_int("expert_used_count", layer, 0), 1, experts());
}

bool Hparams::has_attention(int64_t layer) const { return layer_int("attention.head_count_kv", layer, 1) != 0; }

bool Hparams::slides(int64_t layer, int64_t fallback, Sees which) const {
  constexpr std::string_view kName = "attention.sliding_window_pattern";
  const bool drafts = layer >= layers();
  if (const gguf::Value* flags = array(kName)) {
    const auto values = flags->as_ints();
    return !(drafts && values && layer >= std::ssize(*values)) && layer_of_array(kName, *flags, layer) != 0;
  }
  const int64_t every = in_range(kName, get_int(kName, fallback), 0, kMaxLayers);
  if (drafts) return false;
  if (every == 0) return true;
  return layer % every != (which == Sees::all_last ? every - 1 : 0);
}

bool Hparams::has_experts(int64_t layer) const {
  constexpr std::string_view kStep = "interleave_moe_layer_step";
  const int64_t dense = get_int("leading_dense_block_count", 0),
                step = in_range(kStep, get_int(kStep, 1), 1, kMaxLayers);
  return experts() > 0 && layer >= dense && (layer + 1) % step == 0;
}

bool Hparams::is_recurrent(int64_t layer, int64_t interval) const {
  constexpr std::string_view kLayers = "attention.recurrent_layers", kInterval = "full_attention_interval";
  if (layer >= layers()) return false;
  if (const gguf::Value* flags = array(kLayers)) {
    const auto values = flags->as_ints();
    if (!values || std::ssize(*values) < layers())
      throw_error("{}: {}: expected {} flags, one per layer", file_.path(), key(kLayers), layers());
    return (*values)[layer] != 0;
  }
  if (file_.find(asked(kLayers))) return get_bool(kLayers, false);
  return (layer + 1) % in_range(kInterval, get_int(kInterval, interval), 1, kMaxLayers) != 0;
}

int64_t Hparams::ssm(std::string_view name) const {
  const std::string full = "ssm." + std::string(name);
  return in_range(full, get_int(full), 1, kMaxWidth);
}

void Hparams::refuse(std::string_view name, std::string_view value, std::string_view what) const {
  throw_error("{}: {} is {}: {} not supported yet", file_.path(), key(name), value, what);
}

void Hparams::refuse_ignored() const {
  for (const Computing& row : kComputing) {
    const gguf::Value* value = asked_.contains(row.name) ? nullptr : file_.find(key(row.name));
    if (!value) continue;
    if (const auto number = effective(*value, row)) refuse(row.name, fmt::format("{}", *number), row.what);
  }
}

} // namespace ridge::models
