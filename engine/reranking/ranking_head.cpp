#include "engine/reranking/ranking_head.h"

#include "core/error.h"
#include "quant/registry.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

namespace ridge::engine {
namespace {

constexpr int64_t kRank = 4;
constexpr const char* kOutput = "cls.output";

std::string_view architecture_of(const gguf::File& file) { return file.get_string("general.architecture", ""); }

bool answers_yes(const gguf::File& file) {
  std::string name(file.get_string("general.name", ""));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return architecture_of(file).starts_with("qwen3") && name.find("reranker") != std::string::npos;
}

std::vector<float> decoded(const gguf::File& file, const gguf::Tensor& tensor) {
  const quant::FormatInfo* format = tensor.type.format();
  if (!format) throw_error("{}: {}: its type is not a weight type", file.path(), tensor.name);
  std::vector<float> values(static_cast<size_t>(tensor.weights()));
  format->decode(tensor.data.data(), tensor.weights(), values.data());
  return values;
}

} // namespace

bool is_reranker(const gguf::File& file) {
  const std::string key = fmt::format("{}.pooling_type", architecture_of(file));
  return (file.find(key) && file.get_int(key) == kRank) || file.find_tensor(fmt::format("{}.weight", kOutput)) ||
         answers_yes(file);
}

RankingHead::RankingHead(const gguf::File& file, const text::Tokenizer& tokenizer, int64_t width)
    : reads_last_(architecture_of(file).starts_with("qwen3")), gelu_(architecture_of(file) == "modern-bert"),
      dense_(read(file, "cls", width)), out_(read(file, kOutput, width)) {
  if (const gguf::Tensor* norm = file.find_tensor("cls.norm.weight")) {
    if (norm->weights() != width)
      throw_error("{}: {} has {} weights, expected {}", file.path(), norm->name, norm->weights(), width);
    norm_ = decoded(file, *norm);
    epsilon_ = static_cast<float>(
        file.get_float(fmt::format("{}.attention.layer_norm_epsilon", architecture_of(file)), epsilon_));
  }
  if (!out_.is_there() && dense_.is_there() && dense_.weights.size() == static_cast<size_t>(width))
    out_ = std::exchange(dense_, {});
  if (!out_.is_there()) take_words(file, tokenizer, width);
  if (dense_.is_there() && dense_.weights.size() != static_cast<size_t>(width * width))
    throw_error("{}: cls.weight has {} outputs, expected {}", file.path(), dense_.weights.size() / width, width);
  const size_t outputs = out_.weights.size() / static_cast<size_t>(width);
  if (outputs != 1 && !(outputs == 2 && reads_last_))
    throw_error("{}: {} has {} outputs: this is a classifier, not a reranker with one score, or yes and no",
                file.path(), kOutput, outputs);
}

RankingHead::Linear RankingHead::read(const gguf::File& file, const std::string& name, int64_t inputs) {
  const gguf::Tensor* weights = file.find_tensor(name + ".weight");
  if (!weights) return {};
  if (weights->dims[0] != inputs || weights->n_dims > 2)
    throw_error("{}: {} takes rows of {}, but the model has rows of {}", file.path(), weights->name, weights->dims[0],
                inputs);
  Linear linear{decoded(file, *weights), {}, inputs};
  if (const gguf::Tensor* bias = file.find_tensor(name + ".bias")) {
    linear.bias = decoded(file, *bias);
    if (linear.bias.size() * static_cast<size_t>(inputs) != linear.weights.size())
      throw_error("{}: {} has {} weights, but not one per output", file.path(), bias->name, linear.bias.size());
  }
  return linear;
}

void RankingHead::take_words(const gguf::File& file, const text::Tokenizer& tokenizer, int64_t width) {
  const gguf::Tensor* matrix = file.find_tensor("output.weight");
  if (!matrix) matrix = file.find_tensor("token_embd.weight");
  const quant::FormatInfo* format = matrix ? matrix->type.format() : nullptr;
  if (!answers_yes(file) || !format || matrix->dims[0] != width)
    throw_error("{}: no classification head (cls.output.weight): not a reranker", file.path());
  out_.inputs = width;
  for (const char* word : {"yes", "no"}) {
    const int32_t token = tokenizer.find(word);
    if (token < 0 || token >= matrix->dims[1]) throw_error("{}: its vocabulary has no token \"{}\"", file.path(), word);
    out_.weights.resize(out_.weights.size() + static_cast<size_t>(width));
    format->decode(matrix->data.data() + token * format->row_bytes(width), width,
                   out_.weights.data() + out_.weights.size() - width);
  }
}

std::vector<float> RankingHead::Linear::apply(std::span<const float> row) const {
  std::vector<float> result(weights.size() / static_cast<size_t>(inputs));
  for (size_t i = 0; i < result.size(); ++i) {
    const auto first = weights.begin() + static_cast<std::ptrdiff_t>(i) * inputs;
    result[i] = static_cast<float>(std::inner_product(row.begin(), row.end(), first, bias.empty() ? 0.0 : bias[i]));
  }
  return result;
}

float RankingHead::logit(std::span<const float> row) const {
  std::vector<float> values(row.begin(), row.end());
  if (dense_.is_there()) {
    values = dense_.apply(values);
    for (float& x : values) x = gelu_ ? 0.5f * x * (1 + std::erf(x * static_cast<float>(M_SQRT1_2))) : std::tanh(x);
    if (!norm_.empty()) {
      const auto count = static_cast<double>(values.size());
      const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
      double squares = 0;
      for (const float x : values) squares += (x - mean) * (x - mean);
      const double scale = 1 / std::sqrt(squares / count + epsilon_);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((values[i] - mean) * scale) * norm_[i];
    }
  }
  const std::vector<float> outputs = out_.apply(values);
  return outputs.size() == 1 ? outputs[0] : outputs[0] - outputs[1];
}

} // namespace ridge::engine
