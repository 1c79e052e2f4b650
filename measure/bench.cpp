#include "measure/bench.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/sampler.h"
#include "engine/options.h"
#include "measure/count_list.h"
#include "measure/peaks.h"
#include "models/model.h"
#include "models/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace ridge::measure {
namespace {

constexpr int64_t kMostTokens = 1 << 20; // of one test

// What an executor is made for; the tests of one setting share it.
struct BenchSetting {
  int64_t batch, ubatch, threads, streams, gpu_layers;
  std::string k_type, v_type;
};

// A request's lists as numbers.
struct BenchPlan {
  std::vector<BenchSetting> settings;
  std::vector<int64_t> prompts, generated, depths; // tokens; depths has one at least

  // Prompts are of one stream: they are measured once, not again for every number of streams.
  bool has_prompts(const BenchSetting& setting) const {
    return setting.streams == settings[0].streams && !prompts.empty();
  }
  int64_t tests_of_model() const {
    size_t tests = 0;
    for (const BenchSetting& setting : settings)
      tests += (generated.size() + (has_prompts(setting) ? prompts.size() : 0)) * depths.size();
    return static_cast<int64_t>(tests);
  }
};

std::vector<int64_t> layer_counts(const std::string& list) {
  if (list == "-1") return {-1};
  return parse_counts(list, "--gpu-layers", 0, 100000);
}

std::vector<BenchSetting> plan_settings(const core::BenchRequest& r) {
  const std::vector<std::string> types = {"f16", "f32", "q8_0"};
  std::vector<BenchSetting> settings;
  for (const int64_t batch : parse_counts(r.batches, "--batch-size", 1, 1 << 20))
    for (const int64_t ubatch : parse_counts(r.ubatches, "--ubatch-size", 1, 1 << 16))
      for (const int64_t threads : parse_counts(r.threads, "--threads", 0, 1024))
        for (const std::string& k_type : parse_words(r.k_types, "--cache-type-k", types))
          for (const std::string& v_type : parse_words(r.v_types, "--cache-type-v", types))
            for (const int64_t layers : layer_counts(r.gpu_layers))
              for (const int64_t streams : parse_counts(r.streams, "--batch", 1, 4096))
                settings.push_back({batch, std::min(batch, ubatch), threads, streams, layers, k_type, v_type});
  return settings;
}

BenchPlan plan_bench(const core::BenchRequest& request, const BenchNames& names) {
  const auto parse = [](const std::string& list, const std::string& name) {
    return parse_counts(list, name.c_str(), 0, kMostTokens);
  };
  BenchPlan plan;
  plan.prompts = parse(request.prompts, names.prompts);
  plan.generated = parse(request.generated, names.generated);
  plan.depths = parse(request.depths, names.depths);
  std::erase(plan.prompts, 0);
  std::erase(plan.generated, 0);
  if (plan.prompts.empty() && plan.generated.empty())
    throw Error(fmt::format("{} 0 and {} 0 leave nothing to measure", names.prompts, names.generated), Error::kUsage);
  plan.settings = plan_settings(request);
  return plan;
}

// Of the whole request: how many tests there are and how many are done.
struct TestCount {
  int64_t done = 0, all = 0;
};

// Runs tests on one executor.
class Bench {
 public:
  Bench(engine::LoadedModel& model, BenchRow common, const BenchSetting& setting, Peaks& peaks,
        const core::BenchRequest& request, const BenchSteps& steps, TestCount& count)
      : model_(model), common_(std::move(common)), setting_(setting), peaks_(peaks), request_(request), steps_(steps),
        count_(count) {}

  // `prompt` tokens in batches, logits of the last only.
  void run_prompt(int64_t prompt, int64_t depth) {
    BenchRow row = common_;
    row.prompt = prompt;
    measure(std::move(row), depth, [&] { feed(prompt, depth); });
  }

