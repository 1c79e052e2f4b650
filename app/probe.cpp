#include "app/probe.h"

#include "core/error.h"
#include "kernels/cpu/executor.h"
#include "kernels/cuda/executor.h"
#include "quant/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <numeric>

namespace ridge::app {
namespace {

using core::OpKind;
using core::ValueId;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A Program under construction, with the memory of its weights.
class Probe {
 public:
  core::Program program;

  // One row per token, from a table of `vocab` rows.
  ValueId embed(int64_t width, int64_t vocab) {
    program.vocab = vocab;
    return op(OpKind::embed, {}, {weight(quant::Type::Q4_0, width, vocab)}, width);
  }
  ValueId linear(ValueId x, quant::Type type, int64_t rows) {
    return op(OpKind::linear, {x}, {weight(type, program.values[x].width, rows)}, rows);
  }
  ValueId norm(ValueId x) {
    const int64_t width = program.values[x].width;
    const core::WeightId id = weight(quant::Type::F32, width, 1);
    return op(OpKind::rms_norm, {x}, {id}, width, core::NormParams{1e-5f, width});
  }
  ValueId op(OpKind kind, std::vector<ValueId> inputs, std::vector<core::WeightId> weights, int64_t width,
             core::OpParams params = {}) {
    const bool gathered = kind == OpKind::gather;
    std::vector<ValueId> outputs;
    if (width > 0) {
      outputs.push_back(static_cast<ValueId>(program.values.size()));
      program.values.push_back({fmt::format("v{}", outputs[0]), width, core::ValueKind::f32, gathered});
    }
    program.ops.push_back(
        {kind, 0, std::string(name_of(kind)), std::move(inputs), outputs, std::move(weights), params});
    return outputs.empty() ? -1 : outputs[0];
  }
  void finish(ValueId x) { program.logits = op(OpKind::gather, {x}, {}, program.values[x].width); }

 private:
  core::WeightId weight(quant::Type type, int64_t cols, int64_t rows) {
    const quant::FormatInfo& format = quant::format(type);
    const int64_t row_bytes = cols / format.block_weights * format.block_bytes;
    const auto twin = std::ranges::find_if(program.weights, [&](const core::Weight& w) {
      return w.type == static_cast<uint32_t>(type) && w.cols == cols && w.rows == rows;
    });
    memory_.push_back(twin == program.weights.end() ? models::random_weights(type, rows * cols)
                                                    : std::vector(twin->data, twin->data + twin->total_bytes()));
    const auto id = static_cast<core::WeightId>(program.weights.size());
    program.weights.push_back(
        {fmt::format("w{}", id), static_cast<uint32_t>(type), cols, rows, 1, row_bytes, memory_.back().data()});
    return id;
  }
  std::deque<std::vector<std::byte>> memory_;
};

std::unique_ptr<core::Executor> make_executor(const core::Program& program, const core::ExecutorConfig& config,
                                              Device device) {
  if (device == Device::cuda) return kernels::cuda::make_cuda_executor(program, config);
  return kernels::cpu::make_cpu_executor(program, config);
}

// Runs `tokens` tokens from `position` on, logits of the last.
void forward(core::Executor& executor, int64_t vocab, int64_t tokens, int64_t position) {
  std::vector<int32_t> ids(tokens), positions(tokens);
  for (int64_t i = 0; i < tokens; ++i) ids[i] = static_cast<int32_t>((position + i) * 7919 % vocab);
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position));
  const auto last = static_cast<int32_t>(tokens - 1);
  executor.forward({ids, positions, {}, {&last, 1}});
}

// Fills the cache up to `depth`.
void fill(core::Executor& executor, int64_t vocab, int64_t depth) {
  const int64_t batch = executor.config().max_batch;
  for (int64_t at = 0; at < depth; at += batch) forward(executor, vocab, std::min(batch, depth - at), at);
}

