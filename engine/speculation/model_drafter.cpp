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
  if (look(tokens) >= 0) evaluate();
}

int ModelDrafter::look(std::span<const int32_t> tokens) {
  tokens_ = tokens;
  const bool fits = std::ssize(tokens) < executor_.config().context;
  // A token that the draft model does not have is one that it cannot read either.
  return fits && std::ranges::all_of(tokens.subspan(std::min(std::ssize(tokens), cache_.common(tokens))),
                                     [&](int32_t token) { return token < model_->program.vocab; })
             ? 0
             : -1;
}

// Makes the cache hold tokens_, with the logits of the last.
void ModelDrafter::evaluate() {
  cache_.resume(tokens_);
  while (cache_.size() < std::ssize(tokens_))
    forward(tokens_.subspan(cache_.size(), cache_.next_piece(tokens_, executor_.config().max_batch)));
}

void ModelDrafter::forward(std::span<const int32_t> tokens) {
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(cache_.size()));
  const auto last = static_cast<int32_t>(tokens.size()) - 1;
  executor_.forward({tokens, positions, {}, {&last, 1}});
  cache_.evaluated(tokens);
}

std::vector<int32_t> ModelDrafter::draft(int64_t most) {
  evaluate();
  most = std::min(most, executor_.config().context - cache_.size());
  const bool decoding = executor_.start_decoding(sampler_, static_cast<int32_t>(cache_.size()), 0);
  std::vector<int32_t> guesses;
  for (bool more = true; more;) {
    const bool ahead = std::ssize(guesses) + 1 < most;
    const int32_t token = decoding ? executor_.next_token(ahead) : sampler_.sample(executor_.logits(0));
    more = ahead && token >= 0 && token < vocab_;
    if (token >= 0 && token < vocab_) guesses.push_back(token);
    if (!ahead || token < 0) break;
    if (decoding)
      cache_.evaluated({&token, 1});
    else if (more)
      forward({&token, 1});
  }
  return guesses;
}

} // namespace ridge::engine
