#include "measure/probe.h"

#include "core/clock.h"
#include "core/error.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/executor/executor.h"
#include "quant/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <span>

namespace ridge::measure {
namespace {

using core::OpKind;
using core::ValueId;

class ProgramBuilder {
 public:
  core::Program program;

  ValueId embed(int64_t width, int64_t vocab) {
    program.vocab = vocab;
    return op(OpKind::embed, {}, {weight(quant::Type::Q4_0, width, vocab)}, width, core::EmbedParams{});
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
        {kind, 0, std::string(core::name_of(kind)), std::move(inputs), outputs, std::move(weights), params});
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
                                              engine::Device device) {
  if (device == engine::Device::cuda) return kernels::cuda::make_cuda_executor(program, config);
  return kernels::cpu::make_cpu_executor(program, config);
}

void forward(core::Executor& executor, int64_t vocab, int64_t tokens, int64_t position) {
  std::vector<int32_t> ids(tokens), positions(tokens);
  for (int64_t i = 0; i < tokens; ++i) ids[i] = static_cast<int32_t>((position + i) * 7919 % vocab);
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position));
  const auto last = static_cast<int32_t>(tokens - 1);
  executor.load_state(0, {}, position);
  executor.forward({ids, positions, {}, {&last, 1}});
}

void fill(core::Executor& executor, int64_t vocab, int64_t depth) {
  const int64_t batch = executor.config().max_batch;
  for (int64_t at = 0; at < depth; at += batch) forward(executor, vocab, std::min(batch, depth - at), at);
}

double time_step(core::Executor& executor, int64_t vocab, int64_t tokens, int64_t position, int decode_repetitions) {
  if (tokens == 1) return executor.time_decode(position, 1, decode_repetitions);
  forward(executor, vocab, tokens, position); // warm-up
  return core::median_seconds(5, [&] { forward(executor, vocab, tokens, position); });
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
  return core::program_cost(program, {tokens, position, 1, 1, 2, 2});
}

class TimedProgram {
 public:
  TimedProgram(const ProgramBuilder& probe, const ProbeOptions& options, int64_t context, int64_t batch)
      : program_(probe.program), decode_repetitions_(options.decode_repetitions),
        executor_(make_executor(program_, config_for(options, context, batch), options.device)) {}

  void fill_cache(int64_t depth) { fill(*executor_, program_.vocab, depth); }
  double seconds(int64_t tokens, int64_t position) {
    return time_step(*executor_, program_.vocab, tokens, position, decode_repetitions_);
  }
  core::Cost cost(int64_t tokens, int64_t position) const { return cost_of(program_, tokens, position); }

 private:
  const core::Program& program_;
  const int decode_repetitions_;
  std::unique_ptr<core::Executor> executor_;
};

// Without the measured ops.
struct Baseline {
  double seconds;
  core::Cost cost;
};

Baseline time_base(TimedProgram& timed, int64_t tokens, int64_t position = 0) {
  return {timed.seconds(tokens, position), timed.cost(tokens, position)};
}

RooflinePoint measure_point(std::string group, std::string name, int64_t steps, TimedProgram& timed,
                            const Baseline& base, int64_t tokens, int64_t position = 0) {
  RooflinePoint p{std::move(group), std::move(name), steps};
  p.seconds = timed.seconds(tokens, position) - base.seconds;
  const core::Cost all = timed.cost(tokens, position);
  p.bytes = all.bytes() - base.cost.bytes();
  p.flops = all.flops - base.cost.flops;
  return p;
}

class KernelProbes {
 public:
  explicit KernelProbes(const ProbeOptions& options) : options_(options) {}

