// Speed of the CUDA executor with random weights:
//   ridge_cuda_bench 8b:Q4_K_M 8b:F16 -d 0,32768 -s 2,8,32 -p 512,4096 -ub 2048
//   ridge_cuda_bench heads-128:Q4_K_M heads-256:Q4_K_M -d 0,8192,32768 -p 8192 -ub 2048
// Prints upload time, decoding at depths -d with -s streams, and prompts of -p. --regret 1,8,512: all ways to multiply
// (measure/ways/regret.h). --as 75, 80, 86, 89: an older chip's way. --way NAME: a way to multiply
// (plan/candidates.cpp) where it fits. --divergence TEXT: specs are model files, whose divergence from exact mode is
// printed for prompts of 512. Bytes are op_cost's, shares of the measured read bandwidth.
#include "core/clock.h"
#include "core/files/read_file.h"
#include "core/half.h"
#include "engine/loading/loaded_model.h"
#include "kernels/cuda/executor/executor.h"
#include "measure/divergence.h"
#include "measure/ways/regret.h"
#include "quant/registry.h"

#include "support/random_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>

using namespace ridge;
using core::OpKind;
using quant::Type;

namespace {

struct ModelShape {
  int64_t layers, width, hidden, heads, kv_heads, head_dim, vocab, experts = 0, used = 0;
  int64_t rotated = 0; // of a head, in split pairs; 0: all, adjacent pairs
};
const std::map<std::string, ModelShape> kShapes = {
    {"1b", {16, 2048, 8192, 32, 8, 64, 128256}},
    {"8b", {32, 4096, 14336, 32, 8, 128, 128256}},
    {"70b", {80, 8192, 28672, 64, 8, 128, 128256}},
    {"30b-a3b", {48, 2048, 768, 32, 4, 128, 151936, 128, 8}},
    // Mostly attention, with equal cache bytes.
    {"heads-128", {16, 1024, 1024, 32, 8, 128, 1024}},
    {"heads-256", {16, 1024, 1024, 16, 4, 256, 1024, 0, 0, 64}},
    {"heads-256-6", {16, 1024, 1024, 24, 4, 256, 1024, 0, 0, 64}},
    {"heads-256-8", {16, 1024, 1024, 16, 2, 256, 1024, 0, 0, 64}},
    {"heads-96", {16, 1024, 1024, 32, 8, 96, 1024}},
};

// Weights of a format share random blocks to save memory.
class Model {
 public:
  tests::RandomProgram random{1};
  core::Program& program = random.program;

