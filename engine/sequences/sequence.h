// One request to a model and the tokens that come back. The scheduler works on it; its submitter takes the tokens
// as they come, from any thread, or is called with them.
#pragma once

#include "core/sampler.h"
#include "core/sampling/token_choice.h"
#include "engine/diffusion/canvas.h"
#include "engine/pictures/text_pictures.h"
#include "engine/prefixes/prefix_store.h"
#include "engine/sequences/usage.h"
#include "engine/speculation/speculator.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace ridge::engine {

enum class StopReason {
  end_of_turn,  // the model generated an end token
  limit,        // as many tokens as were asked for
  context_full, // no room in the KV cache
  stopped,      // on_token returned false (a stop string)
  interrupted,  // cancel()
};

// Keeps the tokens of one answer within a grammar.
class Constraint : public core::TokenMask {
 public:
  virtual void accept(int32_t token) = 0; // throws Error if the token is not allowed
};

// A token of an answer.
struct Token {
  int32_t id;
  std::optional<core::TokenChoice> choice; // what else was likely, where that is kept
};

// What is called is called on the scheduler's thread.
struct SequenceRequest {
  std::vector<int32_t> prompt;
  TextPictures pictures = {}; // of the prompt
  core::SamplerParams sampling;
  const core::TokenTexts* texts = nullptr; // for samplers that look at texts; null: they do without
  int64_t limit = -1;                      // tokens to generate; below 0: until the context is full
  std::function<bool(int32_t)> is_end;     // which tokens end the answer; they are not passed on
  // Takes each token before it is evaluated, and returns false to stop behind it; empty: next() gives them.
  std::function<bool(const Token&)> on_token;
  std::unique_ptr<Constraint> constraint; // null: every token may come
  bool keep_choices = false;              // also say of each token what else was likely
  bool choices_after_samplers = false;    // by what the samplers left over, not by the model's own logits
  bool keep_prompt_choices = false;       // … and of each token of the prompt, which is evaluated whole for that
  std::vector<float> adapter_scales;      // of each of the Program's adapters; empty: as it was loaded
  bool reuse = true;                      // false: nothing that was evaluated before stands for a part of the prompt
  int64_t priority = 0;                   // of those that wait, the lowest goes first
  std::optional<Diffusion> diffusion;     // of a model whose tokens see later ones: how it fills in the answer
  std::function<void(std::span<const int32_t> answer)> on_canvas; // takes all places of it after each step then
};

class Sequence {
 public:
  using Token = engine::Token;

  // Waits for the next token; nothing once the answer has ended. Throws the Error that ended it.
  std::optional<Token> next();
  // Waits until next() would not, at most so long, and says whether it would not.
  bool wait(std::chrono::milliseconds most);
  bool ended() const;
  // Ends the sequence soon. What it has generated until then can still be taken.
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

  // While it runs, from any thread: how far the prompt is read, how much of it was cached, and in which stream.
  struct Progress {
    int64_t read = 0, cached = 0; // tokens
    int32_t stream = -1;          // -1: it has none yet
  };
  Progress progress() const { return {read_, resumed_, stream_}; }

  // Valid once next() has returned nothing; for the thread that drives the scheduler, also before:
  StopReason stop() const { return stop_; }
  // Tokens that were evaluated, the time of the steps they were part of, and their share of those steps' bytes.
  const Usage& prompt_usage() const { return prompt_; }
  const Usage& generation_usage() const { return generation_; } // wall time from the first token on
  std::span<const int32_t> tokens() const { return tokens_; }   // the prompt, and what was generated
  // The choice of each token of the prompt but the first, where choices are kept.
  const std::vector<core::TokenChoice>& prompt_choices() const { return prompt_choices_; }
  // The choice of the token that ended the answer, where choices are kept; nothing where no token ended it.
  const std::optional<core::TokenChoice>& end_choice() const { return end_choice_; }
  int64_t generated_tokens() const { return generated_; } // the end token too
  int64_t cached_tokens() const { return cached_; }       // of the prompt, that did not have to be evaluated
  int64_t stored_tokens() const { return stored_; }       // of these, from the prefix cache
  int64_t disk_tokens() const { return from_disk_; }      // of these, from its folder
  const GuessCounts& guesses() const { return guesses_; } // while it generated alone
  double seconds_waiting() const { return waiting_; }     // for a stream, all together
  int64_t times_preempted() const { return preempted_; }  // that another one took its stream

 private:
  friend class Scheduler;
  explicit Sequence(SequenceRequest request);

  void start(int64_t vocab, double now); // there is a stream for it

  // What is read, in pieces, before it generates.
  std::span<const int32_t> text() const { return std::span(tokens_).first(text_); }
  // The same and all tokens as caches tell them from others (marked_text()).
  std::span<const int32_t> marked() const { return marked_.empty() ? tokens_ : marked_; }
  std::span<const int32_t> marked_text() const { return marked().first(text_); }
  std::span<const int32_t> marked_prompt() const { return marked().first(request_.prompt.size()); }
  bool reuses() const { return request_.reuse && !request_.keep_prompt_choices; }
  const TextPictures* pictures() const { return request_.pictures.empty() ? nullptr : &request_.pictures; }
  bool text_done(int64_t cached) const { return cached >= text_; }
  void deliver(Token token);
  void end(StopReason stop, std::exception_ptr error);

  SequenceRequest request_;
  uint64_t number_ = 0; // in the order of submission
  std::atomic<bool> cancelled_ = false;
  std::atomic<int64_t> read_ = 0, resumed_ = 0;
  std::atomic<int32_t> stream_ = -1;

  // The scheduler's thread alone, until the end.
  std::optional<core::Sampler> sampler_;   // from the first start on: 20 bytes for each token of the vocabulary
  std::vector<int32_t> tokens_;            // the prompt and what was generated
  std::vector<core::AdapterUse> adapters_; // how much of each counts
  std::vector<int32_t> marked_;            // empty: tokens_
  std::optional<Canvas> canvas_;           // of a text that is filled in, from its first step on
  std::vector<core::TokenChoice> prompt_choices_;
  std::optional<core::TokenChoice> end_choice_;
  int64_t text_; // the prompt's tokens; all so far, where those that were evaluated are lost
  int64_t generated_ = 0, cached_ = 0, stored_ = 0, from_disk_ = 0;
  double waits_since_ = 0, waiting_ = 0;            // seconds
  int64_t preempted_ = 0, evaluated_ = 0;           // evaluated: tokens, when it was preempted last
  std::optional<PrefixStore::Hold> evaluated_rows_; // while it is preempted
  bool reads_again_ = false;                        // what it had evaluated, as there was no way to keep it
  Usage prompt_, generation_;
  GuessCounts guesses_;
  StopReason stop_ = StopReason::interrupted;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Token> arrivals_;
  bool ended_ = false;
  std::exception_ptr error_;
};

} // namespace ridge::engine