  // Alternates products width -> inner -> width, beyond cache size.
  std::vector<RooflinePoint> products(quant::Type type, int64_t width, int64_t inner) {
    const quant::FormatInfo& format = quant::format(type);
    if (width % format.block_weights || inner % format.block_weights || kNarrow % format.block_weights) return {};
    const double pair_bytes = 2.0 * static_cast<double>(width * inner / format.block_weights * format.block_bytes);
    const auto pairs = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(options_.cache_bytes / pair_bytes)), 1, 64);
    const ProgramBuilder probe = chain(type, width, inner, pairs);
    TimedProgram timed(probe, options_, options_.prompt, options_.prompt);
    const std::string name = fmt::format("{} {}-{}-{}", format.name, width, inner, width);
    std::vector<RooflinePoint> points = {measure_point("matvec", name, 2 * pairs, timed, plain(width, 1), 1)};
    points[0].start_seconds = static_cast<double>(2 * pairs) * launch_seconds(type, width);
    if (inner != width)
      points.push_back(measure_point("product", fmt::format("{} x{}", name, options_.prompt), 2 * pairs, timed,
                                     plain(width, options_.prompt), options_.prompt));
    for (RooflinePoint& p : points) p.format = format.name;
    return points;
  }

  RooflinePoint attention(const models::Shape& s, int64_t depth) {
    const int64_t kv_width = s.kv_heads * s.head_dim;
    const double layer_bytes = 4.0 * static_cast<double>(kv_width * depth);
    const auto layers = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(options_.cache_bytes / layer_bytes)), 2, 32);
    const ProgramBuilder probe = attention_layers(s, layers), none = attention_layers(s, 0);
    const int64_t batch = std::min<int64_t>(depth, 512);
    TimedProgram timed(probe, options_, depth + 1, batch), without(none, options_, depth + 1, batch);
    const std::string name = fmt::format("{}/{} heads of {}, depth {}", s.heads, s.kv_heads, s.head_dim, depth);
    const double start = timed.seconds(1, 0) - without.seconds(1, 0);
    timed.fill_cache(depth);
    RooflinePoint p = measure_point("attention", name, 2 * layers, timed, time_base(without, 1, depth), 1, depth);
    p.start_seconds = std::max(start, 0.0);
    return p;
  }

  std::vector<RooflinePoint> vectors(int64_t width) {
    std::vector<RooflinePoint> points;
    for (const VectorKind& kind : kVectorKinds) {
      const ProgramBuilder probe = repeated(kind, width), narrow = repeated(kind, kNarrow);
      TimedProgram timed(probe, options_, options_.prompt, options_.prompt), narrow_timed(narrow, options_, 1, 1);
      const double start = std::max(narrow_timed.seconds(1, 0) - plain(kNarrow, 1).seconds, 0.0);
      for (const int64_t tokens : {int64_t{1}, options_.prompt}) {
        points.push_back(measure_point("vector", fmt::format("{} {} x{}", kind.name, width, tokens), kSteps, timed,
                                       plain(width, tokens), tokens));
        points.back().start_seconds = start;
      }
    }
    return points;
  }

 private:
  static constexpr int64_t kSteps = 32;
  static constexpr int64_t kNarrow = 256; // a whole block of every format
  struct VectorKind {
    const char* name;
    ValueId (*add)(ProgramBuilder&, ValueId x, ValueId other);
  };
  static constexpr VectorKind kVectorKinds[] = {
      {"rms_norm", [](ProgramBuilder& p, ValueId x, ValueId) { return p.norm(x); }},
      {"add",
       [](ProgramBuilder& p, ValueId x, ValueId y) {
         return p.op(OpKind::add, {x, y}, {}, p.program.values[x].width, core::AddParams{});
       }},
      {"swiglu",
       [](ProgramBuilder& p, ValueId x, ValueId y) {
         return p.op(OpKind::glu, {x, y}, {}, p.program.values[x].width,
                     core::ActivationParams{core::Activation::silu});
       }},
  };

  static ProgramBuilder chain(quant::Type type, int64_t width, int64_t inner, int64_t pairs) {
    ProgramBuilder probe;
    ValueId x = probe.embed(width, width);
    for (int64_t i = 0; i < pairs; ++i) x = probe.linear(probe.linear(x, type, inner), type, width);
    probe.finish(x);
    return probe;
  }
  static ProgramBuilder repeated(const VectorKind& kind, int64_t width) {
    ProgramBuilder probe;
    const ValueId first = probe.embed(width, width);
    ValueId x = first;
    for (int64_t i = 0; i < kSteps; ++i) x = kind.add(probe, x, first);
    probe.finish(x);
    return probe;
  }
  static ProgramBuilder attention_layers(const models::Shape& s, int64_t layers) {
    const int64_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
    ProgramBuilder p;
    ValueId q = p.embed(q_width, q_width);
    const ValueId k = p.embed(kv_width, q_width), v = p.embed(kv_width, q_width);
    for (int32_t layer = 0; layer < layers; ++layer) {
      p.program.kv_layers.push_back({s.kv_heads, s.head_dim, s.head_dim});
      p.op(OpKind::kv_store, {k, v}, {}, 0, core::KvParams{layer});
      q = p.op(OpKind::attention, {q}, {}, q_width,
               core::AttentionParams{layer, s.heads, 1 / std::sqrt(static_cast<float>(s.head_dim))});
    }
    p.finish(q);
    return p;
  }

  // Mean launch cost of products to kNarrow and back.
  double launch_seconds(quant::Type type, int64_t width) {
    const auto [found, is_new] = starts_.try_emplace({type, width});
    if (is_new) {
      const ProgramBuilder probe = chain(type, width, kNarrow, kSteps / 2);
      TimedProgram timed(probe, options_, 1, 1);
      found->second = std::max(timed.seconds(1, 0) - plain(width, 1).seconds, 0.0) / kSteps;
    }
    return found->second;
  }
  const Baseline& plain(int64_t width, int64_t tokens) {
    const auto [found, is_new] = plain_.try_emplace({width, tokens});
    if (is_new) {
      ProgramBuilder probe;
      probe.finish(probe.embed(width, width));
      TimedProgram timed(probe, options_, options_.prompt, options_.prompt);
      found->second = time_base(timed, tokens);
    }
    return found->second;
  }

  const ProbeOptions& options_;
  std::map<std::pair<quant::Type, int64_t>, double> starts_;
  std::map<std::pair<int64_t, int64_t>, Baseline> plain_;
};

