#include "measure/bench.h"

#include "core/error.h"
#include "core/sampler.h"
#include "engine/adapters/adapters.h"
#include "engine/loading/fit.h"
#include "engine/loading/ranks.h"
#include "engine/options.h"
#include "engine/speculation/speculation.h"
#include "engine/speculation/speculator.h"
#include "measure/peaks/peaks.h"
#include "models/model.h"
#include "models/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace ridge::measure {
namespace {

constexpr int64_t kVerifySteps = 32;

// Acceptance is simulated.
class DummyDrafter final : public engine::Drafter {
 public:
  void begin(std::span<const int32_t>) override {}
  int prepare_draft(std::span<const int32_t>) override { return 0; }
  std::vector<int32_t> draft(int64_t most) override { return std::vector<int32_t>(most, 0); }
};

struct TestCount {
  int64_t done = 0, all = 0;
};

class Bench {
 public:
  Bench(engine::LoadedModel& model, BenchRow common, const BenchSetting& setting, Peaks& peaks,
        const api::BenchRequest& request, const BenchSteps& steps, TestCount& count)
      : model_(model), common_(std::move(common)), setting_(setting), peaks_(peaks), request_(request), steps_(steps),
        count_(count) {}

  // Prefill; only the last token has logits.
  void run_prompt(int64_t prompt, int64_t depth) {
    BenchRow row = common_;
    row.prompt = prompt;
    measure(std::move(row), depth, [&] { feed(prompt, depth); });
  }

  // Decodes with logits for all tokens. A single stream on a GPU samples, as in `ridge run`.
  void run_generation(int64_t count, int64_t depth) {
    BenchRow row = common_;
    row.generated = count;
    row.streams = setting_.streams;
    const core::Sampler sampler({.seed = 1}, model_.program.vocab);
    measure(std::move(row), depth, [&] {
      const bool decoding = begin_chain(depth, sampler);
      for (int64_t i = 1; i < count; ++i) {
        if (!decoding) {
          step(depth + i);
          continue;
        }
        submit_chosen(depth + i);
        model_.executor->wait();
        add_step(1, depth + i);
      }
      if (decoding) model_.executor->wait();
    });
  }

  // Steps of `tokens` tokens of one stream, all with logits.
  void run_verification(int64_t tokens, int64_t depth) {
    BenchRow row = common_;
    row.verified_tokens = tokens;
    row.generated = tokens * kVerifySteps;
    measure(std::move(row), depth, [&] {
      for (int64_t i = 0; i < kVerifySteps; ++i) {
        evaluate_draft(tokens - 1, depth, false);
        add_step(tokens, depth);
      }
    });
  }

  // Drafts are accepted with probability `right`. As in a Session, draft length adapts and steps without drafts decode
  // ahead. `heads` read the accepted rows; otherwise drafts are free.
  void run_speculation(double right, const std::string& heads, int64_t count, int64_t depth) {
    BenchRow row = common_;
    row.generated = count;
    row.acceptance = right;
    row.draft_heads = heads;
    std::unique_ptr<engine::Drafter> drafter;
    if (!heads.empty())
      drafter = engine::make_head_drafter(model_);
    else
      drafter = std::make_unique<DummyDrafter>();
    engine::Speculator speculator(std::move(drafter), 0, steps_.clock);
    const core::Sampler sampler({.seed = 1}, model_.program.vocab);
    int64_t steps = 0, tokens = 0;
    measure(row, depth, [&] {
      text_.assign(depth + 1, 0);
      speculator.resume(text_);
      const bool decoding = begin_chain(depth, sampler);
      pass_hidden_rows(speculator, depth, 1);
      bool token_pending = decoding; // a token is still due
      int64_t done = 1;
      while (done < count || token_pending) {
        const int64_t guesses = done < count ? speculator.draft_length(text_, 1, count - done - 1) : 0;
        const double start = steps_.clock();
        if (token_pending) {
          token_pending = guesses == 0 && done < count;
          if (token_pending) submit_chosen(depth + done);
          model_.executor->wait();
          pass_hidden_rows(speculator, depth + done - 1, 1);
          if (!token_pending) continue;
          speculator.record_step_time(1, steps_.clock() - start);
          add_step(1, depth + done++);
        } else if (decoding && guesses == 0) {
          evaluate_draft(0, depth + done, true);
          add_step(1, depth + done++);
          token_pending = true;
          continue; // counted when its token arrives
        } else {
          done += speculative_step(speculator, guesses, right, depth + done, decoding);
        }
        ++steps;
      }
      tokens += done - 1;
      tokens_per_step_ = static_cast<double>(tokens) / static_cast<double>(steps);
    });
  }

