// Drafts with multi-token-prediction heads ("nextn") or a separate EAGLE-3 head. A head reads a token and the previous
// token's hidden row, and has a KV cache per stream. The first head reads the model's rows, each further head those of
// the head before it, as in training. Beyond the last head, that head continues with its own rows. A picture's tokens
// have the rows and places that the model reads.
#pragma once

#include "core/sampler.h"
#include "engine/loading/loaded_model.h"
#include "engine/pictures/text_pictures.h"
#include "engine/speculation/drafter.h"

namespace ridge::engine {

class DraftHead {
 public:
  // The executor must have no recurrent state and one output. `greedy` picks the likeliest token. All must outlive it.
  DraftHead(const LoadedHead& head, int32_t stream, core::Sampler& greedy);

  int64_t size() const { return size_; } // includes those before LoadedHead::first_token
  int64_t missing_row() const { return rows_end(); }
  void keep(int64_t count);
  // Replaces the rows from `position` on.
  void add_rows(int64_t position, std::span<const float> rows);

  bool reads_pictures() const { return program_.row_width > 0; }
  // Reads `text` up to `end`, with 0 for missing rows, and adds output rows to `next`. Returns up to `guesses` draft
  // tokens (at most one if `next` is set). Unusable logits end them with -1. `pictures` may be null.
  std::vector<int32_t> read(std::span<const int32_t> text, const TextPictures* pictures, int64_t end, DraftHead* next,
                            int64_t guesses = 0);

 private:
  int64_t rows_end() const { return first_row_ + std::ssize(rows_) / width_; }
  std::vector<int32_t> forward(std::span<const int32_t> text, const TextPictures* pictures, int64_t count,
                               DraftHead* next, int64_t guesses);

  core::Executor& executor_;
  const core::Program& program_;
  const int32_t stream_;
  const int64_t first_token_;
  const int64_t width_;
  core::Sampler& greedy_;
  int64_t size_;
  // Rows from first_row_ < size_ on; some were read already. The row of token -1 is 0.
  int64_t first_row_ = -1;
  std::vector<float> rows_;
};

class HeadDrafter final : public Drafter {
 public:
  // The model must outlive the drafter.
  explicit HeadDrafter(const LoadedModel& model);

  void begin(std::span<const int32_t>) override {}
  int prepare_draft(std::span<const int32_t> tokens) override;
  std::vector<int32_t> draft(int64_t most) override;
  bool reads_rows() const override { return true; }
  bool select(int32_t stream, const TextPictures* pictures) override;
  int64_t resume(std::span<const int32_t> prompt) override;
  void evaluated(std::span<const int32_t> tokens, std::span<const float> rows) override;

 private:
  struct Stream {
    std::vector<DraftHead> heads;
    std::vector<int32_t> text;
    const TextPictures* pictures = nullptr;

    DraftHead* behind(size_t head) { return head + 1 < heads.size() ? &heads[head + 1] : nullptr; }
  };

  const int64_t vocab_, width_, first_token_;
  std::vector<core::Sampler> greedy_;
  std::vector<Stream> streams_;
  Stream* selected_ = nullptr;
  std::span<const int32_t> tokens_;
};

} // namespace ridge::engine
