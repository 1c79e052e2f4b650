#include "engine/speculation/model_drafter.h"

#include <algorithm>
#include <numeric>

namespace ridge::engine {
namespace {

core::SamplerParams greedy() {
  core::SamplerParams params;
  params.temp = 0;
  return params;
}

} // namespace

ModelDrafter::ModelDrafter(std::unique_ptr<LoadedModel> model, int64_t vocab)
    : model_(std::move(model)), executor_(*model_->executor), vocab_(vocab), cache_(executor_, model_->program, 0),
      sampler_(greedy(), model_->program.vocab) {}

void ModelDrafter::begin(std::span<const int32_t> tokens) {
  if (prepare_draft(tokens) >= 0) evaluate(0);
}

int ModelDrafter::prepare_draft(std::span<const int32_t> tokens) {
  tokens_ = tokens;
  const bool fits = std::ssize(tokens) < executor_.config().context;
  // The draft model cannot read pictures (below 0) and tokens outside its vocabulary.
  return fits && std::ranges::all_of(tokens.subspan(std::min(std::ssize(tokens), cache_.common(tokens))),
                                     [&](int32_t token) { return token >= 0 && token < model_->program.vocab; })
             ? 0
             : -1;
}

std::vector<int32_t> ModelDrafter::evaluate(int64_t guesses) {
  std::vector<int32_t> positions, made;
  cache_.resume(tokens_);
  while (cache_.size() < std::ssize(tokens_)) {
    const auto piece = tokens_.subspan(cache_.size(), cache_.next_piece(tokens_, executor_.config().max_batch));
    positions.resize(piece.size());
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(cache_.size()));
    const auto last = static_cast<int32_t>(piece.size()) - 1;
    const core::Batch batch{piece, positions, {}, {&last, 1}};
    if (guesses > 0 && cache_.size() + std::ssize(piece) == std::ssize(tokens_))
      made = executor_.continue_greedily(batch, sampler_, guesses);
    else
      executor_.forward(batch);
    cache_.evaluated(piece);
  }
  return made;
}

std::vector<int32_t> ModelDrafter::draft(int64_t most) {
  std::vector<int32_t> guesses = evaluate(std::min(most, executor_.config().context - std::ssize(tokens_) + 1));
  cache_.evaluated(std::span(guesses).first(guesses.size() - 1));
  guesses.erase(std::ranges::find_if(guesses, [&](int32_t token) { return token < 0 || token >= vocab_; }),
                guesses.end());
  return guesses;
}

} // namespace ridge::engine
