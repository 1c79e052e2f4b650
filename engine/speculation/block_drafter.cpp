#include "engine/speculation/block_drafter.h"

#include "core/error.h"

#include <algorithm>
#include <numeric>

namespace ridge::engine {
namespace {

// Rows are stored in groups, so texts without drafts cost little.
constexpr int64_t kStoredTogether = 32;

} // namespace

BlockDrafter::BlockDrafter(const LoadedModel& model)
    : executor_(*model.heads[0].executor), program_(model.heads[0].program),
      block_(models::block_of(*model.heads[0].file)), vocab_(model.program.vocab),
      width_(model.program.values[model.program.hidden].width),
      greedy_(core::SamplerParams{.temp = 0, .bias = {}}, program_.choices()), streams_(executor_.config().streams) {
  select(0, nullptr);
}

bool BlockDrafter::select(int32_t stream, const TextPictures* pictures) {
  selected_ = &streams_.at(stream);
  return !pictures;
}

int64_t BlockDrafter::most_guesses(int64_t known) const {
  const core::ExecutorConfig& config = executor_.config();
  return std::min({block_.tokens - 1, config.max_outputs, config.max_batch - 1, config.context - known});
}

int BlockDrafter::prepare_draft(std::span<const int32_t> tokens) {
  tokens_ = tokens;
  return !tokens.empty() && most_guesses(std::ssize(tokens)) > 0 ? 0 : -1;
}

std::vector<int32_t> BlockDrafter::forward(int64_t count, int32_t last, int64_t guesses) {
  Stream& stream = *selected_;
  const auto number = static_cast<int32_t>(&stream - streams_.data());
  const int64_t block = guesses > 0 ? guesses + 1 : 0;
  std::vector<int32_t> tokens, positions(count + block), outputs(guesses), ends(count + block);
  std::vector<float> rows;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(-1 - i));
    rows.insert(rows.end(), stream.rows.begin() + i * width_, stream.rows.begin() + (i + 1) * width_);
    rows.push_back(1); // a row of the context
  }
  for (int64_t i = 0; i < block; ++i) tokens.push_back(i == 0 ? last : block_.mask);
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(stream.stored));
  std::iota(outputs.begin(), outputs.end(), static_cast<int32_t>(count) + 1);
  std::fill(ends.begin() + count, ends.end(), static_cast<int32_t>(stream.stored + count + block));
  const std::vector<int32_t> streams(tokens.size(), number);
  const core::Batch batch = {.tokens = tokens,
                             .positions = positions,
                             .streams = streams,
                             .outputs = outputs,
                             .rows = rows,
                             .block_ends = ends};
  std::vector<int32_t> made;
  if (executor_.can_choose(greedy_.params())) {
    const std::vector<const core::Sampler*> samplers(guesses, &greedy_);
    executor_.submit(batch, {.samplers = samplers});
    const std::span<const int32_t> chosen = executor_.wait();
    made.assign(chosen.begin(), chosen.begin() + guesses);
  } else {
    executor_.forward(batch);
    try {
      for (int64_t i = 0; i < guesses; ++i) made.push_back(greedy_.sample(executor_.logits(i)));
    } catch (const Error&) { // unusable logits end the guesses
    }
  }
  stream.stored += count;
  stream.rows.erase(stream.rows.begin(), stream.rows.begin() + count * width_);
  return made;
}

std::vector<int32_t> BlockDrafter::draft(int64_t most) {
  Stream& stream = *selected_;
  const int64_t known = std::ssize(tokens_) - 1, guesses = std::min(most, most_guesses(known + 1));
  stream.stored = std::min(stream.stored, known);
  stream.rows.resize((known - stream.stored) * width_);
  const int64_t batch = executor_.config().max_batch;
  while (waiting() + guesses + 1 > batch) forward(std::min(waiting(), batch), 0, 0);
  std::vector<int32_t> made = forward(waiting(), tokens_.back(), guesses);
  made.erase(std::ranges::find_if(made, [&](int32_t token) { return token < 0 || token >= vocab_; }), made.end());
  return made;
}

int64_t BlockDrafter::resume(std::span<const int32_t> prompt) {
  auto& [text, stored, rows] = *selected_;
  const int64_t same = std::ranges::mismatch(text, prompt).in1 - text.begin();
  text.resize(same);
  stored = std::min(stored, same);
  rows.resize(std::min(std::ssize(rows), (same - stored) * width_));
  return stored + waiting();
}

void BlockDrafter::evaluated(std::span<const int32_t> tokens, std::span<const float> rows) {
  auto& [text, stored, kept] = *selected_;
  const int64_t position = std::ssize(tokens) - std::ssize(rows) / width_;
  text.resize(std::min(std::ssize(text), position));
  text.insert(text.end(), tokens.begin() + std::ssize(text), tokens.end());
  const int64_t again = std::clamp(stored - position, int64_t{0}, std::ssize(rows) / width_);
  kept.resize(std::max(int64_t{0}, position - stored) * width_); // missing rows are 0
  kept.insert(kept.end(), rows.begin() + again * width_, rows.end());
  while (waiting() >= kStoredTogether) forward(std::min(waiting(), executor_.config().max_batch), 0, 0);
}

} // namespace ridge::engine