  // `count` tokens one after another, of each stream, each with its logits. Of one stream on a GPU, each is chosen from
  // them by the default sampler chain, as `ridge run` does it.
  void run_generation(int64_t count, int64_t depth) {
    BenchRow row = common_;
    row.generated = count;
    row.streams = setting_.streams;
    const core::Sampler sampler({.seed = 1}, model_.program.vocab);
    measure(std::move(row), depth, [&] {
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
  std::vector<int32_t> random_tokens(int64_t count) {
    std::vector<int32_t> tokens(count);
    std::ranges::generate(tokens, [&] { return random_token(); });
    return tokens;
  }

  core::Step step_at(int64_t tokens, int64_t past, int64_t streams, int64_t outputs) const {
    const core::ExecutorConfig& config = model_.executor->config();
    return {
        tokens, past, streams, outputs, core::bytes_per_element(config.k_type), core::bytes_per_element(config.v_type)};
  }

  // Evaluates `count` random tokens of one stream from `position` on and adds up what op_cost says of it. They are
  // passed on -b at once and evaluated -ub at once, so a -b that is no multiple of -ub leaves short pieces.
  void feed(int64_t count, int64_t position, int32_t stream = 0) {
    int64_t passed_on = 0; // of the current -b
    while (count > 0) {
      const int64_t rows = std::min({count, setting_.ubatch, setting_.batch - passed_on});
      passed_on = (passed_on + rows) % setting_.batch;
      const std::vector<int32_t> tokens = random_tokens(rows), streams(rows, stream);
      std::vector<int32_t> positions(rows);
      std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position));
      const auto last = static_cast<int32_t>(rows - 1);
      core::Batch batch{tokens, positions, streams, {}};
      if (rows == count) batch.outputs = {&last, 1};
      model_.executor->load_state(stream, {}, position); // repetitions go back
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
    const std::vector<int32_t> tokens = random_tokens(n), positions(n, static_cast<int32_t>(position));
    std::vector<int32_t> streams(n);
    std::iota(streams.begin(), streams.end(), 0);
    for (const int32_t stream : streams) model_.executor->load_state(stream, {}, position);
    model_.executor->forward({tokens, positions, streams, streams});
    cost_ += core::program_cost(model_.program, step_at(n, position, n, n));
    advance(n);
  }

  void advance(int64_t tokens) {
    tokens_done_ += tokens;
    if (!steps_.progress) return;
    const double share = std::min(1.0, static_cast<double>(tokens_done_) / static_cast<double>(tokens_));
    steps_.progress(test_, (static_cast<double>(count_.done) + share) / static_cast<double>(count_.all));
  }

  void measure(BenchRow row, int64_t depth, const std::function<void()>& work) {
    row.depth = depth;
    test_ = row.test();
    tokens_done_ = 0;
    tokens_ = depth * row.streams + row.tokens() * (request_.repetitions + 1);
    if (depth > 0)
      for (int64_t stream = 0; stream < row.streams; ++stream) feed(depth, 0, static_cast<int32_t>(stream));
    work(); // warm-up: pages are read, threads started, graphs captured
    // The roof moves with whatever else the machine does, so it is measured right before and after.
    const double roof_before = peaks_.read_bytes_per_second();
    for (int i = 0; i < request_.repetitions; ++i) {
      cost_ = {};
      const double start = core::seconds_now();
      work();
      row.seconds.push_back(core::seconds_now() - start);
    }
    model_.file.check();
    row.bytes = cost_.bytes();
    row.flops = cost_.flops;
    row.read_bytes_per_second = (roof_before + peaks_.read_bytes_per_second()) / 2;
    if (request_.profile && row.generated > 0)
      row.profile =
          profile_step(*model_.executor, model_.program, random_tokens(row.streams), depth, row.read_bytes_per_second);
    row.peak_name = peaks_.products().how;
    row.peak_flops = peaks_.products().value;
    ++count_.done;
    steps_.row(row);
  }

  engine::LoadedModel& model_;
  const BenchRow common_;
  const BenchSetting setting_;
  Peaks& peaks_;
  const core::BenchRequest& request_;
  const BenchSteps& steps_;
  TestCount& count_;
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

// Tests one open model with every setting of the plan.
void bench_model(engine::LoadedModel& loaded, const std::string& name, const BenchPlan& plan,
                 const core::BenchRequest& request, const BenchSteps& steps, TestCount& count) {
  for (const BenchSetting& setting : plan.settings) {
    const bool with_prompts = plan.has_prompts(setting);
    if (!with_prompts && plan.generated.empty()) continue;
    core::ModelOptions options;
    options.batch = setting.batch;
    options.ubatch = setting.ubatch;
    options.threads = static_cast<int>(setting.threads);
    options.k_type = setting.k_type;
    options.v_type = setting.v_type;
    options.context = std::ranges::max(plan.depths) + longest(plan, with_prompts);
    core::ExecutorConfig config = engine::executor_config(options, loaded.program.trained_context);
    config.streams = config.max_outputs = setting.streams;
    config.max_batch = std::max(config.max_batch, setting.streams);
    loaded.executor.reset(); // its memory is needed again
    engine::start_executor(loaded, config, request.device, setting.gpu_layers, steps.load);
    Peaks peaks(loaded);

    BenchRow row;
    row.model = name;
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
    Bench bench(loaded, row, setting, peaks, request, steps, count);
    for (const int64_t depth : plan.depths) {
      if (with_prompts)
        for (const int64_t prompt : plan.prompts) bench.run_prompt(prompt, depth);
      for (const int64_t tokens : plan.generated) bench.run_generation(tokens, depth);
    }
  }
}

} // namespace

void bench(const core::BenchRequest& request, const BenchSteps& steps, const BenchNames& names) {
  const BenchPlan plan = plan_bench(request, names);
  std::vector<std::string> files = request.files;
  if (files.empty() && request.shapes.empty()) files.emplace_back(); // the guide
  TestCount count;
  count.all = plan.tests_of_model() * std::ssize(files) + plan.tests_of_model() * std::ssize(request.shapes);
  const auto run = [&](engine::LoadedModel model, const std::string& name) {
    if (steps.opened) steps.opened(model);
    bench_model(model, name, plan, request, steps, count);
  };
  for (const std::string& file : files) {
    engine::LoadedModel model = engine::open_model(file, steps.load);
    const std::string label = models::model_label(model.file);
    run(std::move(model), label);
  }
  for (const std::string& shape : request.shapes)
    run(engine::open_model(gguf::File::from_bytes(models::synthetic_model(shape), shape)), shape);
}

} // namespace ridge::measure
