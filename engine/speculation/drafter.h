// Drafters guess the next tokens. The model verifies them, so a wrong draft costs only time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::engine {

class TextPictures;

inline constexpr int kDraftKinds = 8;

class Drafter {
 public:
  virtual ~Drafter() = default;
  // An answer begins after `tokens`.
  virtual void begin(std::span<const int32_t> tokens) = 0;
  // Prepares a draft after `tokens`, which extend those of begin() or the last prepare_draft(). Returns its kind in [0,
  // kDraftKinds), or -1 if there is none.
  virtual int prepare_draft(std::span<const int32_t> tokens) = 0;
  // 1 to `most` tokens.
  virtual std::vector<int32_t> draft(int64_t most) = 0;

  // Whether it needs the hidden rows (Program::hidden) of every evaluated token.
  virtual bool reads_rows() const { return false; }
  // `pictures` of the stream's text, which must outlive its use; may be null. False if it cannot draft with them.
  virtual bool select(int32_t /*stream*/, const TextPictures* /*pictures*/) { return true; }
  // Called before `prompt` is evaluated. Returns how many of its tokens need no evaluation: the row of the next one is
  // missing.
  virtual int64_t resume(std::span<const int32_t> prompt) { return std::ssize(prompt); }
  // `rows` belong to the last ones of `tokens`. Rows may come again after a state went back.
  virtual void evaluated(std::span<const int32_t> /*tokens*/, std::span<const float> /*rows*/) {}
  // The most guesses of a draft that takes about the same time whatever its length; 0: each guess takes its own.
  virtual int64_t most_at_once() const { return 0; }
};

} // namespace ridge::engine
