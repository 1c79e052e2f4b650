// The checkpoint's modules are looked up one after the other, in the order in which a model uses them; what each
// becomes is planned first, checked, and only then written, row by row.
#include "convert/import/config.h"
#include "convert/import/import.h"
#include "convert/import/matrix.h"
#include "convert/import/output.h"
#include "convert/import/tokenizer.h"
#include "core/error.h"
#include "gguf/safetensors.h"
#include "gguf/writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

namespace ridge::convert::import {
namespace {

using gguf::SafeTensor;

class Plan {
 public:
  Plan(const gguf::Safetensors& tensors, const Config& config, std::optional<quant::Type> type)
      : tensors_(tensors), config_(config), type_(type), reader_(tensors, config) {}

  void run();
  std::vector<Output> outputs;
  std::string planar_scheme; // of models/planar.h; empty: no matrix needs it
  const std::string& method() const { return reader_.method(); }

 private:
  void vector(const std::string& from, const std::string& to, int64_t width, RowOrder order = {});
  void linear(const std::string& from, const std::string& to, int64_t rows, int64_t cols, RowOrder order = {});
  void matrices(const std::vector<std::string>& from, const std::string& to, int64_t rows, int64_t cols, RowOrder order,
                std::optional<quant::Type> type);
  void experts(std::string_view pattern, int64_t il, const std::string& to, int64_t rows, int64_t cols);
  void layer(int64_t il);
  void check_all_used() const;
  void use(const SafeTensor* tensor) { used_.insert(tensor->name); }

