#include "engine/sequences/scheduler.h"

#include "core/error.h"
#include "engine/adapters/adapters.h"
#include "engine/sequences/filling.h"
#include "engine/sequences/view.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ridge::engine {

Scheduler::Scheduler(core::Executor& executor, const core::Program& program, std::unique_ptr<Speculator> speculator,
                     const PrefixSettings& prefixes, const Turns& turns, Driver driver)
    : executor_(executor), program_(program), driven_by_caller_(driver == Driver::caller),
      streams_(make_streams(executor, program)), prefixes_(executor, program, prefixes, streams_), turns_(turns),
      ledger_(executor.config().streams),
      steps_(executor, program, streams_, prefixes_, ledger_, turns.clock, std::move(speculator),
             driver == Driver::thread,
             {.has_other_work = [this] { return intake_.interrupts(streams_) || next_start().sequence; },
              .end = [this](Stream& stream, StopReason stop,
                            std::exception_ptr error) { end(stream, stop, std::move(error)); }}) {
  const core::ExecutorConfig& config = executor.config();
  if (config.max_outputs < config.streams || config.max_batch < config.streams)
    throw std::logic_error("Scheduler: an executor with fewer outputs or rows than streams");
  if (!driven_by_caller_) thread_ = std::thread([this] { run(); });
}

Scheduler::~Scheduler() {
  intake_.stop();
  driven_by_caller_ ? end_everything() : thread_.join();
}

void Scheduler::check(const SequenceRequest& request) const {
  const core::ExecutorConfig& config = executor_.config();
  check_prompt(request.prompt, config.context, program_.vocab, request.pictures);
  if (!request.pictures.empty() && request.keep_prompt_choices)
    throw_error("a prompt with images or audio has no token probabilities");
  for (const TextPictures::Place& place : request.pictures.places())
    if (place.tile->sees_ahead && place.tile->tokens > config.max_batch)
      throw_error("an image of {} tokens must be evaluated at once, but at most {} fit: raise -ub", place.tile->tokens,
                  config.max_batch);
  if (core::sees_ahead(program_)) check_filled(request, program_);
  if (program_.start_token >= 0 && request.keep_prompt_choices)
    throw_error("an encoder reads the prompt as a whole: its tokens have no probabilities");
  core::validate(request.sampling, program_.vocab);
  if (request.stream >= std::ssize(streams_)) throw_error("stream {} of {}", request.stream, streams_.size());
}

std::shared_ptr<Sequence> Scheduler::submit(SequenceRequest request) {
  check(request);
  auto sequence = std::make_shared<ScheduledSequence>(std::move(request));
  sequence->adapters_ = adapter_uses(program_.adapters, sequence->request_.adapter_scales, sequence->tokens_);
  sequence->marked_ = marked_text(sequence->tokens_, program_.adapters, sequence->adapters_);
  sequence->waits_since_ = turns_.now();
  intake_.submit(sequence);
  return sequence;
}

void Scheduler::drain() {
  intake_.close();
  if (driven_by_caller_) {
    while (advance()) continue;
    if (!intake_.kept()) keep_all();
  }
  intake_.wait_for_end();
}

void Scheduler::run_when_free(int32_t stream, Intake::StreamWork work) {
  if (driven_by_caller_) throw std::logic_error("Scheduler: no thread runs work on streams");
  intake_.run_when_free(stream, std::move(work));
}

StreamFile Scheduler::save_stream(int32_t stream, const std::string& folder, const std::string& model) {
  StreamFile saved;
  run_when_free(stream, [&](StreamCache& cache) {
    saved = engine::save_stream(executor_, program_, cache, stream, folder, model);
  });
  return saved;
}

StreamFile Scheduler::restore_stream(int32_t stream, const std::string& folder, const std::string& model) {
  StreamFile restored;
  const std::vector<int32_t> tokens = read_saved_tokens(folder);
  if (!tokens.empty()) check_prompt(tokens, executor_.config().context, program_.vocab);
  run_when_free(stream, [&](StreamCache& cache) {
    restored = engine::restore_stream(executor_, program_, cache, stream, tokens, folder, model);
  });
  return restored;
}

