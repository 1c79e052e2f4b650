#include "core/executor.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace ridge::core {
namespace {

void check_range(std::string_view what, int64_t value, int64_t lowest) {
  constexpr int64_t kHighest = std::numeric_limits<int32_t>::max();
  if (value < lowest || value > kHighest) throw_error("{} of {}, expected {} to {}", what, value, lowest, kHighest);
}

void check_heads(KvType type, int64_t dim, const char* what, const char* flag) {
  if (has_blocks(type) && dim % kKvBlock != 0)
    throw_error("a {} cache of {} takes heads of a multiple of {} elements, this model's have {}; use {} f16",
                format_of(type).name, what, kKvBlock, dim, flag);
}

void check_sizes(const Program& program, const ExecutorConfig& config, const Batch& batch) {
  const auto tokens = std::ssize(batch.tokens), outputs = std::ssize(batch.outputs);
  if (tokens < 1 || tokens > config.max_batch)
    throw_error("a batch of {} tokens, expected 1 to {}", tokens, config.max_batch);
  if (std::ssize(batch.positions) != tokens || (!batch.streams.empty() && std::ssize(batch.streams) != tokens))
    throw_error("a batch of {} tokens with {} positions and {} streams", tokens, batch.positions.size(),
                batch.streams.size());
  if (outputs > config.max_outputs)
    throw_error("{} outputs of a batch are wanted, expected at most {}", outputs, config.max_outputs);
  int64_t elements = 0;
  if (program.input >= 0 && !batch.input_taken) {
    const ValueInfo& input = program.values[program.input];
    elements = input.width * (input.gathered ? outputs : tokens);
  }
  if (std::ssize(batch.input) != elements)
    throw_error("a batch with {} elements of input, expected {}", batch.input.size(), elements);
}

void check_places(const Program& program, const ExecutorConfig& config, const Batch& batch) {
  const auto tokens = std::ssize(batch.tokens), rows = std::ssize(batch.rows);
  if (!program.has_token_coordinates && !(batch.axes.empty() && batch.block_ends.empty()))
    throw_error("a batch with places of tokens, which this model does not know");
  if (program.row_width > 0 ? rows % program.row_width != 0 : rows > 0)
    throw_error("a batch with rows of {} elements, expected {} in each", rows, program.row_width);
  if (!batch.axes.empty() && std::ssize(batch.axes) != tokens * kPlaceAxes)
    throw_error("a batch of {} tokens with {} places", tokens, batch.axes.size());
  if (!batch.block_ends.empty() && std::ssize(batch.block_ends) != tokens)
    throw_error("a batch of {} tokens with {} ends of blocks", tokens, batch.block_ends.size());
  for (const int32_t end : batch.block_ends)
    if (end < 0 || end > config.context) throw_error("a block that ends at {}, outside the context", end);
}

void check_whole_texts(const ExecutorConfig& config, const Batch& batch) {
  std::vector<int32_t> next(static_cast<size_t>(config.streams), 0);
  for (size_t i = 0; i < batch.tokens.size(); ++i)
    if (batch.positions[i] != next[batch.streams.empty() ? 0 : batch.streams[i]]++)
      throw_error("tokens of this model see later ones: a batch holds whole texts, from position 0 on");
}

} // namespace

bool rope_uses_picture_axis(const Program& program) {
  return std::ranges::any_of(program.rope_tables, [](const RopeTable& table) {
    for (size_t pair = 0; pair < table.axes.size(); ++pair)
      if (table.axes[pair] == kPlaceAxes - 1 && table.inverse_frequency[pair] != 0) return true;
    return false;
  });
}

bool amplifies_errors(const Program& program) {
  constexpr double kSharp = 4; // times the usual scale
  return !program.states.empty() || std::ranges::any_of(program.ops, [&](const Op& op) {
    if (op.kind == OpKind::route || op.kind == OpKind::index_choice) return true;
    const auto* attention = std::get_if<AttentionParams>(&op.params);
    return attention &&
           attention->scale * std::sqrt(static_cast<double>(program.kv_layers[attention->layer].k_dim)) >= kSharp;
  });
}

int64_t block_positions(const Program& program) {
  constexpr int64_t kTile = 32; // entries
  int64_t span = 1;
  for (const KvLayer& layer : program.kv_layers) span = std::lcm(span, layer.span);
  return kTile * span;
}

void check_cache_types(const Program& program, const ExecutorConfig& config) {
  for (const KvLayer& kv : program.kv_layers) {
    check_heads(config.k_type, kv.k_dim, "keys", "-ctk");
    if (kv.latent) // values are parts of keys
      check_heads(config.k_type, kv.v_dim, "latent keys", "-ctk");
    else
      check_heads(config.v_type, kv.v_dim, "values", "-ctv");
  }
}