 private:
  // Returns the tokens gained.
  int64_t speculative_step(engine::Speculator& speculator, int64_t guesses, double right, int64_t position,
                           bool decoding) {
    if (guesses > 0) speculator.draft();
    const double start = steps_.clock();
    evaluate_draft(guesses, position, decoding);
    if (decoding) model_.executor->wait();
    speculator.record_step_time(guesses + 1, steps_.clock() - start);
    int64_t good = 0;
    std::bernoulli_distribution is_right(right);
    while (good < guesses && is_right(random_)) ++good;
    speculator.record_acceptance(guesses, good);
    pass_hidden_rows(speculator, position, good + 1);
    add_step(guesses + 1, position);
    if (!speculator.reads_rows() || guesses == 0) return good + 1;
    if (engine::guesses_blocks(model_.heads[0])) { // with the rows that it reads next
      cost_ += core::program_cost(model_.heads[0].program, step_at(good + guesses + 2, position, 1, guesses));
      return good + 1;
    }
    for (int64_t i = 0; i < guesses; ++i)
      cost_ += core::program_cost(model_.heads[std::min<size_t>(i, model_.heads.size() - 1)].program,
                                  step_at(1, position + i, 1, 1));
    return good + 1;
  }

  // Hidden rows of the last step's tokens from `position`, at most `most`.
  void pass_hidden_rows(engine::Speculator& speculator, int64_t position, int64_t most) {
    if (!speculator.reads_rows()) return;
    const std::span<const float> rows = model_.executor->hidden();
    const int64_t width = model_.program.values[model_.program.hidden].width;
    const int64_t count = std::min(std::ssize(rows) / width, most);
    if (count == 0) return;
    while (std::ssize(text_) <= position + count) text_.push_back(random_token());
    speculator.evaluated(std::span(text_).first(position + count), rows.first(count * width));
  }

