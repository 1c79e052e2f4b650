// Compares the scheduler with a naive model, with random arrivals, priorities, cancellations and a common clock. Every
// step must serve the same sequences, and nothing may leak. RIDGE_SCHEDULER_SEQUENCES sets their number.
#include "engine/sequences/scheduler.h"
#include "support/history_executor.h"
#include "support/numerics.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>
#include <tuple>

using namespace ridge;
using engine::Scheduler;
using engine::Sequence;
using engine::SequenceRequest;
using engine::StopReason;
using tests::History;

namespace {

constexpr int32_t kModelVocab = 101;
constexpr int64_t kBytes = 1 << 20;

struct Job {
  int32_t prompt = 0; // one token, so every step gives a token
  int64_t priority = 0, limit = 1;
  double since = 0;
  bool cancelled = false;
  // While running:
  double turn_start = 0;
  bool late = false;
  int64_t steps = 0;
  // At the end:
  int64_t generated = 0, preempted = 0;
  StopReason stop = StopReason::interrupted;
};

// As in docs/serve.md, with linear searches.
class Model {
 public:
  Model(size_t streams, double seconds, double patience) : streams_(streams), seconds_(seconds), patience_(patience) {}

  std::vector<Job> jobs;
  std::vector<size_t> waiting, running;

  void submit(const Job& job) {
    waiting.push_back(jobs.size());
    jobs.push_back(job);
  }

  // Each running sequence gets a token, then waiting ones get streams.
  void step(double now) {
    for (const size_t i : running) {
      ++jobs[i].generated;
      ++jobs[i].steps;
    }
    std::erase_if(running, [&](size_t i) {
      const bool done = jobs[i].generated == jobs[i].limit;
      if (done) jobs[i].stop = StopReason::limit;
      return done || jobs[i].cancelled;
    });
    std::erase_if(waiting, [&](size_t i) { return jobs[i].cancelled; });
    start(now);
  }

  void start(double now) {
    while (!waiting.empty()) {
      const size_t longest = first(waiting, [&](size_t i) { return std::tuple(0.0, jobs[i].since, i); });
      const bool late = now - jobs[longest].since >= patience_ && now - last_late_ >= patience_;
      const size_t next = late ? longest : first(waiting, [&](size_t i) {
        return std::tuple(static_cast<double>(jobs[i].priority), jobs[i].since, i);
      });
      if (running.size() == streams_ && !take_stream(next, late, now)) return;
      if (late) last_late_ = now;
      std::erase(waiting, next);
      running.push_back(next);
      jobs[next].turn_start = now;
      jobs[next].late = late;
      jobs[next].steps = 0;
    }
  }

 private:
  template <class Rank>
  static size_t first(const std::vector<size_t>& from, Rank rank) {
    return *std::ranges::min_element(from, {}, rank);
  }

  bool take_stream(size_t next, bool late, double now) {
    std::vector<size_t> takeable;
    for (const size_t i : running) {
      const Job& job = jobs[i];
      const bool turn_over = now - job.turn_start >= seconds_, protected_from_all = job.late && !turn_over;
      const bool better = jobs[next].priority < job.priority, equal = jobs[next].priority == job.priority;
      if (job.steps > 0 && !protected_from_all && (better || (turn_over && (equal || late)))) takeable.push_back(i);
    }
    if (takeable.empty()) return false;
    const size_t loser = first(takeable, [&](size_t i) {
      return std::tuple(-jobs[i].priority, jobs[i].turn_start, -static_cast<int64_t>(i));
    });
    std::erase(running, loser);
    jobs[loser].since = now;
    ++jobs[loser].preempted;
    waiting.push_back(loser);
    return true;
  }

  const size_t streams_;
  const double seconds_, patience_;
  double last_late_ = -1e9;
};

class Play {
 public:
  Play(uint64_t seed, size_t count)
      : random_(seed), count_(count), streams_(1 + below(4)), seconds_(static_cast<double>(3 * below(3))),
        patience_(below(2) ? 12 : 1e9), model_(streams_, seconds_, patience_),
        executor_({.streams = static_cast<int64_t>(streams_),
                   .context = 1 << 17,
                   .max_batch = 512,
                   .recurrent = below(2) == 0}),
        sequences_(count) {
    executor_.before_step = [this] { before_step(); };
    scheduler_.emplace(executor_, executor_.program, nullptr, engine::PrefixSettings{.bytes = kBytes},
                       engine::Turns{.seconds = seconds_, .patience = patience_, .share = 1, .clock = [this] {
                                       return clock_.load();
                                     }});
  }

  // Returns false on a deadlock.
  bool run() {
    model_.submit(random_job());
    model_.start(clock_); // before the scheduler's thread sees it
    expected_ = model_.running;
    submit_to_scheduler(0);
    begun_ = true;
    for (int64_t before = -1; ended() < static_cast<int64_t>(count_); before = ended())
      if (!tests::eventually("a further sequence to end", [&] { return ended() > before; })) return false;
    return true;
  }