  const gguf::Safetensors& tensors_;
  const Config& config_;
  const std::optional<quant::Type> type_; // of matrices that are not quantized; nothing: what they are
  MatrixReader reader_;
  std::set<std::string_view> used_;
};

void Plan::vector(const std::string& from, const std::string& to, int64_t width, RowOrder order) {
  const SafeTensor* tensor = tensors_.find(from);
  if (!tensor) throw_error("tensor {} is missing: the checkpoint is incomplete or config.json is another's", from);
  if (tensor->shape != std::vector<int64_t>{width})
    throw_error("{}: tensor {} has shape [{}], but config.json makes it [{}]", tensors_.path_of(*tensor), from,
                fmt::join(tensor->shape, ", "), width);
  read_floats(*tensor, 0, 0, nullptr); // throws for other types
  use(tensor);
  const auto write = [tensor, width, order](const Sink& sink) {
    std::vector<float> values(width), ordered(width);
    read_floats(*tensor, 0, width, values.data());
    for (int64_t i = 0; i < width; ++i) ordered[i] = values[order.source(i)];
    sink(std::as_bytes(std::span(ordered)));
  };
  outputs.push_back({{to, quant::Type::F32, {width}}, write, {tensor}});
}

bool is_zero(const SafeTensor& tensor) {
  return std::ranges::all_of(tensor.data, [](std::byte b) { return b == std::byte{}; });
}

void Plan::matrices(const std::vector<std::string>& from, const std::string& to, int64_t rows, int64_t cols,
                    RowOrder order, std::optional<quant::Type> type) {
  std::vector<Matrix> all;
  for (const std::string& name : from) {
    all.push_back(reader_.read(name, rows, cols));
    for (const SafeTensor* part : all.back().parts) use(part);
    // GPTQ writers give every module a bias, of zeros where the model has none.
    const SafeTensor* bias = tensors_.find(name + ".bias");
    if (bias && all.back().scheme != Scheme::plain && is_zero(*bias)) use(bias);
  }
  for (Output& output : outputs_of(std::move(all), to, order, type, planar_scheme))
    outputs.push_back(std::move(output));
}

void Plan::linear(const std::string& from, const std::string& to, int64_t rows, int64_t cols, RowOrder order) {
  matrices({from}, to, rows, cols, order, type_);
  const SafeTensor* bias = tensors_.find(from + ".bias");
  if (bias && !used_.contains(bias->name)) vector(bias->name, to + ".bias", rows, order);
}

void Plan::experts(std::string_view pattern, int64_t il, const std::string& to, int64_t rows, int64_t cols) {
  std::vector<std::string> names;
  for (int64_t e = 0; e < config_.experts; ++e)
    names.push_back(fmt::format("model.layers.{}.{}", il, fmt::format(fmt::runtime(pattern), e)));
  matrices(names, to, rows, cols, {}, type_);
}

void Plan::layer(int64_t il) {
  const models::Checkpoint& checkpoint = config_.checkpoint();
  const std::string from = fmt::format("model.layers.{}.", il), to = fmt::format("blk.{}.", il);
  const int64_t width = config_.width, q = config_.heads * config_.head_dim, kv = config_.kv_heads * config_.head_dim;
  const RowOrder rotated{checkpoint.interleave_qk ? config_.head_dim : 0};
  vector(from + "input_layernorm.weight", to + "attn_norm.weight", width);
  linear(from + "self_attn.q_proj", to + "attn_q", q, width, rotated);
  linear(from + "self_attn.k_proj", to + "attn_k", kv, width, rotated);
  linear(from + "self_attn.v_proj", to + "attn_v", kv, width);
  linear(from + "self_attn.o_proj", to + "attn_output", width, q);
  if (checkpoint.qk_norm) {
    vector(from + "self_attn.q_norm.weight", to + "attn_q_norm.weight", config_.head_dim);
    vector(from + "self_attn.k_norm.weight", to + "attn_k_norm.weight", config_.head_dim);
  }
  vector(from + "post_attention_layernorm.weight", to + "ffn_norm.weight", width);
  if (config_.experts == 0) {
    linear(from + "mlp.gate_proj", to + "ffn_gate", config_.ffn_width, width);
    linear(from + "mlp.up_proj", to + "ffn_up", config_.ffn_width, width);
    linear(from + "mlp.down_proj", to + "ffn_down", width, config_.ffn_width);
    return;
  }
  matrices({from + std::string(checkpoint.router)}, to + "ffn_gate_inp", config_.experts, width, {}, quant::Type::F32);
  experts(checkpoint.expert_gate, il, to + "ffn_gate_exps", config_.ffn_width, width);
  experts(checkpoint.expert_up, il, to + "ffn_up_exps", config_.ffn_width, width);
  experts(checkpoint.expert_down, il, to + "ffn_down_exps", width, config_.ffn_width);
}

// A tensor without a place would be a part of the model that is silently lost.
void Plan::check_all_used() const {
  for (const SafeTensor& tensor : tensors_.tensors()) {
    if (used_.contains(tensor.name)) continue;
    const auto ends = [&](std::string_view suffix) { return tensor.name.ends_with(suffix); };
    if (ends("rotary_emb.inv_freq")) continue; // constants
    // How activations and cached keys were quantized, which ridge decides for itself; and a mark of bitsandbytes'.
    if (ends(".input_scale") || ends(".input_global_scale") || ends(".input_zero_point") || ends(".activation_scale") ||
        ends(".k_scale") || ends(".v_scale") || ends(".output_scale") || ends(".weight_format"))
      continue;
    if (config_.tied && tensor.name == "lm_head.weight") continue; // the same numbers
    throw_error("{}: tensor {} has no place in a {} model: the checkpoint is of another kind than config.json says",
                tensors_.path_of(tensor), tensor.name, config_.architecture->name);
  }
}

void Plan::run() {
  if (!config_.rope_factors.empty())
    outputs.push_back({{"rope_freqs.weight", quant::Type::F32, {std::ssize(config_.rope_factors)}},
                       [factors = config_.rope_factors](const Sink& sink) { sink(std::as_bytes(std::span(factors))); },
                       {}});
  matrices({"model.embed_tokens"}, "token_embd", config_.vocab, config_.width, {}, type_);
  for (int64_t il = 0; il < config_.layers; ++il) layer(il);
  vector("model.norm.weight", "output_norm.weight", config_.width);
  if (!config_.tied) linear("lm_head", "output", config_.vocab, config_.width);
  check_all_used();
}

// general.file_type for files that are plainly of one type.
std::optional<uint32_t> file_type(quant::Type type) {
  switch (type) {
  case quant::Type::F32: return 0;
  case quant::Type::F16: return 1;
  case quant::Type::Q4_0: return 2;
  case quant::Type::Q8_0: return 7;
  case quant::Type::BF16: return 32;
  case quant::Type::MXFP4: return 38;
  case quant::Type::NVFP4: return 39;
  default: return std::nullopt;
  }
}

std::optional<quant::Type> parse_type(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const quant::FormatInfo* format = quant::find_format(name);
  if (!format) throw_error("unknown type '{}'", name);
  return format->type;
}

std::string model_name(const std::string& folder) {
  std::filesystem::path path = std::filesystem::weakly_canonical(folder);
  if (path.filename().empty()) path = path.parent_path();
  return path.filename().string();
}

} // namespace

ConvertReport convert(const core::ConvertRequest& request, const ConvertProgress& progress) {
  const std::string& folder = request.input;
  const std::optional<quant::Type> type = parse_type(request.type);
  gguf::Metadata metadata;
  metadata.set("general.architecture", ""); // first in the file, by custom
  metadata.set("general.type", "model");
  metadata.set("general.name", model_name(folder));
  Config config = read_config(folder, metadata);
  metadata.set("general.architecture", config.architecture->name);

  const gguf::Safetensors tensors = gguf::Safetensors::open(folder);
  Plan plan(tensors, config, type);
  plan.run();
  for (const Output& output : plan.outputs)
    if (output.info.name == "blk.0.ffn_down.weight" || output.info.name == "blk.0.ffn_down_exps.weight")
      if (const auto* format = output.info.type.format())
        if (const auto type = file_type(format->type)) metadata.set("general.file_type", *type);
  metadata.set("general.quantization_version", uint32_t{2});
  if (!plan.method().empty()) metadata.set("ridge.quant.source", plan.method());
  if (!plan.planar_scheme.empty()) metadata.set("ridge.quant.scheme", plan.planar_scheme);
  read_tokenizer(folder, config.vocab, metadata, config.notes);

  std::vector<gguf::TensorInfo> infos;
  for (const Output& output : plan.outputs) infos.push_back(output.info);
  gguf::Writer writer(request.output, metadata, infos);
  int64_t done = 0;
  for (const Output& output : plan.outputs) {
    output.write([&](std::span<const std::byte> bytes) {
      writer.write(bytes);
      done += std::ssize(bytes);
      if (progress) progress(done, static_cast<int64_t>(writer.size_bytes()));
    });
    for (const SafeTensor* part : output.parts) tensors.release(*part);
    tensors.check();
  }
  writer.finish();
  return {std::ssize(plan.outputs), static_cast<int64_t>(writer.size_bytes()), config.notes};
}

} // namespace ridge::convert::import
