// Serves many sequences with one executor. Each takes one of the executor's streams; all that run take part in the next
// step: those that generate with one token, those whose prompt is not evaluated yet with a piece of it, so that a long
// prompt stalls no other. A stream keeps what it evaluated, and a prompt that begins like it continues there, or with a
// copy of it where the stream is busy. What a stream loses to another prompt stays in the prefix cache, from where a
// later prompt gets it back.
//
// Where more sequences are there than streams, those of the lowest priority number go first, and those of one number
// take turns: what a sequence has evaluated is kept in the prefix cache while another one has its stream, and it goes
// on with what it would have gone on with.
//
// A sequence that generates alone leaves most of a step's arithmetic unused. Then a step also checks guesses of what
// follows, and the executor chooses the tokens itself where it can.
#pragma once

#include "core/executor.h"
#include "core/view/sequences.h"
#include "engine/sequences/prefix_cache.h"
#include "engine/sequences/prompt_share.h"
#include "engine/sequences/sequence.h"
#include "engine/sequences/stream_cache.h"
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
  // What evaluates the steps: a thread of the scheduler's own, or the thread that calls advance().
  enum class Driver { thread, caller };

  // Both must outlive the scheduler, which uses all streams of the executor. The speculator guesses for a sequence that
  // generates alone, as many tokens as the executor has outputs for; null: no guesses. One that reads hidden rows does
  // so for sequences that ran alone when they began.
  // Throws std::logic_error if the executor gives fewer outputs than it has streams, and Error where the prefix cache's
  // folder cannot be made.
  Scheduler(core::Executor& executor, const core::Program& program, std::unique_ptr<Speculator> speculator = nullptr,
            const PrefixSettings& prefixes = {}, const Turns& turns = {}, Driver driver = Driver::thread);
  ~Scheduler(); // cancels what has not ended

  // Throws Error for a prompt that is empty, does not fit the context or has tokens outside the vocabulary, for
  // sampling parameters out of range, and after drain().
  std::shared_ptr<Sequence> submit(SequenceRequest request);
  // Takes no further sequence and returns when all have ended and what they evaluated is in the prefix cache's folder.
  void drain();

  // For the thread that drives the scheduler, between steps. Evaluates the next step of all that run, on that thread;
  // false: nothing is left to do.
  bool advance();
  // What a stream holds, and to forget all of it but the first `count` tokens, where no sequence has it: the executor
  // was used for something else.
  std::span<const int32_t> cached(int32_t stream) const { return streams_.at(stream).cache.tokens(); }
  void keep(int32_t stream, int64_t count) { streams_.at(stream).cache.keep(count); }

  // What a stream holds goes to a folder, comes back from there in place of what the stream holds, or is forgotten, as
  // soon as no sequence has the stream. Unless the scheduler is driven. The first two throw Error for a folder that
  // cannot be written or read, one of another model, and where the executor cannot copy its caches.
  struct StreamFile {
    int64_t tokens = 0, bytes = 0; // that were written, or came back
  };
  StreamFile save_stream(int32_t stream, const std::string& folder, const std::string& model);
  StreamFile restore_stream(int32_t stream, const std::string& folder, const std::string& model);
  int64_t erase_stream(int32_t stream); // returns how many tokens were there

  struct Counts {
    int64_t running = 0, waiting = 0; // sequences now
    int64_t ended = 0;
    int64_t preemptions = 0;                                            // so far
    int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0; // of all sequences so far
    int64_t stored_tokens = 0, disk_tokens = 0;  // of cached_tokens: from the prefix cache; of those, from its folder
    int64_t stored_bytes = 0;                    // that the prefix cache holds now
    int64_t guesses_made = 0, guesses_right = 0; // tokens; of all sequences so far
    int64_t steps = 0;
    double seconds = 0, bytes = 0; // of all steps
  };
  Counts counts() const;
  // What each stream's sequence has evaluated and how much of the context that is; -1 where none runs.
  std::vector<int64_t> positions() const;
  // All sequences, streams and prefixes, for people to look at: as they were before the step that followed the last
  // call. They are current where nothing runs, and for a thread that drives the scheduler itself.
  core::Sequences sequences() const;
  bool keeps_prefixes() const { return keeps_prefixes_; } // until copying fails
  bool speculates() const { return speculator_ != nullptr; }

 private:
  struct Stream {
    StreamCache cache;
    std::shared_ptr<Sequence> sequence; // null: free
    uint64_t last_used = 0;             // step
    uint64_t started = 0;               // the step before the sequence's first one
    Turn turn;                          // of the sequence
  };
  struct Piece { // of a step
    int32_t stream;
    std::vector<int32_t> tokens;
    bool reading;        // they are of the prompt
    bool wanted;         // the logits of the last token, and of those in front of guesses
    int64_t guesses = 0; // the last so many tokens
    bool all = false;    // the logits of all tokens, for what was likely in their places

    int64_t known() const { return std::ssize(tokens) - guesses; }
    int64_t outputs() const { return all ? std::ssize(tokens) : wanted ? guesses + 1 : 0; }
  };

  void check_pictures(const SequenceRequest& request) const;
  void when_free(int32_t stream, std::function<void(StreamCache& cache)> work);
  bool has_free_job() const;
  void run_jobs();
  PrefixSettings own_files(const std::string& folder, const std::string& model, std::string& problem) const;
  void run();
  bool look_around();
  bool wait_for_work();
  core::Sequences describe() const;
  void work();
  void end_everything();
  void step();
  std::vector<Piece> plan_step();

  // For sequences that wait (scheduler_turns.cpp):
  struct Start {
    std::shared_ptr<Sequence> sequence; // null: none can
    int32_t stream = -1;                // whose sequence gives it up; -1: one is free
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

  // For prompts that begin like others (scheduler_prefix.cpp):
  int64_t stored(std::span<const int32_t> prompt) const;
  int64_t use_prefixes(Stream& stream);
  void keep_lost(Stream& stream, std::span<const int32_t> text);
  int64_t exchange_prefixes(Stream& stream);
  void restore(Stream& stream);
  void give_up_prefixes(const char* why);
  bool shares_prefix(Stream& stream);
  void count_cached(Sequence& sequence, int64_t tokens);
  void count_stored(Sequence& sequence, int64_t tokens, int64_t from_disk);
  void keep_all(std::unique_lock<std::mutex>& lock);

  void evaluate(std::span<const Piece> pieces);
  void describe_prompt(const Piece& piece, int64_t output);
  std::vector<int32_t> choose_by_executor(std::span<const Piece> pieces);
  void count_step(double seconds, double bytes);
  void choose(const Piece& piece, int64_t output, std::span<const int32_t> chosen = {});
  int32_t sample(Sequence& sequence, int64_t output, std::optional<core::TokenChoice>& choice);
  void take(Stream& stream, int32_t token, std::optional<core::TokenChoice> choice);
  void settle(const Piece& piece, const Sequence& sequence, int64_t right, bool ended);

  // For models that write by diffusion (scheduler_diffusion.cpp):
  void check_filled(const SequenceRequest& request) const;
  void begin_canvas(Sequence& sequence) const;
  void fill_step();
  void fill(Stream& stream);
  std::vector<Canvas::Guess> guess(Sequence& sequence);

  // For a sequence that generates alone (scheduler_alone.cpp):
  Stream* only_one();
  int32_t number_of(const Stream& stream) const { return static_cast<int32_t>(&stream - streams_.data()); }
  void follow(Stream& stream);
  void hand_over_rows(int32_t stream, int64_t first, const Sequence& sequence, int64_t end, int64_t count);
  bool somebody_joins() const;
  bool start_decoding(const Stream& stream);
  void await();
  void decode(const Piece& piece);
  int64_t worth_guessing(const Stream& stream, int64_t known, int64_t most);
  int64_t most_guesses(const Sequence& sequence, int64_t known, int64_t coming) const;
  void add_guesses(Piece& piece);

  void end(Stream& stream, StopReason stop, std::exception_ptr error = nullptr);
  void end_all(const std::exception_ptr& error);
  void finish(const std::shared_ptr<Sequence>& sequence, StopReason stop, std::exception_ptr error = nullptr);
  double bytes_of(std::span<const Piece> pieces) const;
  double bytes_of(int64_t tokens, int64_t past, int64_t streams, int64_t outputs) const;

  core::Executor& executor_;
  const core::Program& program_;
  std::vector<Stream> streams_; // the scheduler's thread alone
  uint64_t step_ = 0;
  std::unique_ptr<PrefixCache> prefixes_; // null: none
  std::atomic<bool> keeps_prefixes_;
  TurnPolicy turns_;
  PromptShare share_;
  const bool driven_; // by the thread that calls advance()
  const bool fills_;  // its model writes by diffusion

  // For a sequence that generates alone; only the scheduler's thread uses these.
  const std::unique_ptr<Speculator> speculator_; // null: no guesses
  std::optional<uint64_t> guessed_for_;          // number of the sequence whose text the speculator knows
  int32_t followed_ = -1;                        // the stream whose hidden rows the speculator reads; -1: none
  bool decoding_ = false;                        // the executor chooses the tokens itself
  bool awaits_ = false;                          // it has chosen one, or is about to, that was not taken yet
  int64_t evaluating_ = 0;                       // how many tokens it evaluates for that

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Sequence>> waiting_;
  struct Job { // for a stream that is free
    int32_t stream;
    std::packaged_task<void(StreamCache&)> work;
  };
  std::vector<Job> jobs_;
  std::vector<int64_t> positions_;
  core::Sequences seen_;
  mutable std::atomic<bool> looked_at_ = true; // since seen_ was made
  uint64_t submitted_ = 0;
  Counts counts_;
  bool draining_ = false, stopping_ = false;
  bool kept_ = false;  // since draining: all is in the prefix cache and its folder
  std::thread thread_; // unless it is driven
};

} // namespace ridge::engine
