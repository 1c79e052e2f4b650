// Drafts with a DFlash head: all guesses in one pass, of a block of the last known token and masks. Before the block,
// the pass stores the hidden rows of the tokens since the last one; each token's row is at the token's position.
#pragma once

#include "core/sampler.h"
#include "engine/loading/loaded_model.h"
#include "engine/speculation/drafter.h"
#include "models/dflash.h"

namespace ridge::engine {

class BlockDrafter final : public Drafter {
 public:
  // The model must outlive the drafter.
  explicit BlockDrafter(const LoadedModel& model);

  void begin(std::span<const int32_t>) override {}
  int prepare_draft(std::span<const int32_t> tokens) override;
  std::vector<int32_t> draft(int64_t most) override;
  int64_t most_at_once() const override { return block_.tokens - 1; }
  bool reads_rows() const override { return true; }
  bool select(int32_t stream, const TextPictures* pictures) override;
  int64_t resume(std::span<const int32_t> prompt) override;
  void evaluated(std::span<const int32_t> tokens, std::span<const float> rows) override;

 private:
  struct Stream {
    std::vector<int32_t> text;
    int64_t stored = 0;      // tokens whose rows are in the cache
    std::vector<float> rows; // of the tokens after them
  };

  int64_t most_guesses(int64_t known) const;
  int64_t waiting() const { return std::ssize(selected_->rows) / width_; }
  // Stores the first `count` waiting rows. Returns the tokens guessed after `last`, if guesses > 0.
  std::vector<int32_t> forward(int64_t count, int32_t last, int64_t guesses);

  core::Executor& executor_;
  const core::Program& program_;
  const models::DraftBlock block_;
  const int64_t vocab_, width_;
  core::Sampler greedy_;
  std::vector<Stream> streams_;
  Stream* selected_ = nullptr;
  std::span<const int32_t> tokens_;
};

} // namespace ridge::engine