  Model(const ModelShape& s, const std::string& mix) {
    const auto more_bits = [&](int64_t i) {
      return i < s.layers / 8 || i >= 7 * s.layers / 8 || (i - s.layers / 8) % 3 == 2;
    };
    const auto type_of = [&](const std::string& role, int64_t layer) {
      if (mix == "Q4_K_M") {
        if (role == "v" || role == "down") return more_bits(layer) ? Type::Q6_K : Type::Q4_K;
        return role == "out" ? Type::Q6_K : Type::Q4_K;
      }
      const Type type = quant::find_format(mix)->type;
      return role == "out" && type != Type::F16 && type != Type::Q8_0 ? Type::Q6_K : type;
    };
    core::RopeTable table{{}, 1, s.rotated ? core::RopeStyle::split : core::RopeStyle::adjacent};
    for (int64_t i = 0; i < (s.rotated ? s.rotated : s.head_dim) / 2; ++i)
      table.inverse_frequency.push_back(
          static_cast<float>(std::pow(5e5, -2.0 * static_cast<double>(i) / static_cast<double>(s.head_dim))));
    program.rope_tables.push_back(table);
    program.vocab = s.vocab;
    core::ValueId x = random.op(OpKind::embed, {}, {matrix(type_of("embed", 0), s.width, s.vocab)}, s.width);
    const auto linear = [&](core::ValueId in, const char* role, int64_t layer, int64_t rows) {
      const core::ValueId out =
          random.op(OpKind::linear, {in}, {matrix(type_of(role, layer), program.values[in].width, rows)}, rows);
      program.ops.back().name = role;
      return out;
    };
    for (int64_t i = 0; i < s.layers; ++i) {
      program.kv_layers.push_back({s.kv_heads, s.head_dim, s.head_dim});
      core::ValueId h = random.norm(x, s.width);
      core::ValueId q = linear(h, "q", i, s.heads * s.head_dim), k = linear(h, "k", i, s.kv_heads * s.head_dim);
      const core::ValueId v = linear(h, "v", i, s.kv_heads * s.head_dim);
      q = random.op(OpKind::rope, {q}, {}, s.heads * s.head_dim, core::RopeParams{0, s.heads, s.head_dim});
      k = random.op(OpKind::rope, {k}, {}, s.kv_heads * s.head_dim, core::RopeParams{0, s.kv_heads, s.head_dim});
      random.op(OpKind::kv_store, {k, v}, {}, 0, core::KvParams{static_cast<int32_t>(i)});
      h = random.op(
          OpKind::attention, {q}, {}, s.heads * s.head_dim,
          core::AttentionParams{static_cast<int32_t>(i), s.heads, 1 / std::sqrt(static_cast<float>(s.head_dim))});
      x = random.op(OpKind::add, {x, linear(h, "o", i, s.width)}, {}, s.width);
      if (i + 1 == s.layers) x = random.op(OpKind::gather, {x}, {}, s.width);
      h = random.norm(x, s.width);
      if (s.experts) {
        x = random.op(OpKind::add, {x, experts(s, h, type_of("gate", i), type_of("down", i))}, {}, s.width);
        continue;
      }
      const core::ValueId gate = linear(h, "gate", i, s.hidden), up = linear(h, "up", i, s.hidden);
      h = random.op(OpKind::glu, {gate, up}, {}, s.hidden, core::ActivationParams{core::Activation::silu});
      x = random.op(OpKind::add, {x, linear(h, "down", i, s.width)}, {}, s.width);
    }
    program.logits = linear(random.norm(x, s.width), "out", 0, s.vocab);
    for (auto& [type, pool] : pools_) {
      const quant::FormatInfo& format = quant::format(type);
      constexpr int64_t kDistinct = 2048;
      std::vector<std::byte> blocks(kDistinct * format.block_bytes);
      for (int64_t i = 0; i < kDistinct; ++i) random.fill_block(format, blocks.data() + i * format.block_bytes);
      pool.data.resize(pool.bytes);
      const int64_t count = pool.bytes / format.block_bytes;
#pragma omp parallel for
      for (int64_t i = 0; i < count; ++i) {
        const uint64_t pick = (static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15ull) >> 53;
        std::memcpy(pool.data.data() + i * format.block_bytes, blocks.data() + pick % kDistinct * format.block_bytes,
                    format.block_bytes);
      }
      for (core::WeightId id : pool.users) program.weights[id].data = pool.data.data();
    }
    validate(program);
  }