// From launch costs by kind.
double start_of_step(const core::Program& program, std::span<const core::OpTime> kernels,
                     std::span<const RooflinePoint> points) {
  const auto each = [&](std::string_view group, std::string_view format) {
    const auto found = std::ranges::find_if(
        points, [&](const RooflinePoint& p) { return p.group == group && (format.empty() || p.format == format); });
    return found == points.end() ? 0 : found->start_seconds / static_cast<double>(found->steps);
  };
  double seconds = 0;
  for (const core::OpTime& kernel : kernels) {
    double of_this = each("vector", "");
    for (const int32_t i : kernel.ops) {
      const core::Op& op = program.ops[i];
      if (op.kind == OpKind::attention) of_this = each("attention", "");
      if (op.kind != OpKind::linear && op.kind != OpKind::expert_linear) continue;
      const auto type = static_cast<quant::Type>(program.weights[op.weights[0]].type);
      of_this = each("matvec", quant::format(type).name);
    }
    seconds += of_this;
  }
  return seconds;
}

} // namespace

std::vector<RooflinePoint> probe_kernels(const models::Shape& shape, const ProbeOptions& options) {
  KernelProbes probes(options);
  std::vector<RooflinePoint> points;
  const auto append = [&](std::vector<RooflinePoint> more) {
    for (RooflinePoint& p : more)
      if (p.seconds > 0) points.push_back(std::move(p)); // shorter ones are noise
  };
  const auto formats = quant::formats();
  const auto total = static_cast<int64_t>(formats.size() + options.depths.size() + 1);
  int64_t done = 0;
  for (const quant::FormatInfo& format : formats) {
    options.progress(done++, total);
    if (shape.heads * shape.head_dim == shape.width) append(probes.products(format.type, shape.width, shape.width));
    append(probes.products(format.type, shape.width, shape.ffn_width));
  }
  for (const int64_t depth : options.depths) {
    options.progress(done++, total);
    if (depth > 0) append({probes.attention(shape, depth)});
  }
  options.progress(done++, total);
  append(probes.vectors(shape.width));
  return points;
}

std::vector<RooflinePoint> probe_model(engine::LoadedModel& model, const ProbeOptions& options,
                                       std::span<const RooflinePoint> kernels) {
  const core::Program& program = model.program;
  std::vector<int64_t> depths = options.depths;
  const auto config = [&] { return config_for(options, std::max(depths.back() + 1, options.prompt), options.prompt); };
  if (options.device == engine::Device::cuda)
    while (depths.size() > 1 && !kernels::cuda::fits(program, config())) depths.pop_back();
  model.executor = make_executor(program, config(), options.device);
  const int32_t zero = 0;
  const std::vector<core::OpTime> launched = model.executor->profile({{&zero, 1}, {&zero, 1}, {}, {&zero, 1}}, 1);
  std::vector<RooflinePoint> points;
  const auto add = [&](std::string name, int64_t tokens, int64_t position) {
    const core::Cost cost = cost_of(program, tokens, position);
    points.push_back({"model", std::move(name), std::ssize(launched),
                      time_step(*model.executor, program.vocab, tokens, position, options.decode_repetitions),
                      cost.bytes(), cost.flops});
    points.back().tokens = tokens;
  };
  for (const int64_t depth : depths) {
    fill(*model.executor, program.vocab, depth);
    add(depth > 0 ? fmt::format("decode @ d{}", depth) : "decode", 1, depth);
    points.back().start_seconds = start_of_step(program, launched, kernels);
  }
  add(fmt::format("prompt of {}", options.prompt), options.prompt, 0);
  return points;
}

} // namespace ridge::measure
