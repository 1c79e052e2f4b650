// The checkpoint's modules are looked up one after the other, in the order in which a model uses them; what each
// becomes is planned first, checked, and only then written, row by row.
#include "core/error.h"
#include "gguf/safetensors.h"
#include "gguf/writer.h"
#include "models/import/config.h"
#include "models/import/import.h"
#include "models/import/matrix.h"
#include "models/import/tokenizer.h"
#include "quant/encode.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>

namespace ridge::models::import {
namespace {

using gguf::SafeTensor;
using Bytes = std::span<const std::byte>;
using Sink = std::function<void(Bytes)>;

constexpr int64_t kPieceBytes = 4 << 20; // of rows converted at a time

struct Output {
  gguf::TensorInfo info;
  std::function<void(const Sink&)> write;
  std::vector<const SafeTensor*> parts; // done with once it is written
};

// llama's q and k: the checkpoint rotates element i of a head with i + d/2, the GGUF form with its neighbour. Row r of
// the output is row source(r) of the checkpoint; rows stay in their head.
struct RowOrder {
  int64_t head_dim = 0; // 0: rows stay where they are
  int64_t source(int64_t r) const {
    if (head_dim == 0) return r;
    const int64_t head = r / head_dim, within = r % head_dim;
    return head * head_dim + within % 2 * (head_dim / 2) + within / 2;
  }
};

quant::Type type_of(gguf::Dtype dtype) {
  return dtype == gguf::Dtype::F16    ? quant::Type::F16
         : dtype == gguf::Dtype::BF16 ? quant::Type::BF16
                                      : quant::Type::F32;
}

// Rows of numbers to rows of the type. An Error names the tensor.
void encode(quant::Type type, const std::vector<float>& numbers, int64_t rows, int64_t cols, std::byte* out,
            const std::string& name) {
  if (type == quant::Type::F16)
    for (const float number : numbers)
      if (std::abs(number) >= 65520 && std::isfinite(number))
        throw_error("tensor {}: {} is too large for F16; use --type bf16", name, number);
  try {
    quant::encode_rows_parallel(type, numbers.data(), rows, cols, {}, out);
  } catch (const Error& error) {
    throw_error("tensor {}: {}", name, error.what());
  }
}

class Plan {
 public:
  Plan(const gguf::Safetensors& tensors, const Config& config, const ConvertOptions& options)
      : tensors_(tensors), config_(config), options_(options), reader_(tensors, config) {}

  void run();
  std::vector<Output> outputs;

 private:
  void vector(const std::string& from, const std::string& to, int64_t width, RowOrder order = {});
  void vector_if_there(const std::string& from, const std::string& to, int64_t width, RowOrder order = {});
  void linear(const std::string& from, const std::string& to, int64_t rows, int64_t cols, RowOrder order = {});
  // The module's matrix and, where it has one, its bias.
  void matrices(const std::vector<std::string>& from, const std::string& to, int64_t rows, int64_t cols, RowOrder order,
                std::optional<quant::Type> type);
  void experts(std::string_view pattern, int64_t il, const std::string& to, int64_t rows, int64_t cols);
  void layer(int64_t il);
  void check_all_used() const;
  void add(Output output);