  // `choose`: the executor samples.
  void evaluate_draft(int64_t guesses, int64_t position, bool choose) {
    const std::vector<int32_t> tokens = random_tokens(guesses + 1);
    std::vector<int32_t> positions(tokens.size()), outputs(tokens.size());
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position));
    std::iota(outputs.begin(), outputs.end(), 0);
    model_.executor->load_state(0, {}, position); // discards rejected drafts
    if (choose)
      model_.executor->submit({tokens, positions, {}, outputs}, {.chain = core::Chain::resume, .guesses = guesses});
    else
      model_.executor->forward({tokens, positions, {}, outputs});
  }
  void add_step(int64_t tokens, int64_t position) {
    cost_ += core::program_cost(model_.program, step_at(tokens, position, 1, tokens));
    advance(tokens);
  }

  static double hit_rate(const core::ExpertUse& before, core::ExpertUse use) {
    use.hits -= before.hits;
    use.misses -= before.misses;
    return use.hits + use.misses > 0 ? use.hit_rate() : -1;
  }

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

  // One stream. Split by -b, then -ub: if -b is no multiple of -ub, short batches remain.
  void feed(int64_t count, int64_t position, int32_t stream = 0) {
    int64_t passed_on = 0;
    while (count > 0) {
      const int64_t rows = std::min({count, common_.ubatch_tokens, setting_.batch - passed_on});
      passed_on = (passed_on + rows) % setting_.batch;
      const std::vector<int32_t> tokens = random_tokens(rows), streams(rows, stream);
      std::vector<int32_t> positions(rows);
      std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position));
      const auto last = static_cast<int32_t>(rows - 1);
      core::Batch batch{tokens, positions, streams, {}};
      if (rows == count) batch.outputs = {&last, 1};
      model_.executor->load_state(stream, {}, position);
      model_.executor->forward(batch);
      cost_ += core::program_cost(model_.program, step_at(rows, position, 1, rows == count ? 1 : 0));
      position += rows;
      count -= rows;
      advance(rows);
    }
  }

  StepProfile profile_of(const BenchRow& row) {
    const int64_t of_prompt = std::min({row.prompt, row.ubatch_tokens, model_.executor->config().max_batch});
    const bool one_stream = row.prompt > 0 || row.verified_tokens > 0;
    const std::vector<int32_t> tokens = random_tokens(!one_stream     ? row.streams
                                                      : of_prompt > 0 ? of_prompt
                                                                      : row.verified_tokens);
    return profile_step(*model_.executor, model_.program, {tokens, row.depth, one_stream, row.prompt > 0},
                        row.read_bytes_per_second);
  }

  // A step of each stream. Returns whether the executor chooses the only one's next tokens.
  bool begin_chain(int64_t position, const core::Sampler& sampler) {
    const bool chains = setting_.streams == 1 && model_.executor->can_chain(sampler.params());
    step(position, chains ? &sampler : nullptr);
    return chains;
  }
  // Evaluates the token that the last batch chooses.
  void submit_chosen(int64_t position) {
    const auto at = static_cast<int32_t>(position), zero = 0;
    model_.executor->submit({{&core::kChosenToken, 1}, {&at, 1}, {}, {&zero, 1}}, {.chain = core::Chain::resume});
  }

  // With a sampler, its choice is waited for later.
  void step(int64_t position, const core::Sampler* sampler = nullptr) {
    const int64_t n = setting_.streams;
    const std::vector<int32_t> tokens = random_tokens(n), positions(n, static_cast<int32_t>(position));
    std::vector<int32_t> streams(n);
    std::iota(streams.begin(), streams.end(), 0);
    for (const int32_t stream : streams) model_.executor->load_state(stream, {}, position);
    const core::Batch batch{tokens, positions, streams, streams};
    if (sampler)
      model_.executor->submit(batch, {.samplers = {&sampler, 1}, .chain = core::Chain::begin});
    else
      model_.executor->forward(batch);
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
    work(); // warm-up
    // Other load changes bandwidth: measured before and after.
    const double roof_before = peaks_.read_bytes_per_second();
    const core::ExpertUse before = model_.executor->expert_use();
    for (int i = 0; i < request_.repetitions; ++i) {
      cost_ = {};
      const double start = steps_.clock();
      work();
      row.seconds.push_back(steps_.clock() - start);
    }
    model_.file.check();
    if (row.acceptance >= 0) row.tokens_per_step = tokens_per_step_;
    row.expert_cache_hit_rate = hit_rate(before, model_.executor->expert_use());
    row.bytes = cost_.bytes();
    row.flops = cost_.flops;
    row.read_bytes_per_second = (roof_before + peaks_.read_bytes_per_second()) / 2;
    if (request_.profile) row.profile = profile_of(row);
    row.peak_name = peaks_.products().how;
    row.peak_flops = peaks_.products().value;
    ++count_.done;
    steps_.row(row);
  }

  engine::LoadedModel& model_;
  const BenchRow common_;
  const BenchSetting setting_;
  Peaks& peaks_;
  const api::BenchRequest& request_;
  const BenchSteps& steps_;
  TestCount& count_;
  std::string test_;
  int64_t tokens_done_ = 0, tokens_ = 0;
  double tokens_per_step_ = 1;
  std::vector<int32_t> text_;
  std::mt19937 random_{1};
  core::Cost cost_;
};

// Executors for short tests have smaller ones.
int64_t ubatch_of(const BenchSetting& setting, const core::Executor& executor) {
  const int64_t chosen =
      setting.ubatch > 0 ? setting.ubatch : std::max(engine::kDefaultUbatch, executor.config().max_batch);
  return std::min(setting.batch, chosen);
}

