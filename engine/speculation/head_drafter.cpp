#include "engine/speculation/head_drafter.h"

#include <algorithm>

namespace ridge::engine {
namespace {

// Rows are read in groups, so texts without drafts cost little.
constexpr int64_t kTogether = 32;
// Rows kept for conversations that go back by a few tokens.
constexpr int64_t kKept = 32;

} // namespace

DraftHead::DraftHead(const LoadedHead& head, int32_t stream, core::Sampler& greedy)
    : executor_(*head.executor), program_(head.program), stream_(stream), first_token_(head.first_token),
      width_(head.program.values[head.program.input].width), greedy_(greedy), size_(first_token_), rows_(width_, 0.0f) {
}

void DraftHead::keep(int64_t count) {
  size_ = std::min(size_, std::max(count, first_token_));
  if (count > first_row_) {
    rows_.resize((std::min(count, rows_end()) - first_row_) * width_);
  } else {
    first_row_ = size_ - 1;
    rows_.assign(first_row_ < 0 ? width_ : 0, 0.0f);
  }
}

void DraftHead::add_rows(int64_t position, std::span<const float> rows) {
  const int64_t unread = size_ - 1;
  if (position < unread) {
    const int64_t past = std::min(unread - position, std::ssize(rows) / width_);
    position += past;
    rows = rows.subspan(past * width_);
  }
  if (rows.empty()) return;
  rows_.resize((position - first_row_) * width_); // missing rows are 0, as before the first token
  rows_.insert(rows_.end(), rows.begin(), rows.end());
}

std::vector<int32_t> DraftHead::forward(std::span<const int32_t> text, const TextPictures* pictures, int64_t count,
                                        DraftHead* next, int64_t guesses) {
  std::vector<int32_t> made;
  PlacedBatch placed;
  placed.append(text.subspan(size_, count), size_, stream_, pictures);
  if (guesses > 0) placed.outputs.push_back(static_cast<int32_t>(count) - 1);
  core::Batch batch = placed.batch(program_);
  for (int32_t& position : placed.positions) position -= static_cast<int32_t>(first_token_);
  batch.block_ends = {}; // tokens of a picture see earlier ones only, so that it may be read in parts
  batch.input = std::span(rows_).subspan((size_ - 1 - first_row_) * width_, count * width_);
  if (guesses > 0) {
    made = executor_.continue_greedily(batch, greedy_, guesses);
  } else {
    executor_.forward(batch);
  }
  if (next) next->add_rows(size_, executor_.hidden());
  size_ += count;
  return made;
}

std::vector<int32_t> DraftHead::read(std::span<const int32_t> text, const TextPictures* pictures, int64_t end,
                                     DraftHead* next, int64_t guesses) {
  if (guesses > 0) size_ = std::min(size_, end - 1);
  rows_.resize((std::max(rows_end(), end - 1) - first_row_) * width_);
  std::vector<int32_t> made;
  while (size_ < end) {
    const int64_t count = std::min(end - size_, executor_.config().max_batch);
    made = forward(text, pictures, count, next, size_ + count == end ? guesses : 0);
  }
  if (const int64_t past = size_ - 1 - first_row_ - kKept; past >= kKept) {
    rows_.erase(rows_.begin(), rows_.begin() + past * width_);
    first_row_ += past;
  }
  return made;
}

HeadDrafter::HeadDrafter(const LoadedModel& model)
    : vocab_(model.program.vocab), width_(model.program.values[model.program.hidden].width),
      first_token_(model.heads[0].first_token), streams_(model.heads[0].executor->config().streams) {
  for (const LoadedHead& head : model.heads)
    greedy_.emplace_back(core::SamplerParams{.temp = 0, .bias = {}}, head.program.choices());
  for (size_t stream = 0; stream < streams_.size(); ++stream)
    for (size_t i = 0; i < model.heads.size(); ++i)
      streams_[stream].heads.emplace_back(model.heads[i], static_cast<int32_t>(stream), greedy_[i]);
  select(0, nullptr);
}

bool HeadDrafter::select(int32_t stream, const TextPictures* pictures) {
  selected_ = &streams_.at(stream);
  selected_->pictures = pictures;
  return !pictures || std::ranges::all_of(selected_->heads, &DraftHead::reads_pictures);
}

int HeadDrafter::prepare_draft(std::span<const int32_t> tokens) {
  tokens_ = tokens;
  return std::ssize(tokens) > first_token_ ? 0 : -1;
}

std::vector<int32_t> HeadDrafter::draft(int64_t most) {
  auto& [heads, text, pictures] = *selected_;
  const int64_t known = std::ssize(tokens_);
  text.resize(std::min(std::ssize(text), known));
  text.insert(text.end(), tokens_.begin() + std::ssize(text), tokens_.end());
  std::vector<int32_t> guesses;
  for (size_t i = 0; i < heads.size() && std::ssize(guesses) < most; ++i) {
    DraftHead* next = selected_->behind(i);
    const int64_t wanted = next ? 1 : most - std::ssize(guesses);
    std::vector<int32_t> made = heads[i].read(text, pictures, std::ssize(text), next, wanted);
    made.erase(std::ranges::find_if(made, [&](int32_t token) { return token < 0 || token >= vocab_; }), made.end());
    guesses.insert(guesses.end(), made.begin(), made.end());
    text.insert(text.end(), made.begin(), made.end());
    if (std::ssize(made) < wanted) break;
  }
  text.resize(known);
  for (DraftHead& head : heads) head.keep(known);
  return guesses;
}

int64_t HeadDrafter::resume(std::span<const int32_t> prompt) {
  auto& [heads, text, pictures] = *selected_;
  const int64_t same = std::ranges::mismatch(text, prompt).in1 - text.begin();
  text.resize(same);
  for (DraftHead& head : heads) head.keep(same);
  // The head before it, or the model, computes a lost row again.
  for (size_t i = heads.size() - 1; i > 0; --i) heads[i - 1].keep(heads[i].missing_row());
  return heads[0].missing_row();
}

void HeadDrafter::evaluated(std::span<const int32_t> tokens, std::span<const float> rows) {
  auto& [heads, text, pictures] = *selected_;
  const int64_t known = std::ssize(tokens), position = known - std::ssize(rows) / width_;
  text.resize(std::min(std::ssize(text), position));
  text.insert(text.end(), tokens.begin() + std::ssize(text), tokens.end());
  heads[0].add_rows(position, rows);
  const auto waits = [&](const DraftHead& head) { return known - head.size() >= kTogether; };
  if (!std::ranges::any_of(heads, waits)) return;
  for (size_t i = 0; i < heads.size(); ++i) heads[i].read(text, pictures, known, selected_->behind(i));
}

} // namespace ridge::engine