// Median seconds of a step of `tokens` tokens from `position` on.
double time_step(core::Executor& executor, int64_t vocab, int64_t tokens, int64_t position) {
  if (auto* cuda = dynamic_cast<kernels::cuda::CudaExecutor*>(&executor); cuda && tokens == 1)
    return cuda->time_decode(position, 1, 31);
  forward(executor, vocab, tokens, position);
  std::vector<double> seconds(5);
  for (double& s : seconds) {
    const double start = now();
    forward(executor, vocab, tokens, position);
    s = now() - start;
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

core::ExecutorConfig config_for(const ProbeOptions& options, int64_t context, int64_t batch) {
  core::ExecutorConfig config;
  config.context = context;
  config.max_batch = batch;
  config.max_outputs = 1;
  config.threads = options.threads;
  return config;
}

core::Cost cost_of(const core::Program& program, int64_t tokens, int64_t position) {
  return core::program_cost(program, {tokens, position, 1, 1, 2, 2}); // the cache is f16
}

// Times and costs of a Program less those of the one without what is measured.
class Difference {
 public:
  Difference(const Probe& with, const Probe& without, const ProbeOptions& options, int64_t context, int64_t batch)
      : with_(with.program), without_(without.program),
        executor_(make_executor(with_, config_for(options, context, batch), options.device)),
        base_(make_executor(without_, config_for(options, context, batch), options.device)) {}

  void fill_cache(int64_t depth) { fill(*executor_, with_.vocab, depth); }
  Placement place(std::string group, std::string name, int64_t steps, int64_t tokens, int64_t position) {
    const core::Cost all = cost_of(with_, tokens, position), base = cost_of(without_, tokens, position);
    Placement p{std::move(group), std::move(name), steps};
    p.seconds = std::max(time_step(*executor_, with_.vocab, tokens, position) -
                             time_step(*base_, without_.vocab, tokens, position),
                         1e-9);
    p.bytes = all.bytes() - base.bytes();
    p.flops = all.flops - base.flops;
    return p;
  }

 private:
  const core::Program &with_, &without_;
  std::unique_ptr<core::Executor> executor_, base_;
};

Probe plain(int64_t width) {
  Probe probe;
  probe.finish(probe.embed(width, width));
  return probe;
}

// Two products there and back, as often as the caches need.
std::vector<Placement> place_products(quant::Type type, int64_t width, int64_t inner, const ProbeOptions& options) {
  const quant::FormatInfo& format = quant::format(type);
  if (width % format.block_weights || inner % format.block_weights) return {};
  const double pair_bytes = 2.0 * static_cast<double>(width * inner / format.block_weights * format.block_bytes);
  const int64_t pairs = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(options.cache_bytes / pair_bytes)), 1, 64);
  Probe probe;
  ValueId x = probe.embed(width, width);
  for (int64_t i = 0; i < pairs; ++i) x = probe.linear(probe.linear(x, type, inner), type, width);
  probe.finish(x);
  const Probe base = plain(width);
  Difference difference(probe, base, options, options.prompt, options.prompt);
  const std::string name = fmt::format("{} {}-{}-{}", format.name, width, inner, width);
  std::vector<Placement> placed = {difference.place("matvec", name, 2 * pairs, 1, 0)};
  if (inner != width)
    placed.push_back(
        difference.place("product", fmt::format("{} x{}", name, options.prompt), 2 * pairs, options.prompt, 0));
  return placed;
}

