// Serves many sequences with one executor. A step evaluates one token of each generating sequence and pieces of
// unfinished prompts, so a long prompt stalls no other sequence. A stream keeps evaluated tokens for later prompts with
// the same prefix; the prefix cache keeps what it loses. With too few streams, lower priority numbers go first and
// equal ones take turns; a preempted sequence later continues with exactly its rows.
// A sequence that generates alone leaves most of a step's arithmetic unused: steps then also check draft tokens, and
// the executor chooses tokens itself where it can.
#pragma once

#include "api/sequences.h"
#include "core/executor.h"
#include "engine/prefixes/prefix_cache.h"
#include "engine/prefixes/stream_cache.h"
#include "engine/sequences/prompt_share.h"
#include "engine/sequences/sequence.h"
#include "engine/sequences/turns.h"
#include "engine/speculation/speculator.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace ridge::engine {

class Scheduler {
 public:
  // Steps run on the scheduler's own thread, or in calls of advance().
  enum class Driver { thread, caller };

  // The references must outlive the scheduler, which uses all streams. The speculator (may be null) drafts for a
  // sequence that generates alone; if it reads hidden rows, the sequence must have been alone from its start. Throws
  // std::logic_error for fewer outputs than streams, and Error if the prefix folder cannot be created.
  Scheduler(core::Executor& executor, const core::Program& program, std::unique_ptr<Speculator> speculator = nullptr,
            const PrefixSettings& prefixes = {}, const Turns& turns = {}, Driver driver = Driver::thread);
  ~Scheduler();

  // Throws Error if the prompt is empty, exceeds the context or has unknown tokens, if sampling parameters are out of
  // range, and after drain().
  std::shared_ptr<Sequence> submit(SequenceRequest request);
  // Accepts no more sequences. Returns when all have ended and their rows are in the prefix folder.
  void drain();

  // Only with Driver::caller. Evaluates one step; returns false if nothing is left to do.
  bool advance();
  // For a driver that has used the executor for something else. No sequence may have the stream.
  std::span<const int32_t> cached(int32_t stream) const { return streams_.at(stream).cache.tokens(); }
  void keep(int32_t stream, int64_t count) { streams_.at(stream).cache.keep(count); }

  // Save, restore and empty a stream as soon as no sequence has it. Not with Driver::caller. The first two throw Error
  // if the folder is unusable or belongs to another model, and if the executor cannot copy caches.
  struct StreamFile {
    int64_t tokens = 0, bytes = 0;
  };
  StreamFile save_stream(int32_t stream, const std::string& folder, const std::string& model);
  StreamFile restore_stream(int32_t stream, const std::string& folder, const std::string& model);
  int64_t erase_stream(int32_t stream); // returns the number of dropped tokens

  struct Counts {
    int64_t running = 0, waiting = 0;
    int64_t ended = 0;
    int64_t preemptions = 0;
    int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
    // Part of cached_tokens that came from the prefix cache, and part of those from its folder.
    int64_t stored_tokens = 0, disk_tokens = 0;
    int64_t stored_bytes = 0;
    int64_t guesses_made = 0, guesses_right = 0;
    int64_t steps = 0;
    double seconds = 0, bytes = 0;
  };
  Counts counts() const;
  // Number of evaluated tokens by stream; -1: no sequence.
  std::vector<int64_t> positions() const;
  // A snapshot for display. It is taken in the step after the previous call; it is current if nothing runs or the
  // caller drives the scheduler.
  api::Sequences sequences() const;
  bool keeps_prefixes() const { return keeps_prefixes_; } // false once copying failed
  bool speculates() const { return speculator_ != nullptr; }

 private:
  struct Stream {
    StreamCache cache;
    std::shared_ptr<Sequence> sequence;
    uint64_t last_used = 0;
    uint64_t started = 0; // the step before its sequence's first one
    Turn turn;
    bool answered = false; // since keep_answers()
  };
  struct Piece {
    int32_t stream;
    std::vector<int32_t> tokens;
    bool reading;
    bool wanted;         // needs logits of the last known token and of guesses
    int64_t guesses = 0; // draft tokens at the end of `tokens`
    bool all = false;    // needs logits of all its tokens

    int64_t known() const { return std::ssize(tokens) - guesses; }
    int64_t outputs() const { return all ? std::ssize(tokens) : wanted ? guesses + 1 : 0; }
  };

  void check_pictures(const SequenceRequest& request) const;
  void when_free(int32_t stream, std::function<void(StreamCache& cache)> work);
  bool has_free_job() const;
  void run_jobs();
  PrefixSettings own_files(const std::string& folder, const std::string& model, std::string& problem) const;
  void run();
  bool publish_progress();
  bool wait_for_work();
  api::Sequences describe() const;
  void work();
  void end_everything();
  void step();
  std::vector<Piece> plan_step();

