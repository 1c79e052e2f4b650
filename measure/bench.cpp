#include "measure/bench.h"

#include "core/error.h"
#include "core/sampler.h"
#include "engine/options.h"
#include "measure/count_list.h"
#include "measure/peaks.h"
#include "models/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace ridge::measure {
namespace {

constexpr int64_t kMostTokens = 1 << 20; // of one test

// Runs tests on one executor.
class Bench {
 public:
  Bench(engine::LoadedModel& model, BenchRow common, const BenchSetting& setting, Peaks& peaks, const BenchPlan& plan,
        const BenchSteps& steps)
      : model_(model), common_(std::move(common)), setting_(setting), peaks_(peaks), plan_(plan), steps_(steps) {}

  // `prompt` tokens in batches, logits of the last only.
  BenchRow run_prompt(int64_t prompt, int64_t depth) {
    BenchRow row = common_;
    row.prompt = prompt;
    return measure(std::move(row), depth, [&] { feed(prompt, depth); });
  }

  // `count` tokens one after another, of each stream, each with its logits. Of one stream on a GPU, each is chosen from
  // them by the default sampler chain, as `ridge run` does it.
  BenchRow run_generation(int64_t count, int64_t depth) {
    BenchRow row = common_;
    row.generated = count;
    row.streams = setting_.streams;
    const core::Sampler sampler({.seed = 1}, model_.program.vocab);
    return measure(std::move(row), depth, [&] {
      step(depth);
      core::Executor& executor = *model_.executor;
      const bool decoding =
          setting_.streams == 1 && executor.start_decoding(sampler, static_cast<int32_t>(depth + 1), 0);
      for (int64_t i = 1; i < count; ++i) {
        if (!decoding) {
          step(depth + i);
          continue;
        }
        executor.next_token(true);
        cost_ += core::program_cost(model_.program, step_at(1, depth + i, 1, 1));
        advance(1);
      }
      if (decoding) executor.next_token(false); // waits for the last
    });
  }

 private:
  int32_t random_token() { return static_cast<int32_t>(random_() % model_.program.vocab); }

  core::Step step_at(int64_t tokens, int64_t past, int64_t streams, int64_t outputs) const {
    const core::ExecutorConfig& config = model_.executor->config();
    return {
        tokens, past, streams, outputs, core::bytes_per_element(config.k_type), core::bytes_per_element(config.v_type)};
  }

  // Evaluates `count` random tokens of one stream from `position` on and adds up what op_cost says of it. They are
  // handed over -b at once and evaluated -ub at once, so a -b that is no multiple of -ub leaves short pieces.
  void feed(int64_t count, int64_t position, int32_t stream = 0) {
    int64_t handed_over = 0; // of the current -b
    while (count > 0) {
      const int64_t rows = std::min({count, setting_.ubatch, setting_.batch - handed_over});
      handed_over = (handed_over + rows) % setting_.batch;
      std::vector<int32_t> tokens(rows), positions(rows);
      const std::vector<int32_t> streams(rows, stream);
      for (int64_t i = 0; i < rows; ++i) {
        tokens[i] = random_token();
        positions[i] = static_cast<int32_t>(position + i);
      }
      const auto last = static_cast<int32_t>(rows - 1);
      core::Batch batch{tokens, positions, streams, {}};
      if (rows == count) batch.outputs = {&last, 1};
      model_.executor->forward(batch);
      cost_ += core::program_cost(model_.program, step_at(rows, position, 1, rows == count ? 1 : 0));
      position += rows;
      count -= rows;
      advance(rows);
    }
  }

  // One token of every stream.
  void step(int64_t position) {
    const int64_t n = setting_.streams;
    std::vector<int32_t> tokens(n), positions(n, static_cast<int32_t>(position)), streams(n);
    for (int64_t i = 0; i < n; ++i) {
      tokens[i] = random_token();
      streams[i] = static_cast<int32_t>(i);
    }
    model_.executor->forward({tokens, positions, streams, streams});
    cost_ += core::program_cost(model_.program, step_at(n, position, n, n));
    advance(n);
  }

  void advance(int64_t tokens) {
    tokens_done_ += tokens;
    if (steps_.progress) steps_.progress(test_, static_cast<double>(tokens_done_) / static_cast<double>(tokens_));
  }

