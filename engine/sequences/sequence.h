// A request and its tokens. The scheduler works on it; the submitter takes tokens from any thread, or by callback.
#pragma once

#include "core/sampler.h"
#include "core/token_choice.h"
#include "engine/diffusion/canvas.h"
#include "engine/pictures/text_pictures.h"
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

// The cost of some work: tokens, wall time, and bytes moved as in op_cost.
struct Usage {
  int64_t tokens = 0;
  double seconds = 0;
  double bytes = 0;

  Usage& operator+=(const Usage& other) {
    tokens += other.tokens;
    seconds += other.seconds;
    bytes += other.bytes;
    return *this;
  }
  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
  double bytes_per_second() const { return seconds > 0 ? bytes / seconds : 0; }
};

enum class StopReason {
  end_of_turn,
  limit,
  context_full,
  stopped, // on_token returned false (a stop string)
  interrupted,
};

class Constraint : public core::TokenMask {
 public:
  virtual void accept(int32_t token) = 0; // throws Error for a forbidden token
  // Up to `most` tokens that write the only text that may follow. They are a draft: other tokens may write it, too.
  virtual std::vector<int32_t> forced(int64_t /*most*/) { return {}; }
};

struct Token {
  int32_t id;
  std::optional<core::TokenChoice> choice;
};

// Callbacks run on the scheduler's thread.
struct SequenceRequest {
  std::vector<int32_t> prompt;
  TextPictures pictures = {};
  core::SamplerParams sampling;
  const core::TokenTexts* texts = nullptr;
  int64_t limit = -1;                  // tokens; below 0: until the context is full
  std::function<bool(int32_t)> is_end; // end tokens are not delivered
  // Receives each token before its evaluation, and stops after it by returning false. If empty, use next().
  std::function<bool(const Token&)> on_token;
  std::unique_ptr<Constraint> constraint;
  bool keep_choices = false;
  bool choices_after_samplers = false; // among the samplers' candidates, not raw logits
  bool keep_prompt_choices = false;    // also for prompt tokens; evaluates the whole prompt
  std::vector<float> adapter_scales;   // one per adapter; empty: as loaded
  bool reuse = true;                   // false: do not use cached prefixes
  int64_t priority = 0;                // lower goes first
  int32_t stream = -1;                 // waits for this one; -1: takes any
  std::optional<Diffusion> diffusion;
  std::function<void(std::span<const int32_t> answer)> on_canvas;
};

class Sequence {
 public:
  using Token = engine::Token;

  // Waits for a token; null after the end. Throws the Error that ended the sequence.
  std::optional<Token> next();
  // Waits at most so long. Returns whether next() would not block.
  bool wait(std::chrono::milliseconds most);
  bool ready() const; // the same without waiting
  bool ended() const;
  // Tokens generated until then remain available.
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

  // Readable from any thread.
  struct Progress {
    int64_t read = 0, cached = 0;
    int32_t stream = -1;
  };
  Progress progress() const { return {read_, resumed_, stream_}; }

  // Valid after the end; a driver of the scheduler may call these at any time.
  StopReason stop() const { return stop_; }
  // seconds and bytes: shares of the steps' totals
  const Usage& prompt_usage() const { return prompt_; }
  const Usage& generation_usage() const { return generation_; } // seconds: since the first token
  std::span<const int32_t> tokens() const { return tokens_; }
  // With keep_prompt_choices: one for each prompt token but the first.
  const std::vector<core::TokenChoice>& prompt_choices() const { return prompt_choices_; }
  // Set if choices are kept and a token ended the answer.
  const std::optional<core::TokenChoice>& end_choice() const { return end_choice_; }
  int64_t generated_tokens() const { return generated_; } // includes the end token
  int64_t cached_tokens() const { return cached_; }       // prompt tokens that needed no evaluation
  int64_t stored_tokens() const { return stored_; }       // part of them from the prefix cache
  int64_t disk_tokens() const { return from_disk_; }      // part of those from its folder
  const GuessCounts& guesses() const { return guesses_; } // while it generated alone
  double seconds_waiting() const { return waiting_; }
  int64_t times_preempted() const { return preempted_; }

 protected:
  explicit Sequence(SequenceRequest request);
  void deliver(Token token);
  void announce(); // wakes threads that wait for a token
  void end(StopReason stop, std::exception_ptr error);

  SequenceRequest request_;
  uint64_t number_ = 0;
  std::atomic<bool> cancelled_ = false;
  std::atomic<int64_t> read_ = 0, resumed_ = 0;
  std::atomic<int32_t> stream_ = -1;

  // Until the end, only the scheduler's thread uses these.
  std::optional<core::Sampler> sampler_; // made at the first start: 20 bytes per vocabulary entry
  std::vector<int32_t> tokens_;
  std::vector<core::TokenChoice> prompt_choices_;
  std::optional<core::TokenChoice> end_choice_;
  int64_t generated_ = 0, cached_ = 0, stored_ = 0, from_disk_ = 0;
  double waiting_ = 0;
  int64_t preempted_ = 0;
  Usage prompt_, generation_;
  GuessCounts guesses_;
  StopReason stop_ = StopReason::interrupted;

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Token> arrivals_;
  bool ended_ = false;
  std::exception_ptr error_;
};

} // namespace ridge::engine