void check_config(const Program& program, const ExecutorConfig& config) {
  check_range("a context", config.context, 1);
  check_range("a number of streams", config.streams, 1);
  check_range("a largest batch", config.max_batch, 1);
  check_range("a largest number of outputs", config.max_outputs, 0);
  check_range("a number of threads", config.threads, 0);
  check_range("a number of tokens to go back", config.rewind_tokens, 0);
  for (const Op& op : program.ops)
    if (op.kind == OpKind::embed && std::get<EmbedParams>(op.params).of_positions)
      if (const int64_t rows = program.weights[op.weights[0]].rows; config.context > rows)
        throw_error("a context of {} tokens, but the model has learned {} positions; lower it with -c", config.context,
                    rows);
  check_cache_types(program, config);
}

void check_batch(const Program& program, const ExecutorConfig& config, const Batch& batch) {
  check_sizes(program, config, batch);
  check_places(program, config, batch);
  const int64_t rows = program.row_width > 0 ? std::ssize(batch.rows) / program.row_width : 0;
  for (const int32_t token : batch.tokens)
    if (token < -rows || token >= program.vocab)
      throw_error("token id {} is outside this model's vocabulary of {}", token, program.vocab);
  for (const int32_t position : batch.positions)
    if (position < 0 || position >= config.context)
      throw_error("position {} is outside the context of {} tokens; raise it with -c", position, config.context);
  for (const int32_t stream : batch.streams)
    if (stream < 0 || stream >= config.streams)
      throw_error("stream {} of a batch, expected 0 to {}", stream, config.streams - 1);
  if (sees_ahead(program)) check_whole_texts(config, batch);
  for (const int32_t output : batch.outputs)
    if (output < 0 || output >= std::ssize(batch.tokens))
      throw_error("output {} of a batch of {} tokens", output, batch.tokens.size());
}

void check_adapters(const Program& program, const ExecutorConfig& config, int32_t stream,
                    std::span<const AdapterUse> uses) {
  if (stream < 0 || stream >= config.streams || uses.size() != program.adapters.size())
    throw_error("{} adapters for stream {}, expected {} for one of {} streams", uses.size(), stream,
                program.adapters.size(), config.streams);
}

std::vector<int32_t> Executor::continue_greedily(const Batch& batch, Sampler& greedy, int64_t count) {
  const int32_t output = 0, stream = batch.streams.empty() ? 0 : batch.streams.back();
  std::vector<int32_t> chosen;
  std::vector<float> row;
  std::vector<int32_t> axes(batch.axes.end() - (batch.axes.empty() ? 0 : kPlaceAxes), batch.axes.end());
  forward(batch);
  for (int32_t position = batch.positions.back() + 1;; ++position) {
    try {
      chosen.push_back(greedy.sample(logits(0)));
    } catch (const Error&) { // unusable logits
      chosen.push_back(-1);
    }
    if (std::ssize(chosen) == count || chosen.back() < 0) return chosen;
    Batch next{{&chosen.back(), 1}, {&position, 1}, {&stream, 1}, {&output, 1}};
    for (size_t axis = 0; axis + 1 < axes.size(); ++axis) ++axes[axis]; // but for the picture's
    next.axes = axes;
    if (!batch.input.empty()) {
      const std::span<const float> rows = hidden();
      row.assign(rows.end() - std::ssize(batch.input) / std::ssize(batch.tokens), rows.end());
      next.input = row;
    }
    forward(next);
  }
}

namespace {

std::shared_ptr<float> plain_memory(int64_t floats) {
  const auto memory = std::make_shared_for_overwrite<float[]>(floats);
  return {memory, memory.get()};
}

} // namespace

std::shared_ptr<const float> Executor::copy_result_rows(int64_t count) {
  const std::span<const float> row = logits(0);
  const std::shared_ptr<float> rows = plain_memory(std::ssize(row) * count);
  std::copy_n(row.data(), row.size() * count, rows.get());
  return rows;
}

std::shared_ptr<float> Executor::make_input(int64_t floats) { return plain_memory(floats); }

std::shared_ptr<float> Executor::make_state() { return plain_memory(saved_floats()); }

std::shared_ptr<std::byte> Executor::make_block() {
  const auto bytes = std::make_shared<std::vector<std::byte>>(block_bytes());
  return {bytes, bytes->data()};
}

double Executor::time_decode(int64_t position, int64_t streams, int repetitions) {
  const std::vector<int32_t> tokens(streams), positions(streams, static_cast<int32_t>(position));
  std::vector<int32_t> every_stream(streams);
  std::iota(every_stream.begin(), every_stream.end(), 0);
  const Batch batch{tokens, positions, every_stream, every_stream};
  const auto step = [&] {
    for (const int32_t stream : every_stream) load_state(stream, {}, position);
    forward(batch);
  };
  step();
  return median_seconds(repetitions, step);
}

void Executor::unsupported(std::string_view what) const {
  throw std::logic_error(fmt::format("{}: no {}", description(), what));
}

} // namespace ridge::core