  BenchRow measure(BenchRow row, int64_t depth, const std::function<void()>& work) {
    row.depth = depth;
    test_ = row.test();
    tokens_done_ = 0;
    tokens_ = depth * row.streams + row.tokens() * (plan_.repetitions + 1);
    if (depth > 0)
      for (int64_t stream = 0; stream < row.streams; ++stream) feed(depth, 0, static_cast<int32_t>(stream));
    work(); // warm-up: pages are read, threads started, graphs captured
    // The roof moves with whatever else the machine does, so it is measured right before and after.
    const double roof_before = peaks_.read_bytes_per_second();
    for (int i = 0; i < plan_.repetitions; ++i) {
      cost_ = {};
      const auto start = std::chrono::steady_clock::now();
      work();
      row.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    model_.file.check();
    row.bytes = cost_.bytes();
    row.flops = cost_.flops;
    row.read_bytes_per_second = (roof_before + peaks_.read_bytes_per_second()) / 2;
    if (plan_.profile && row.generated > 0 && row.streams == 1)
      row.profile = profile_step(*model_.executor, model_.program, random_token(), depth, row.read_bytes_per_second);
    row.peak_name = peaks_.products().how;
    row.peak_flops = peaks_.products().value;
    return row;
  }

  engine::LoadedModel& model_;
  const BenchRow common_;
  const BenchSetting setting_;
  Peaks& peaks_;
  const BenchPlan& plan_;
  const BenchSteps& steps_;
  std::string test_;                     // that is running
  int64_t tokens_done_ = 0, tokens_ = 0; // of it, warm-up and repetitions together
  std::mt19937 random_{1};
  core::Cost cost_;
};

int64_t longest(const BenchPlan& plan, bool with_prompts) {
  int64_t most = 1;
  if (with_prompts) most = std::max(most, std::ranges::max(plan.prompts));
  if (!plan.generated.empty()) most = std::max(most, std::ranges::max(plan.generated));
  return most;
}

} // namespace

void plan_tests(BenchPlan& plan, const BenchLists& lists, const BenchLists& names) {
  const auto parse = [&](std::string BenchLists::*list) {
    return parse_counts(lists.*list, (names.*list).c_str(), 0, kMostTokens);
  };
  plan.prompts = parse(&BenchLists::prompts);
  plan.generated = parse(&BenchLists::generated);
  plan.depths = parse(&BenchLists::depths);
  std::erase(plan.prompts, 0);
  std::erase(plan.generated, 0);
  if (plan.prompts.empty() && plan.generated.empty())
    throw Error(fmt::format("{} 0 and {} 0 leave nothing to measure", names.prompts, names.generated), Error::kUsage);
}

void bench_model(engine::LoadedModel loaded, const std::string& shape, const BenchPlan& plan, const BenchSteps& steps) {
  for (const BenchSetting& setting : plan.settings) {
    // Prompts are of one stream: they are measured once, not again for every --batch.
    const bool with_prompts = setting.streams == plan.settings[0].streams && !plan.prompts.empty();
    if (!with_prompts && plan.generated.empty()) continue;
    engine::ModelOptions options;
    options.batch = setting.batch;
    options.ubatch = setting.ubatch;
    options.threads = static_cast<int>(setting.threads);
    options.k_type = setting.k_type;
    options.v_type = setting.v_type;
    options.context = std::ranges::max(plan.depths) + longest(plan, with_prompts);
    core::ExecutorConfig config = options.executor_config(loaded.program.trained_context);
    config.streams = config.max_outputs = setting.streams;
    config.max_batch = std::max(config.max_batch, setting.streams);
    loaded.executor.reset(); // its memory is needed again
    engine::start_executor(loaded, config, plan.device, setting.gpu_layers, steps.load);
    Peaks peaks(loaded);

    BenchRow row;
    row.model = shape.empty() ? models::model_label(loaded.file) : shape;
    row.file_bytes = loaded.file.size_bytes();
    row.parameters = models::parameter_count(loaded.file);
    row.backend = loaded.gpu_share == 1 ? "CUDA" : loaded.gpu_share == 0 ? "CPU" : "CUDA+CPU";
    row.device = loaded.executor->description();
    row.batch_tokens = setting.batch;
    row.ubatch_tokens = setting.ubatch;
    row.k_type = setting.k_type;
    row.v_type = setting.v_type;
    row.threads = options.threads;
    row.gpu_layers = setting.gpu_layers;
    row.datasheet = peaks.datasheet();
    Bench bench(loaded, row, setting, peaks, plan, steps);
    for (const int64_t depth : plan.depths) {
      if (with_prompts)
        for (const int64_t prompt : plan.prompts) steps.row(bench.run_prompt(prompt, depth));
      for (const int64_t count : plan.generated) steps.row(bench.run_generation(count, depth));
    }
  }
}

} // namespace ridge::measure