  void check_answers() {
    int64_t wrong = 0, preemptions = 0;
    for (size_t i = 0; i < count_; ++i) {
      const Job& job = model_.jobs[i];
      uint64_t state = History::after(0, job.prompt);
      int64_t taken = 0;
      for (; const auto token = sequences_[i]->next(); ++taken) {
        wrong += token->id != History::next_of(state, kModelVocab);
        state = History::after(state, token->id);
      }
      wrong += taken != job.generated || sequences_[i]->stop() != job.stop;
      wrong += sequences_[i]->times_preempted() != job.preempted;
      preemptions += job.preempted;
    }
    CHECK(wrong == 0);
    CHECK(other_steps_ == 0);
    const Scheduler::Counts counts = scheduler_->counts();
    CHECK(counts.preemptions == preemptions);
    CHECK(counts.waiting == 0);
    CHECK(counts.running == 0);
    CHECK(std::ranges::count(scheduler_->positions(), -1) == static_cast<int64_t>(streams_));
    CHECK(counts.stored_bytes <= kBytes);
    preemptions_ = preemptions;
  }

  // A large prompt is restored only if nothing in the prefix cache is held.
  void check_nothing_is_held() {
    executor_.before_step = nullptr; // the scheduler waits for work
    std::vector<int32_t> large(86'000);
    for (int32_t& token : large) token = static_cast<int32_t>(below(kModelVocab));
    const auto ask = [&](const std::vector<int32_t>& prompt) {
      SequenceRequest request;
      request.prompt = prompt;
      request.sampling.temp = 0;
      request.limit = 1;
      const auto sequence = scheduler_->submit(std::move(request));
      while (sequence->next()) {
      }
      return sequence->cached_tokens();
    };
    ask(large);
    for (size_t i = 0; i <= streams_; ++i) ask({static_cast<int32_t>(i), 1, 2, 3});
    CHECK(ask(large) == std::ssize(large) - 1);
  }

  int64_t steps() const { return steps_; }
  int64_t preemptions() const { return preemptions_; }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  int64_t ended() const { return scheduler_->counts().ended; }

  Job random_job() {
    return {.prompt = static_cast<int32_t>(below(kModelVocab)),
            .priority = below(3) == 0 ? static_cast<int64_t>(below(5)) - 2 : 0,
            .limit = 1 + static_cast<int64_t>(below(30)),
            .since = clock_};
  }

  void submit_to_scheduler(size_t number) {
    const Job& job = model_.jobs[number];
    SequenceRequest request;
    request.prompt = {job.prompt};
    request.sampling.temp = 0;
    request.limit = job.limit;
    request.priority = job.priority;
    request.is_end = [this, number](int32_t) {
      given_.push_back(number);
      return false;
    };
    sequences_[number] = scheduler_->submit(std::move(request));
  }

  // Runs on the scheduler's thread; tokens are chosen later.
  void before_step() {
    while (!begun_) std::this_thread::yield();
    if (steps_++ > 0) {
      std::ranges::sort(given_);
      std::ranges::sort(expected_);
      other_steps_ += given_ != expected_;
    }
    given_.clear();
    expected_ = model_.running;
    clock_ = clock_ + static_cast<double>(below(4)) / 2;
    const size_t before = model_.jobs.size();
    const auto come = [&] {
      if (model_.jobs.size() < count_) model_.submit(random_job());
    };
    if (model_.waiting.size() < 30)
      for (uint64_t more = below(4) == 0 ? below(4) : 0; more > 0; --more) come();
    for (size_t i = before; i < model_.jobs.size(); ++i) submit_to_scheduler(i);
    if (below(8) == 0) cancel(below(model_.jobs.size()));
    model_.step(clock_);
    if (!model_.running.empty() || model_.jobs.size() == count_) return;
    come(); // otherwise no step follows
    submit_to_scheduler(model_.jobs.size() - 1);
    model_.start(clock_);
  }

  void cancel(size_t number) {
    sequences_[number]->cancel();
    model_.jobs[number].cancelled = true;
  }

  std::mt19937_64 random_;
  const size_t count_, streams_;
  const double seconds_, patience_;
  std::atomic<double> clock_ = 0;
  std::atomic<bool> begun_ = false;
  // Used only by the scheduler's thread until all have ended:
  Model model_;
  std::vector<size_t> expected_, given_;
  int64_t steps_ = 0, other_steps_ = 0, preemptions_ = 0;

  History executor_;
  std::vector<std::shared_ptr<Sequence>> sequences_;
  std::optional<Scheduler> scheduler_;
};

} // namespace

TEST_CASE("scheduler: random sequences get their tokens when a naive model says, and leave nothing behind") {
  const char* const wanted = std::getenv("RIDGE_SCHEDULER_SEQUENCES");
  const size_t sequences = wanted ? static_cast<size_t>(std::atoll(wanted)) : 4000;
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  constexpr uint64_t kRounds = 8;
  int64_t steps = 0, preemptions = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    Play play(seed + round, sequences / kRounds);
    REQUIRE(play.run());
    play.check_answers();
    play.check_nothing_is_held();
    steps += play.steps();
    preemptions += play.preemptions();
  }
  CHECK(preemptions > static_cast<int64_t>(sequences) / 10);
  MESSAGE(sequences, " sequences, ", steps, " steps, ", preemptions, " preemptions");
}
