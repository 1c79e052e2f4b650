#include "measure/load/client_load.h"

#include "core/clock.h"
#include "core/error.h"
#include "engine/options.h"
#include "engine/sequences/scheduler.h"
#include "measure/divergence.h"
#include "measure/peaks/peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <random>
#include <thread>

namespace ridge::measure {
namespace {

class Clients {
 public:
  Clients(engine::Scheduler& scheduler, const api::ClientLoad& load, const BenchPlan& plan, int64_t vocab)
      : scheduler_(scheduler), load_(load), plan_(plan), vocab_(vocab), shared_(random_tokens(0, load.shared)) {}

  // Requests from number `first`. arrivals: per second; 0: each client always has one. Rethrows the first Error.
  void play(int64_t first, int64_t count, double arrivals) {
    next_ = first;
    last_ = first + count;
    std::vector<std::jthread> threads;
    if (arrivals > 0) {
      std::mt19937_64 random(static_cast<uint64_t>(first));
      std::exponential_distribution<double> gap(arrivals);
      auto at = std::chrono::steady_clock::now();
      for (int64_t i = first; i < last_; ++i) {
        threads.emplace_back([this, i] { ask_or_keep_error(i); });
        at +=
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(gap(random)));
        std::this_thread::sleep_until(at);
      }
    } else {
      for (int64_t i = 0; i < load_.clients; ++i)
        threads.emplace_back([this] {
          for (int64_t number; (number = next_++) < last_;) ask_or_keep_error(number);
        });
    }
    threads.clear();
    if (error_) std::rethrow_exception(error_);
  }

  void forget_times() { first_token_.clear(), between_tokens_.clear(); }
  const std::vector<double>& first_token() const { return first_token_; }
  const std::vector<double>& between_tokens() const { return between_tokens_; }

 private:
  std::vector<int32_t> random_tokens(int64_t seed, int64_t count) const {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    std::vector<int32_t> tokens(count);
    std::ranges::generate(tokens, [&] { return static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_)); });
    return tokens;
  }

  engine::SequenceRequest request(int64_t number) const {
    std::mt19937_64 random(static_cast<uint64_t>(number));
    const auto draw = [&](const std::vector<int64_t>& lengths) { return lengths[random() % lengths.size()]; };
    engine::SequenceRequest request;
    request.prompt = shared_;
    const std::vector<int32_t> own = random_tokens(number + 1, draw(plan_.prompts) - load_.shared);
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    request.limit = draw(plan_.generated);
    request.sampling.seed = number;
    request.is_end = [](int32_t) { return false; };
    return request;
  }

  void ask(int64_t number) {
    std::vector<double> gaps;
    double before = core::seconds_now(), first = 0;
    const std::shared_ptr<engine::Sequence> answer = scheduler_.submit(request(number));
    while (answer->next()) {
      const double now = core::seconds_now();
      if (first == 0)
        first = now - before;
      else
        gaps.push_back(now - before);
      before = now;
    }
    const std::scoped_lock lock(mutex_);
    first_token_.push_back(first);
    between_tokens_.insert(between_tokens_.end(), gaps.begin(), gaps.end());
  }

  void ask_or_keep_error(int64_t number) {
    try {
      ask(number);
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = last_.load();
    }
  }

  engine::Scheduler& scheduler_;
  const api::ClientLoad& load_;
  const BenchPlan& plan_;
  const int64_t vocab_;
  const std::vector<int32_t> shared_;
  std::atomic<int64_t> next_ = 0, last_ = 0;
  std::mutex mutex_;
  std::vector<double> first_token_, between_tokens_;
  std::exception_ptr error_;
};

BenchPlan plan_load(const api::BenchRequest& request) {
  BenchPlan plan = plan_bench(request, {});
  if (plan.prompts.empty() || plan.generated.empty())
    throw Error("--clients: prompts and answers need at least one token (--n-prompt, --n-gen)", Error::kUsage);
  if (const int64_t shortest = std::ranges::min(plan.prompts); shortest <= request.load.shared)
    throw Error(fmt::format("--shared {}: must be shorter than the prompt of {} tokens", request.load.shared, shortest),
                Error::kUsage);
  return plan;
}

void start_executor(engine::LoadedModel& model, const api::BenchRequest& request, const BenchPlan& plan,
                    const engine::LoadSteps& steps) {
  api::ModelOptions options = model_options(request, plan.settings[0]);
  options.context = std::ranges::max(plan.prompts) + std::ranges::max(plan.generated);
  core::ExecutorConfig config = engine::executor_config(options, model.program.trained_context);
  engine::set_streams(config, options, request.load.streams > 0 ? request.load.streams : request.load.clients);
  config.max_outputs = config.streams;
  engine::start_executor(model, config, request.device, engine::placement_of(options), steps);
}

Percentiles percentiles(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::ranges::sort(seconds);
  return {quantile(seconds, 0.5), quantile(seconds, 0.9), quantile(seconds, 0.99)};
}

ClientLoadRow play_to(engine::LoadedModel& model, const std::string& name, const api::BenchRequest& request,
                      const BenchPlan& plan, const engine::LoadSteps& steps) {
  start_executor(model, request, plan, steps);
  const api::ClientLoad& load = request.load;
  const Peaks peaks(model);
  engine::Scheduler scheduler(*model.executor, model.program, nullptr,
                              engine::prefix_settings({}, model.file, steps.note));
  Clients clients(scheduler, load, plan, model.program.vocab);
  const int64_t count = load.requests > 0 ? load.requests : 4 * load.clients;
  clients.play(count, load.clients, 0); // warm-up
  clients.forget_times();

  ClientLoadRow row = {.model = name,
                       .backend = backend_of(model),
                       .device = std::string(model.executor->description()),
                       .load = load,
                       .requests = count};
  const double roof_before = peaks.read_bytes_per_second();
  const engine::Scheduler::Counts before = scheduler.counts();
  const double start = core::seconds_now();
  clients.play(0, count, load.arrivals);
  row.seconds = core::seconds_now() - start;
  const engine::Scheduler::Counts after = scheduler.counts();
  row.read_bytes_per_second = (roof_before + peaks.read_bytes_per_second()) / 2;
  row.prompt_tokens = after.prompt_tokens - before.prompt_tokens;
  row.cached_tokens = after.cached_tokens - before.cached_tokens;
  row.preemptions = after.preemptions - before.preemptions;
  row.generated_tokens = after.generated_tokens - before.generated_tokens;
  row.steps = after.steps - before.steps;
  row.bytes = after.bytes - before.bytes;
  row.first_token = percentiles(clients.first_token());
  row.between_tokens = percentiles(clients.between_tokens());
  return row;
}

} // namespace

std::vector<ClientLoadRow> client_load(const api::BenchRequest& request, const engine::LoadSteps& steps) {
  const BenchPlan plan = plan_load(request);
  std::vector<ClientLoadRow> rows;
  for_each_model(request, "", steps, [&](engine::LoadedModel& model, const std::string& name) {
    rows.push_back(play_to(model, name, request, plan, steps));
  });
  return rows;
}

} // namespace ridge::measure