  // Waiting sequences (scheduler_turns.cpp):
  struct Start {
    std::shared_ptr<Sequence> sequence; // null: none can start
    int32_t stream = -1;                // stream to preempt; -1: one is free
    bool late = false;
  };
  void end_cancelled();
  void start_waiting();
  static Waiting waiting_of(const std::shared_ptr<Sequence>& sequence) {
    return {sequence->request_.priority, sequence->waits_since_, sequence->number_};
  }
  Start next_start() const;
  void start(const Start& next);
  bool preempt(Stream& stream);
  Stream& best_stream(std::span<const int32_t> text);

  // Shared prefixes (scheduler_prefix.cpp):
  int64_t stored(std::span<const int32_t> prompt) const;
  int64_t use_prefixes(Stream& stream);
  void keep_lost(Stream& stream, std::span<const int32_t> text);
  int64_t exchange_prefixes(Stream& stream);
  void restore(Stream& stream);
  void give_up_prefixes(const char* why);
  bool shares_prefix(Stream& stream);
  void count_cached(Sequence& sequence, int64_t tokens);
  void count_stored(Sequence& sequence, int64_t tokens, int64_t from_disk);
  void keep_answers();
  void keep_all(std::unique_lock<std::mutex>& lock);

  void evaluate(std::span<const Piece> pieces);
  void describe_prompt(const Piece& piece, int64_t output);
  std::vector<const core::Sampler*> samplers_of(std::span<const Piece> pieces) const;
  void count_step(double seconds, double bytes);
  void choose(const Piece& piece, int64_t output, std::span<const int32_t> chosen = {});
  int32_t sample(Sequence& sequence, int64_t output, std::optional<core::TokenChoice>& choice);
  void append_token(Stream& stream, int32_t token, std::optional<core::TokenChoice> choice);
  void commit_guesses(const Piece& piece, const Sequence& sequence, int64_t right, bool ended);

  // Diffusion models (scheduler_diffusion.cpp):
  void check_filled(const SequenceRequest& request) const;
  void begin_canvas(Sequence& sequence) const;
  void diffusion_step();
  void fill(Stream& stream);
  std::vector<Canvas::Guess> guess(Sequence& sequence);

  // A sequence that generates alone (scheduler_alone.cpp):
  Stream* sole_running_stream();
  int32_t number_of(const Stream& stream) const { return static_cast<int32_t>(&stream - streams_.data()); }
  void attach_speculator(Stream& stream);
  void pass_hidden_rows(int32_t stream, int64_t first, const Sequence& sequence, int64_t end, int64_t count);
  bool has_other_work() const;
  bool can_decode(const Piece& piece);
  void await();
  void decode(const Piece& piece);
  int64_t draft_length(const Stream& stream, int64_t known, int64_t most);
  int64_t most_guesses(const Sequence& sequence, int64_t known, int64_t coming) const;
  void add_guesses(Piece& piece);
  std::vector<int32_t> forced_guesses(const Sequence& sequence, int64_t known, int64_t most);

  void end(Stream& stream, StopReason stop, std::exception_ptr error = nullptr);
  void end_all(const std::exception_ptr& error);
  void finish(const std::shared_ptr<Sequence>& sequence, StopReason stop, std::exception_ptr error = nullptr);
  double bytes_of(std::span<const Piece> pieces) const;
  double bytes_of(int64_t tokens, int64_t past, int64_t streams, int64_t outputs) const;

  core::Executor& executor_;
  const core::Program& program_;
  std::vector<Stream> streams_; // only the scheduler's thread uses it
  uint64_t step_ = 0;
  std::unique_ptr<PrefixCache> prefixes_;
  std::atomic<bool> keeps_prefixes_;
  TurnPolicy turns_;
  PromptShare share_;
  const bool driven_by_caller_;
  const bool is_diffusion_;

  // For a sequence that generates alone; only the scheduler's thread uses these.
  const std::unique_ptr<Speculator> speculator_;
  std::optional<uint64_t> guessed_for_;
  int32_t speculated_stream_ = -1; // stream with the hidden rows for the speculator; -1: none
  bool decoding_ = false;          // the executor chooses tokens itself
  bool has_pending_token_ = false; // one chosen or pending token was not taken yet
  int64_t evaluating_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Sequence>> waiting_;
  struct Job {
    int32_t stream;
    std::packaged_task<void(StreamCache&)> work;
  };
  std::vector<Job> jobs_;
  std::vector<int64_t> positions_;
  api::Sequences snapshot_;
  mutable std::atomic<bool> snapshot_requested_ = true; // since snapshot_ was made
  uint64_t submitted_ = 0;
  Counts counts_;
  bool draining_ = false, stopping_ = false;
  bool kept_ = false;
  std::thread thread_;
};

} // namespace ridge::engine