  const gguf::Safetensors& tensors_;
  const Config& config_;
  const ConvertOptions& options_;
  MatrixReader reader_;
  std::set<std::string_view> used_;
};

void Plan::add(Output output) {
  for (const SafeTensor* part : output.parts) used_.insert(part->name);
  outputs.push_back(std::move(output));
}

void Plan::vector(const std::string& from, const std::string& to, int64_t width, RowOrder order) {
  const SafeTensor* tensor = tensors_.find(from);
  if (!tensor) throw_error("tensor {} is missing: the checkpoint is incomplete or config.json is another's", from);
  if (tensor->shape != std::vector<int64_t>{width})
    throw_error("{}: tensor {} has shape [{}], but config.json makes it [{}]", tensors_.path_of(*tensor), from,
                fmt::join(tensor->shape, ", "), width);
  read_floats(*tensor, 0, 0, nullptr); // throws for other types
  add({{to, quant::Type::F32, {width}},
       [tensor, width, order](const Sink& sink) {
         std::vector<float> values(width), ordered(width);
         read_floats(*tensor, 0, width, values.data());
         for (int64_t i = 0; i < width; ++i) ordered[i] = values[order.source(i)];
         sink(std::as_bytes(std::span(ordered)));
       },
       {tensor}});
}

void Plan::vector_if_there(const std::string& from, const std::string& to, int64_t width, RowOrder order) {
  if (tensors_.find(from)) vector(from, to, width, order);
}

void Plan::matrices(const std::vector<std::string>& from, const std::string& to, int64_t rows, int64_t cols,
                    RowOrder order, std::optional<quant::Type> wanted) {
  auto all = std::make_shared<std::vector<Matrix>>();
  Output output{{to + ".weight", quant::Type::F32, {cols, rows}}, {}, {}};
  for (const std::string& name : from) {
    all->push_back(reader_.read(name, rows, cols));
    output.parts.insert(output.parts.end(), all->back().parts.begin(), all->back().parts.end());
  }
  if (from.size() > 1) output.info.dims.push_back(std::ssize(from));
  quant::Type type = wanted.value_or(type_of(all->front().dtype));
  if (cols % quant::format(type).block_weights != 0) type = quant::Type::F16;
  output.info.type = type;
  const std::string name = from.front();
  output.write = [all, type, order, rows, cols, name](const Sink& sink) {
    // Pieces are whole heads, because rows change places within one.
    const int64_t unit = std::max<int64_t>(order.head_dim, 1);
    const int64_t piece = std::max<int64_t>(1, kPieceBytes / (4 * cols * unit)) * unit;
    const int64_t row_bytes = quant::format(type).row_bytes(cols);
    std::vector<float> numbers, ordered;
    std::vector<std::byte> packed(std::min(piece, rows) * row_bytes);
    for (const Matrix& matrix : *all)
      for (int64_t first = 0; first < rows; first += piece) {
        const int64_t count = std::min(piece, rows - first);
        numbers.resize(count * cols);
        matrix.floats(first, count, numbers.data());
        if (order.head_dim > 0) {
          ordered.resize(count * cols);
          for (int64_t r = 0; r < count; ++r)
            std::copy_n(numbers.data() + (order.source(first + r) - first) * cols, cols, ordered.data() + r * cols);
          numbers.swap(ordered);
        }
        encode(type, numbers, count, cols, packed.data(), name);
        sink(Bytes(packed).first(count * row_bytes));
      }
  };
  add(std::move(output));
}

void Plan::linear(const std::string& from, const std::string& to, int64_t rows, int64_t cols, RowOrder order) {
  matrices({from}, to, rows, cols, order, options_.type);
  vector_if_there(from + ".bias", to + ".bias", rows, order);
}

void Plan::experts(std::string_view pattern, int64_t il, const std::string& to, int64_t rows, int64_t cols) {
  std::vector<std::string> names;
  for (int64_t e = 0; e < config_.experts; ++e)
    names.push_back(fmt::format("model.layers.{}.{}", il, fmt::format(fmt::runtime(pattern), e)));
  matrices(names, to, rows, cols, {}, options_.type);
}

void Plan::layer(int64_t il) {
  const Architecture& architecture = *config_.architecture;
  const std::string from = fmt::format("model.layers.{}.", il), to = fmt::format("blk.{}.", il);
  const int64_t width = config_.width, q = config_.heads * config_.head_dim, kv = config_.kv_heads * config_.head_dim;
  const RowOrder rotated{architecture.rotates_adjacent ? config_.head_dim : 0};
  vector(from + "input_layernorm.weight", to + "attn_norm.weight", width);
  linear(from + "self_attn.q_proj", to + "attn_q", q, width, rotated);
  linear(from + "self_attn.k_proj", to + "attn_k", kv, width, rotated);
  linear(from + "self_attn.v_proj", to + "attn_v", kv, width);
  linear(from + "self_attn.o_proj", to + "attn_output", width, q);
  if (architecture.qk_norm) {
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
  matrices({from + std::string(architecture.router)}, to + "ffn_gate_inp", config_.experts, width, {},
           quant::Type::F32);
  experts(architecture.expert_gate, il, to + "ffn_gate_exps", config_.ffn_width, width);
  experts(architecture.expert_up, il, to + "ffn_up_exps", config_.ffn_width, width);
  experts(architecture.expert_down, il, to + "ffn_down_exps", width, config_.ffn_width);
}

// A tensor without a place would be a part of the model that is silently lost.
void Plan::check_all_used() const {
  for (const SafeTensor& tensor : tensors_.tensors()) {
    if (used_.contains(tensor.name)) continue;
    const auto ends = [&](std::string_view suffix) { return tensor.name.ends_with(suffix); };
    if (ends("rotary_emb.inv_freq") || ends(".attn.bias") || ends(".attn.masked_bias")) continue; // constants
    if (config_.tied && tensor.name == "lm_head.weight") continue;                                // the same numbers
    throw_error("{}: tensor {} has no place in a {} model: the checkpoint is of another kind than config.json says",
                tensors_.path_of(tensor), tensor.name, config_.architecture->gguf);
  }
}

void Plan::run() {
  if (!config_.rope_factors.empty())
    add({{"rope_freqs.weight", quant::Type::F32, {std::ssize(config_.rope_factors)}},
         [factors = config_.rope_factors](const Sink& sink) { sink(std::as_bytes(std::span(factors))); },
         {}});
  matrices({"model.embed_tokens"}, "token_embd", config_.vocab, config_.width, {}, options_.type);
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
  case quant::Type::Q8_0: return 7;
  case quant::Type::BF16: return 32;
  default: return std::nullopt;
  }
}

std::string model_name(const std::string& folder) {
  std::filesystem::path path = std::filesystem::weakly_canonical(folder);
  if (path.filename().empty()) path = path.parent_path();
  return path.filename().string();
}

} // namespace

ConvertReport convert(const std::string& folder, const std::string& out, const ConvertOptions& options) {
  gguf::Metadata metadata;
  metadata.set("general.architecture", ""); // first in the file, by custom
  metadata.set("general.type", "model");
  metadata.set("general.name", model_name(folder));
  Config config = read_config(folder, metadata);
  metadata.set("general.architecture", config.architecture->gguf);

  const gguf::Safetensors tensors = gguf::Safetensors::open(folder);
  Plan plan(tensors, config, options);
  plan.run();
  for (const Output& output : plan.outputs)
    if (output.info.name == "blk.0.ffn_down.weight" || output.info.name == "blk.0.ffn_down_exps.weight")
      if (const auto* format = output.info.type.format())
        if (const auto type = file_type(format->type)) metadata.set("general.file_type", *type);
  read_tokenizer(folder, config.vocab, metadata, config.notes);

  std::vector<gguf::TensorInfo> infos;
  for (const Output& output : plan.outputs) infos.push_back(output.info);
  gguf::Writer writer(out, metadata, infos);
  int64_t done = 0;
  for (const Output& output : plan.outputs) {
    output.write([&](Bytes bytes) {
      writer.write(bytes);
      done += std::ssize(bytes);
      if (options.progress) options.progress(done, static_cast<int64_t>(writer.size_bytes()));
    });
    for (const SafeTensor* part : output.parts) tensors.release(*part);
  }
  writer.finish();
  return {std::string(config.architecture->gguf), std::ssize(plan.outputs), static_cast<int64_t>(writer.size_bytes()),
          config.notes};
}

} // namespace ridge::models::import