void bench_model(engine::LoadedModel& loaded, const std::string& name, const BenchPlan& plan,
                 const api::BenchRequest& request, const BenchSteps& steps, TestCount& count) {
  for (const BenchSetting& setting : plan.settings) {
    const bool single = plan.runs_single_stream_tests(setting);
    if (plan.tests_of(setting) == 0) continue;
    api::ModelOptions options = model_options(request, setting);
    options.context = std::ranges::max(plan.depths) + plan.longest(single);
    core::ExecutorConfig config = engine::executor_config(options, loaded.program.trained_context);
    config.streams = setting.streams;
    config.max_outputs = plan.most_outputs(setting);
    config.max_batch = std::max(config.max_batch, config.max_outputs);
    loaded.executor.reset();
    for (engine::LoadedHead& head : loaded.heads) head.executor.reset();
    if (steps.start)
      steps.start(loaded, config, request.device, engine::placement_of(options));
    else
      engine::start_executor(loaded, config, request.device, engine::placement_of(options), steps.load);
    Peaks peaks(loaded);

    BenchRow row;
    row.model = name;
    row.file_bytes = loaded.file.size_bytes();
    row.parameters = models::parameter_count(loaded.file);
    row.backend = backend_of(loaded);
    row.device = loaded.executor->description();
    row.batch_tokens = setting.batch;
    row.ubatch_tokens = ubatch_of(setting, *loaded.executor);
    row.k_type = setting.k_type;
    row.v_type = setting.v_type;
    row.threads = options.threads;
    row.gpu_layers = setting.gpu_layers;
    row.datasheet = peaks.datasheet();
    Bench bench(loaded, row, setting, peaks, request, steps, count);
    for (const int64_t depth : plan.depths) {
      if (single) {
        for (const int64_t prompt : plan.prompts) bench.run_prompt(prompt, depth);
        for (const int64_t tokens : plan.verified) bench.run_verification(tokens, depth);
      }
      for (const int64_t tokens : plan.generated) {
        bench.run_generation(tokens, depth);
        if (!single) continue;
        for (const double right : plan.acceptances) bench.run_speculation(right, "", tokens, depth);
        for (const double right : plan.head_acceptances) bench.run_speculation(right, plan.heads, tokens, depth);
      }
    }
  }
}

} // namespace

void for_each_model(const api::BenchRequest& request, std::string_view heads, const engine::LoadSteps& steps,
                    const std::function<void(engine::LoadedModel&, const std::string& name)>& run) {
  std::vector<std::string> files = request.files;
  if (files.empty() && request.shapes.empty()) files.emplace_back();
  api::ModelOptions options;
  options.speculation = heads == "mtp" ? "mtp" : "off";
  const bool own_file = heads == "eagle3" || heads == "dflash";
  if (own_file) options.speculation = "auto"; // named, or the guide's
  options.draft_model = request.draft_model;
  options.adapters = request.adapters;
  for (const std::string& file : files) {
    options.model = file;
    engine::LoadedModel model = engine::open_generating(options, steps);
    if (model.encoder) throw_error("{}: bench supports only decoder models, and this one has an encoder", file);
    if (own_file && model.heads.empty())
      throw_error("--draft-model {}: not a draft head but a complete model", request.draft_model);
    if (own_file && engine::guesses_blocks(model.heads[0]) != (heads == "dflash"))
      throw_error("--draft-model {}: not a head for --spec {}", request.draft_model, heads);
    run(model, models::model_label(model.file));
  }
  for (const std::string& shape : request.shapes) {
    gguf::File file = gguf::File::from_bytes(models::synthetic_model(shape, heads == "mtp"), shape);
    std::vector<engine::LoadedHead> own;
    if (heads == "mtp") own = engine::heads_to_use(file, options, steps);
    if (heads == "eagle3")
      own.push_back(engine::eagle_head(std::make_shared<const gguf::File>(gguf::File::from_bytes(
                                           models::synthetic_eagle_head(shape), "EAGLE-3 head of " + shape)),
                                       file));
    if (heads == "dflash")
      own.push_back(engine::dflash_head(std::make_shared<const gguf::File>(gguf::File::from_bytes(
                                            models::synthetic_dflash_head(shape), "DFlash head of " + shape)),
                                        file));
    engine::LoadedModel model =
        engine::with_adapters(engine::open_with_heads(std::move(file), std::move(own)), request.adapters);
    run(model, shape);
  }
}

const char* backend_of(const engine::LoadedModel& model) {
  return model.gpu_share == 1 ? "CUDA" : model.gpu_share == 0 ? "CPU" : "CUDA+CPU";
}

void bench(const api::BenchRequest& request, const BenchSteps& steps, const BenchNames& names) {
  const BenchPlan plan = plan_bench(request, names);
  const int64_t models = std::max<int64_t>(1, std::ssize(request.files) + std::ssize(request.shapes));
  if (models > 1 || plan.settings.size() > 1)
    engine::need_one_process("bench", "they split a single model with one setting, not several");
  TestCount count;
  count.all = plan.tests_of_model() * models;
  for_each_model(request, plan.heads, steps.load, [&](engine::LoadedModel& model, const std::string& name) {
    if (steps.opened) steps.opened(model);
    bench_model(model, name, plan, request, steps, count);
  });
}

} // namespace ridge::measure