int64_t Scheduler::erase_stream(int32_t stream) {
  int64_t erased = 0;
  run_when_free(stream, [&](StreamCache& cache) {
    erased = cache.size();
    cache.keep(0);
  });
  return erased;
}

Scheduler::Counts Scheduler::counts() const {
  Counts counts = ledger_.counts();
  counts.waiting = intake_.waiting();
  return counts;
}

api::Sequences Scheduler::sequences() const {
  if (driven_by_caller_) return describe();
  snapshot_requested_ = true;
  const std::scoped_lock lock(snapshot_mutex_);
  return snapshot_;
}

api::Sequences Scheduler::describe() const {
  return intake_.look([&](std::span<const SequencePointer> waiting) {
    return describe_sequences(streams_, waiting, prefixes_, executor_.config().context, turns_.now());
  });
}

void Scheduler::run() {
  for (;;) {
    switch (intake_.next(publish_progress())) {
    case Intake::Next::work: work(); break;
    case Intake::Next::keep: keep_all(); break;
    case Intake::Next::stop: return end_everything();
    }
  }
}

bool Scheduler::advance() {
  if (!publish_progress() && intake_.waiting() == 0) return false;
  work();
  return true;
}

void Scheduler::work() {
  try {
    end_cancelled();
    if (!steps_.awaits()) run_jobs();
    if (!steps_.awaits()) start_waiting();
    steps_.step();
  } catch (...) {
    for (Stream& stream : streams_) {
      if (!stream.sequence) continue;
      stream.cache.keep(0); // its contents are uncertain
      end(stream, StopReason::interrupted, std::current_exception());
    }
  }
}

// Returns whether a sequence runs.
bool Scheduler::publish_progress() {
  prefixes_.keep_answers();
  prefixes_.preallocate();
  for (const Stream& stream : streams_) ledger_.set_position(stream.number, stream.sequence ? stream.cache.size() : -1);
  const bool busy = std::ranges::any_of(streams_, [](const Stream& s) { return s.sequence != nullptr; });
  if (!driven_by_caller_ && (snapshot_requested_.exchange(false) || !busy)) {
    api::Sequences now = describe();
    const std::scoped_lock lock(snapshot_mutex_);
    snapshot_ = std::move(now);
  }
  return busy;
}

void Scheduler::end_cancelled() {
  for (Stream& stream : streams_)
    if (stream.sequence && stream.sequence->cancelled()) end(stream, StopReason::interrupted);
  for (const SequencePointer& sequence : intake_.take_cancelled()) finish(sequence, StopReason::interrupted);
}

void Scheduler::run_jobs() {
  for (Intake::Job& job : intake_.take_jobs(streams_)) {
    steps_.leave(job.stream);
    job.work(streams_[job.stream].cache);
  }
}

void Scheduler::keep_all() {
  prefixes_.keep_all();
  intake_.set_kept();
}

void Scheduler::end_everything() {
  for (const SequencePointer& sequence : intake_.take_all()) finish(sequence, StopReason::interrupted);
  for (Stream& stream : streams_)
    if (stream.sequence) end(stream, StopReason::interrupted);
  if (!intake_.kept()) keep_all();
}

void Scheduler::start_waiting() {
  for (;;) {
    const Start next = next_start();
    if (!next.sequence) return;
    const double begin = turns_.now();
    if (next.stream >= 0 && !preempt(streams_[next.stream])) return;
    intake_.remove(next.sequence);
    start(next);
    if (const double now = turns_.now(); next.sequence->preempted_ > 0 || next.stream >= 0)
      turns_.exchanged(now - begin, now);
  }
}

