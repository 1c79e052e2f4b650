#include "engine/embedder.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "engine/options.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace ridge::engine {

bool is_embedding_model(const gguf::File& file, const core::Program& program) {
  return program.embeds || file.find(program.architecture + ".pooling_type");
}

Embedder::Embedder(LoadedModel model, const api::ModelOptions& where, const Options& options, const LoadSteps& steps)
    : model_(std::move(model)) {
  const core::Program& program = model_.program;
  const bool whole = core::sees_ahead(program); // bidirectional attention needs whole texts
  const std::optional<Pooling> own = options.pooling.empty() ? pooling_of_file(model_.file) : std::nullopt;
  pooling_ = !options.pooling.empty() ? pooling_of_name(options.pooling)
             : own                    ? *own
             : whole                  ? Pooling::mean
                                      : Pooling::last;
  core::ExecutorConfig config = executor_config(where, program.trained_context);
  if (options.tokens > 0 && where.context < 0) config.context = options.tokens;
  if (whole) config.max_batch = config.context;
  const bool all = pooling_ == Pooling::mean || pooling_ == Pooling::none;
  config.max_outputs = all ? config.max_batch : 1;
  config.exact = options.exact;
  if (options.exact) config.k_type = config.v_type = core::KvType::f32;
  start_executor(model_, config, where.device, placement_of(where), steps);
}

std::vector<int32_t> Embedder::tokens_of(std::string_view text, bool truncate) const {
  const text::Tokenizer& tokenizer = model_.need_tokenizer();
  std::vector<int32_t> tokens = tokenizer.encode(text, {.add_special = true, .parse_special = true});
  const int64_t count = std::ssize(tokens);
  if (count <= context()) return tokens;
  if (!truncate)
    throw_error("the text has {} tokens, but the context holds {}: raise -c, or truncate the text", count, context());
  const int32_t end = tokens.back();
  tokens.resize(context());
  if (tokenizer.add_eos()) tokens.back() = end;
  return tokens;
}

std::vector<float> Embedder::hidden_states(std::span<const int32_t> tokens, std::span<const float> given) {
  const core::ExecutorConfig& config = model_.executor->config();
  const int64_t count = std::ssize(tokens);
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<float> rows;
  for (int64_t at = 0; at < count; at += config.max_batch) {
    const int64_t now = std::min(config.max_batch, count - at);
    std::vector<int32_t> outputs;
    if (pooling_ == Pooling::cls) {
      if (at == 0) outputs = {0};
    } else if (pooling_ == Pooling::last) {
      if (at + now == count) outputs = {static_cast<int32_t>(now - 1)};
    } else {
      outputs.assign(positions.begin(), positions.begin() + now);
    }
    model_.executor->forward({.tokens = tokens.subspan(at, now),
                              .positions = std::span(positions).subspan(at, now),
                              .outputs = outputs,
                              .rows = given});
    for (int64_t i = 0; i < std::ssize(outputs); ++i) {
      const std::span<const float> row = model_.executor->logits(i);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    if (pooling_ == Pooling::cls) break;
  }
  return rows;
}

std::vector<float> Embedder::embed(std::span<const int32_t> tokens, bool normalized, std::span<const float> rows) {
  if (tokens.empty()) throw_error("a text without tokens has no embedding");
  if (std::ssize(tokens) > context())
    throw_error("{} tokens, but the context holds {}: raise -c, or truncate the text", tokens.size(), context());
  const std::scoped_lock lock(mutex_);
  std::vector<float> vector = pooled(hidden_states(tokens, rows), width(), pooling_);
  model_.file.check();
  if (normalized && pooling_ != Pooling::none) normalize(vector);
  return vector;
}

Pooling pooling_of_name(std::string_view name) {
  if (name == "none") return Pooling::none;
  if (name == "mean") return Pooling::mean;
  if (name == "cls") return Pooling::cls;
  if (name == "last") return Pooling::last;
  throw Error(fmt::format("unknown pooling '{}', expected mean, cls, last or none", core::printable(name)),
              Error::kUsage);
}

std::optional<Pooling> pooling_of_file(const gguf::File& file) {
  const std::string key = std::string(file.get_string("general.architecture", "")) + ".pooling_type";
  if (!file.find(key)) return std::nullopt;
  switch (const int64_t type = file.get_int(key)) {
  case 0: return Pooling::none;
  case 1: return Pooling::mean;
  case 2: return Pooling::cls;
  case 3: return Pooling::last;
  case 4:
    throw_error("{}: {} is 4: this is a reranker, with scores but no embeddings; --pooling cls returns the vector "
                "behind its score",
                file.path(), key);
  default: throw_error("{}: {} is {}, expected 0 to 4", file.path(), key, type);
  }
}

std::vector<float> pooled(std::span<const float> rows, int64_t width, Pooling pooling) {
  const auto columns = static_cast<size_t>(width);
  const auto vector_of = [](std::span<const float> row) { return std::vector<float>(row.begin(), row.end()); };
  switch (pooling) {
  case Pooling::none: return vector_of(rows);
  case Pooling::cls: return vector_of(rows.first(columns));
  case Pooling::last: return vector_of(rows.last(columns));
  case Pooling::mean: break;
  }
  std::vector<double> sums(columns);
  for (size_t i = 0; i < rows.size(); ++i) sums[i % columns] += rows[i];
  std::vector<float> mean(columns);
  for (size_t i = 0; i < columns; ++i)
    mean[i] = static_cast<float>(sums[i] * static_cast<double>(width) / static_cast<double>(rows.size()));
  return mean;
}

void normalize(std::span<float> vector) {
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * x;
  if (squares == 0) return;
  const double length = std::sqrt(squares);
  for (float& x : vector) x = static_cast<float>(x / length);
}

} // namespace ridge::engine
