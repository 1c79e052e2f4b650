// Guesses of the draft heads that a model's file has behind its layers (multi-token prediction, "nextn"), or of one
// that is a file of its own (EAGLE-3).
//
// A head reads a token and a hidden row of the token before it. It has keys and values of its own, of every token of
// the text. Where the model has several streams, so has the head, and knows a text for each. The first head reads the
// model's hidden rows, which are handed over as the model makes them. Each further head reads the
// rows of the head before it, and so it was trained: the first guess is the first head's, the second guess the second
// head's. Where there are more guesses than heads, the last head goes on with its own rows, as if they were those of
// the head before.
#pragma once

#include "core/sampler.h"
#include "engine/loaded_model.h"
#include "engine/speculation/drafter.h"

namespace ridge::engine {

// A head on a stream of its executor: the tokens that its cache holds, and the rows that it is yet to read.
class DraftHead {
 public:
  // The executor has no recurrent state, and one output. `greedy` picks the likeliest token. All must outlive it.
  DraftHead(const LoadedHead& head, int32_t stream, core::Sampler& greedy);

  int64_t size() const { return size_; } // tokens that the cache holds, with those before LoadedHead::first_token
  // The first token whose row is yet to come before all tokens can be read.
  int64_t missing_row() const { return rows_end(); }
  void keep(int64_t count); // goes back to the first `count` tokens
  // Hidden rows of the tokens from `position` on. Those that were there from there on are dropped.
  void add_rows(int64_t position, std::span<const float> rows);

  // Reads `text` up to token `end`; rows of tokens before the last one that never came are 0. `next` gets the rows that
  // come out. Returns so many guesses of what follows, each made with the row of the one before; of a head with a next
  // one at most one. They end early, with -1, where logits are unusable.
  std::vector<int32_t> read(std::span<const int32_t> text, int64_t end, DraftHead* next, int64_t guesses = 0);

 private:
  int64_t rows_end() const { return first_row_ + std::ssize(rows_) / width_; }
  std::vector<int32_t> forward(std::span<const int32_t> text, int64_t count, DraftHead* next, int64_t guesses);

  core::Executor& executor_;
  const int32_t stream_;
  const int64_t first_token_;
  const int64_t width_;
  core::Sampler& greedy_;
  int64_t size_;
  // Rows of tokens from first_row_ < size_ on, some that were read already among them. That of token -1, before the
  // first, is 0.
  int64_t first_row_ = -1;
  std::vector<float> rows_;
};

class HeadDrafter final : public Drafter {
 public:
  // The heads that `model` was opened with; it must outlive the drafter.
  explicit HeadDrafter(const LoadedModel& model);

  void begin(std::span<const int32_t>) override {}
  int look(std::span<const int32_t> tokens) override;
  std::vector<int32_t> draft(int64_t most) override;
  bool reads_rows() const override { return true; }
  void select(int32_t stream) override { selected_ = &streams_.at(stream); }
  int64_t resume(std::span<const int32_t> prompt) override;
  void evaluated(std::span<const int32_t> tokens, std::span<const float> rows) override;

 private:
  struct Stream {
    std::vector<DraftHead> heads;
    std::vector<int32_t> text; // that they know of

    DraftHead* behind(size_t head) { return head + 1 < heads.size() ? &heads[head + 1] : nullptr; }
  };

  const int64_t vocab_, width_, first_token_;
  std::vector<core::Sampler> greedy_; // one for each head
  std::vector<Stream> streams_;
  Stream* selected_ = nullptr;
  std::span<const int32_t> tokens_; // of the last look()
};

} // namespace ridge::engine