Start Scheduler::next_start() const {
  return intake_.look([&](std::span<const SequencePointer> waiting) {
    return engine::next_start(turns_, waiting, streams_, steps_.count(), prefixes_.on());
  });
}

// Returns false if the rows cannot be kept; the sequence then keeps its stream for another turn.
bool Scheduler::preempt(Stream& stream) {
  const bool held = prefixes_.hold(stream);
  const double now = turns_.now();
  if (!held) {
    stream.turn.kept_until = now + turns_.turn_seconds();
    return false;
  }
  steps_.break_chain();
  ScheduledSequence& sequence = *stream.sequence;
  sequence.evaluated_ = stream.cache.size();
  sequence.waits_since_ = now;
  ++sequence.preempted_;
  ledger_.count([&](Counts& counts) {
    ++counts.preemptions;
    counts.stored_bytes = prefixes_.bytes();
  });
  ledger_.set_position(stream.number, -1);
  intake_.put_back(std::exchange(stream.sequence, nullptr));
  return true;
}

void Scheduler::start(const Start& next) {
  ScheduledSequence& sequence = *next.sequence;
  const std::span<const int32_t> tokens = sequence.marked(), own = tokens.first(sequence.evaluated_);
  const std::span<const int32_t> useful = sequence.reuses() ? tokens : own;
  const int32_t wanted = sequence.request_.stream;
  Stream& stream = wanted >= 0 ? streams_[wanted] : best_stream(streams_, useful, prefixes_.usable(useful));
  stream.sequence = next.sequence;
  sequence.start(program_.vocab, turns_.now());
  const SharedPrefixes::Loaded loaded = prefixes_.load(stream);
  if (loaded.tokens > 0) sequence.stored_ = loaded.tokens, sequence.from_disk_ = loaded.from_disk;
  if (!sequence.reuses()) stream.cache.keep(sequence.evaluated_);
  steps_.enter(stream);
  if (sequence.pictures()) stream.cache.keep(sequence.pictures()->whole(stream.cache.common(tokens)));
  const int64_t same = stream.cache.resume(tokens);
  if (!program_.adapters.empty()) executor_.set_adapters(stream.number, sequence.adapters_);
  if (loaded.branch > 0) stream.cache.want_copy(loaded.branch);
  const double now = turns_.now();
  stream.started = steps_.count();
  stream.turn = {.start = now, .late = next.late};
  turns_.started(next.late, now);
  if (same < sequence.evaluated_) { // its rows are lost: read all again
    sequence.text_ = std::ssize(sequence.tokens_);
    sequence.must_reevaluate_ = true;
  }
  const int64_t prompt = sequence.prompt();
  sequence.read_ = same;
  if (sequence.stream_.exchange(stream.number) < 0) sequence.resumed_ = same;
  ledger_.count_cached(sequence, std::min(same, prompt) - std::min(sequence.evaluated_, prompt));
  ledger_.count([&](Counts& counts) {
    counts.stored_tokens += loaded.tokens;
    counts.disk_tokens += loaded.from_disk;
    if (prefixes_.on()) counts.stored_bytes = prefixes_.bytes();
    if (sequence.preempted_ == 0) counts.prompt_tokens += prompt;
  });
  ledger_.set_position(stream.number, same);
}

void Scheduler::end(Stream& stream, StopReason stop, std::exception_ptr error) {
  steps_.break_chain();
  ledger_.set_position(stream.number, -1);
  stream.answered = !error;
  finish(std::exchange(stream.sequence, nullptr), stop, std::move(error));
}

void Scheduler::finish(const SequencePointer& sequence, StopReason stop, std::exception_ptr error) {
  prefixes_.release(*sequence);
  ledger_.count([&](Counts& counts) {
    ++counts.ended;
    counts.generated_tokens += sequence->generated_;
    counts.guesses_made += sequence->guesses_.all_made();
    counts.guesses_right += sequence->guesses_.all_right();
  });
  intake_.count_ended();
  sequence->end(stop, std::move(error));
}

} // namespace ridge::engine