Placement place_attention(const models::Shape& s, int64_t depth, const ProbeOptions& options) {
  const int64_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
  const double layer_bytes = 4.0 * static_cast<double>(kv_width * depth);
  const int64_t layers = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(options.cache_bytes / layer_bytes)), 2, 32);
  Probe probes[2];
  for (int with = 0; with < 2; ++with) {
    Probe& p = probes[with];
    ValueId q = p.embed(q_width, q_width);
    const ValueId k = p.embed(kv_width, q_width), v = p.embed(kv_width, q_width);
    for (int32_t layer = 0; layer < (with ? layers : 0); ++layer) {
      p.program.kv_layers.push_back({s.kv_heads, s.head_dim, s.head_dim});
      p.op(OpKind::kv_store, {k, v}, {}, 0, core::KvParams{layer});
      q = p.op(OpKind::attention, {q}, {}, q_width,
               core::AttentionParams{layer, s.heads, 1 / std::sqrt(static_cast<float>(s.head_dim))});
    }
    p.finish(q);
  }
  Difference difference(probes[1], probes[0], options, depth + 1, std::min<int64_t>(depth, 512));
  difference.fill_cache(depth);
  return difference.place("attention",
                          fmt::format("{}/{} heads of {}, depth {}", s.heads, s.kv_heads, s.head_dim, depth),
                          2 * layers, 1, depth);
}

std::vector<Placement> place_vectors(int64_t width, const ProbeOptions& options) {
  constexpr int64_t kSteps = 32;
  const struct {
    const char* name;
    ValueId (*add)(Probe&, ValueId x, ValueId other);
  } kinds[] = {
      {"rms_norm", [](Probe& p, ValueId x, ValueId) { return p.norm(x); }},
      {"add",
       [](Probe& p, ValueId x, ValueId y) {
         return p.op(OpKind::add, {x, y}, {}, p.program.values[x].width);
       }},
      {"swiglu",
       [](Probe& p, ValueId x, ValueId y) {
         return p.op(OpKind::swiglu, {x, y}, {}, p.program.values[x].width);
       }},
  };
  std::vector<Placement> placed;
  for (const auto& kind : kinds) {
    Probe probe;
    const ValueId first = probe.embed(width, width);
    ValueId x = first;
    for (int64_t i = 0; i < kSteps; ++i) x = kind.add(probe, x, first);
    probe.finish(x);
    const Probe base = plain(width);
    Difference difference(probe, base, options, options.prompt, options.prompt);
    for (const int64_t tokens : {int64_t{1}, options.prompt})
      placed.push_back(
          difference.place("vector", fmt::format("{} {} x{}", kind.name, width, tokens), kSteps, tokens, 0));
  }
  return placed;
}

} // namespace

std::vector<Placement> probe_kernels(const models::Shape& shape, const ProbeOptions& options) {
  std::vector<Placement> placed;
  const auto append = [&](std::vector<Placement> more) { std::ranges::move(more, std::back_inserter(placed)); };
  const auto formats = quant::formats();
  const auto total = static_cast<int64_t>(formats.size() + options.depths.size() + 1);
  int64_t done = 0;
  for (const quant::FormatInfo& format : formats) {
    options.progress(done++, total);
    if (shape.heads * shape.head_dim == shape.width)
      append(place_products(format.type, shape.width, shape.width, options));
    append(place_products(format.type, shape.width, shape.ffn_width, options));
  }
  for (const int64_t depth : options.depths) {
    options.progress(done++, total);
    if (depth > 0) placed.push_back(place_attention(shape, depth, options));
  }
  options.progress(done++, total);
  append(place_vectors(shape.width, options));
  return placed;
}

std::vector<Placement> probe_model(LoadedModel& model, const ProbeOptions& options) {
  const int64_t deepest = std::ranges::max(options.depths);
  model.executor = make_executor(
      model.program, config_for(options, std::max(deepest + 1, options.prompt), options.prompt), options.device);
  std::vector<Placement> placed;
  const auto place = [&](std::string name, int64_t tokens, int64_t position) {
    const core::Cost cost = cost_of(model.program, tokens, position);
    placed.push_back({"model", std::move(name), std::ssize(model.program.ops),
                      time_step(*model.executor, model.program.vocab, tokens, position), cost.bytes(), cost.flops});
  };
  for (const int64_t depth : options.depths) {
    fill(*model.executor, model.program.vocab, depth);
    place(depth > 0 ? fmt::format("decode @ d{}", depth) : "decode", 1, depth);
  }
  place(fmt::format("prompt of {}", options.prompt), options.prompt, 0);
  return placed;
}

} // namespace ridge::app
