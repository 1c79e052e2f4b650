// What a step evaluates: one token of each generating sequence and pieces of unfinished prompts.
#pragma once

#include "engine/sequences/prompt_share.h"
#include "engine/sequences/streams.h"

#include <functional>
#include <span>
#include <vector>

namespace ridge::engine {

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

class StepPlanner {
 public:
  // All must outlive it.
  StepPlanner(const core::Executor& executor, const core::Program& program, Streams& streams)
      : executor_(executor), program_(program), streams_(streams) {}

  // `waits`: whether a stream that reads a prompt must not continue yet.
  std::vector<Piece> plan(const std::function<bool(Stream&)>& waits);
  PlacedBatch batch_of(std::span<const Piece> pieces) const;
  // Reports the time of a step with generating sequences.
  void record_step(int64_t prompt_tokens, double seconds) { share_.record_step(prompt_tokens, seconds); }

  // Counts weights once, and each stream's cache.
  double bytes_of(std::span<const Piece> pieces) const;
  double bytes_of(int64_t tokens, int64_t past, int64_t streams, int64_t outputs) const;

 private:
  const core::Executor& executor_;
  const core::Program& program_;
  Streams& streams_;
  PromptShare share_;
};

} // namespace ridge::engine