 private:
  struct Pool {
    int64_t bytes = 0;
    std::vector<core::WeightId> users;
    std::vector<std::byte> data;
  };
  core::ValueId experts(const ModelShape& s, core::ValueId h, Type type, Type down_type) {
    const core::ValueId scores = random.op(OpKind::linear, {h}, {matrix(Type::F32, s.width, s.experts)}, s.experts);
    const bool gathered = program.values[h].gathered;
    const core::ValueId ids = random.value(s.used, gathered, core::ValueKind::i32),
                        shares = random.value(s.used, gathered);
    program.ops.push_back(
        {OpKind::route, -1, "route", {scores}, {ids, shares}, {}, core::RouteParams{s.experts, s.used, true}});
    const auto expert = [&](core::ValueId x, const char* role, Type of, int64_t cols, int64_t rows) {
      const core::ValueId out = random.op(OpKind::expert_linear, {x, ids}, {matrix(of, cols, rows, s.experts)},
                                          s.used * rows, core::ExpertParams{s.used});
      program.ops.back().name = role;
      return out;
    };
    const core::ValueId gate = expert(h, "gate_exps", type, s.width, s.hidden),
                        up = expert(h, "up_exps", type, s.width, s.hidden);
    const core::ValueId act =
        random.op(OpKind::glu, {gate, up}, {}, s.used * s.hidden, core::ActivationParams{core::Activation::silu});
    return random.op(OpKind::expert_sum, {expert(act, "down_exps", down_type, s.hidden, s.width), shares}, {}, s.width,
                     core::ExpertParams{s.used});
  }
  core::WeightId matrix(Type type, int64_t cols, int64_t rows, int64_t count = 1) {
    const core::WeightId id = random.add_weight(type, cols, rows, count, nullptr);
    Pool& pool = pools_[type];
    pool.bytes = std::max(pool.bytes, program.weights[id].total_bytes());
    pool.users.push_back(id);
    return id;
  }
  std::map<Type, Pool> pools_;
};

// Second halves of prompts are scored.
void print_divergence(const std::string& path, const std::string& text, const kernels::cuda::CudaOptions& options) {
  constexpr int64_t kPrompt = 512;
  const engine::LoadedModel model = engine::open_model(path);
  const std::vector<int32_t> tokens = model.need_tokenizer().encode(core::read_text_file(text));
  core::ExecutorConfig config;
  config.context = config.max_batch = kPrompt;
  config.max_outputs = kPrompt / 2;
  const auto fast = kernels::cuda::make_cuda_executor(model.program, config, options);
  config.exact = true;
  config.k_type = config.v_type = core::KvType::f32;
  const auto exact = kernels::cuda::make_cuda_executor(model.program, config);
  std::vector<int32_t> positions(kPrompt), outputs(kPrompt / 2);
  std::iota(positions.begin(), positions.end(), 0);
  std::iota(outputs.begin(), outputs.end(), kPrompt / 2);
  std::vector<measure::PositionScore> scores;
  for (int64_t at = 0; at + kPrompt < std::ssize(tokens); at += kPrompt) {
    for (core::Executor* executor : {fast.get(), exact.get()})
      executor->forward({std::span(tokens).subspan(at, kPrompt), positions, {}, outputs});
    for (int64_t i = 0; i < kPrompt / 2; ++i)
      scores.push_back(measure::compare(fast->logits(i), exact->logits(i), tokens[at + outputs[i] + 1]));
  }
  const measure::DivergenceReport found = measure::report(scores);
  fmt::print("{}: {} positions, PPL {:.4f} (exact {:.4f}), KLD {:.3e} ± {:.1e}, 99 % {:.2e}, same top {:.2f} %\n", path,
             found.positions, found.perplexity.value, found.reference_perplexity.value, found.divergence.value,
             found.divergence.error, found.divergence_99, 100 * found.same_top.value);
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> specs;
  std::string text;
  std::vector<int64_t> depths, streams, prompts, regrets;
  const auto numbers = [](const std::string& text) {
    std::vector<int64_t> result;
    for (size_t at = 0; at < text.size();
         at = text.find(',', at) == std::string::npos ? text.size() : text.find(',', at) + 1)
      result.push_back(std::atoll(text.c_str() + at));
    return result;
  };
  int64_t batch = 512;
  kernels::cuda::CudaOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "-d")
      depths = numbers(argv[++i]);
    else if (arg == "-s")
      streams = numbers(argv[++i]);
    else if (arg == "-p")
      prompts = numbers(argv[++i]);
    else if (arg == "--regret")
      regrets = numbers(argv[++i]);
    else if (arg == "-ub")
      batch = std::atoll(argv[++i]);
    else if (arg == "--no-overlap")
      options.overlap = false;
    else if (arg == "--no-fuse")
      options.fuse = false;
    else if (arg == "--no-hand-over")
      options.dataflow_sync = false;
    else if (arg == "--no-graphs")
      options.graphs = false;
    else if (arg == "--as")
      options.as_compute = std::atoi(argv[++i]);
    else if (arg == "--way")
      options.way = argv[++i];
    else if (arg == "--divergence")
      text = argv[++i];
    else
      specs.push_back(arg);
  }
  const auto info = kernels::cuda::device_info();
  if (!info.usable) {
    fmt::print("skipped: no CUDA device ({})\n", info.problem);
    return 0;
  }
  if (!text.empty()) {
    for (const std::string& path : specs) print_divergence(path, text, options);
    return 0;
  }
  const double roof = kernels::cuda::measure_read_bandwidth();
  fmt::print("{}: {:.1f} GB/s read\n", info.name, roof / 1e9);
  for (const std::string& spec : specs) {
    const size_t colon = spec.find(':');
    Model model(kShapes.at(spec.substr(0, colon)), spec.substr(colon + 1));
    core::ExecutorConfig config;
    const auto most = [](const std::vector<int64_t>& of) { return of.empty() ? 0 : std::ranges::max(of); };
    config.context = std::max<int64_t>({most(depths) + 512, most(prompts) + 64, 1024});
    config.streams = std::max<int64_t>(most(streams), 1);
    config.max_batch = std::max({batch, config.streams, most(regrets)});
    config.max_outputs = config.streams;
    const double start = core::seconds_now();
    const auto executor = kernels::cuda::make_cuda_executor(model.program, config, options);
    fmt::print("{:14} load {:.2f} s", spec, core::seconds_now() - start);
    const auto decode = [&](int64_t past, int64_t n) {
      const double seconds = executor->time_decode(past, n, 50);
      const double bytes = core::program_cost(model.program, {n, past, n, n, 2, 2}).bytes();
      fmt::print(" | d{} x{}: {:.1f} tok/s {:.3f} ms {:.4f} GB {:.1f} %", past, n, static_cast<double>(n) / seconds,
                 seconds * 1e3, bytes / 1e9, 100 * bytes / seconds / roof);
      std::fflush(stdout);
    };
    for (const int64_t n : regrets) {
      fmt::print("\n{}", measure::regret_table(measure::measure_regret(*executor, model.program, n, 8), true));
      std::fflush(stdout);
    }
    if (depths.empty() && streams.empty() && prompts.empty() && regrets.empty()) decode(0, 1);
    for (const int64_t depth : depths) decode(depth, 1);
    for (const int64_t n : streams) decode(0, n);
    for (const int64_t prompt : prompts) {
      std::vector<int32_t> tokens(prompt), positions(prompt);
      std::iota(positions.begin(), positions.end(), 0);
      for (int64_t i = 0; i < prompt; ++i) tokens[i] = static_cast<int32_t>(i * 7919 % model.program.vocab);
      std::vector<double> seconds;
      for (int run = 0; run < 6; ++run) {
        const double begin = core::seconds_now();
        for (int64_t at = 0; at < prompt; at += batch) {
          const int64_t n = std::min(batch, prompt - at);
          const std::vector<int32_t> outputs =
              at + n == prompt ? std::vector<int32_t>{static_cast<int32_t>(n - 1)} : std::vector<int32_t>{};
          executor->forward({std::span(tokens).subspan(at, n), std::span(positions).subspan(at, n), {}, outputs});
        }
        if (run > 0) seconds.push_back(core::seconds_now() - begin);
      }
      std::ranges::sort(seconds);
      fmt::print(" | pp{}: {:.0f} tok/s", prompt, static_cast<double>(prompt) / seconds[seconds.size() / 2]);
    }
    fmt::print("\n");
  }
}
