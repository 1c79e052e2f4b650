#include "engine/session.h"

#include "core/clock.h"
#include "core/error.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace ridge::engine {
namespace {

using core::seconds_now;

constexpr int64_t kSnapshotTokens = 4096; // of a prompt between copies of a recurrent state

bool raised(const std::atomic<bool>* flag) { return flag && flag->load(std::memory_order_relaxed); }

} // namespace

void Session::forward(std::span<const int32_t> tokens, int64_t position, bool want_logits, Usage& usage) {
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position));
  const auto last = static_cast<int32_t>(tokens.size()) - 1;
  core::Batch batch{tokens, positions, {}, {}};
  if (want_logits) batch.outputs = {&last, 1};
  const double start = seconds_now();
  executor_.forward(batch);
  usage += {std::ssize(tokens), seconds_now() - start, bytes_of(std::ssize(tokens), position, want_logits)};
}

double Session::bytes_of(int64_t tokens, int64_t position, bool logits) const {
  const core::ExecutorConfig& config = executor_.config();
  return core::program_cost(program_, {tokens, position, 1, logits ? 1 : 0, core::bytes_per_element(config.k_type),
                                       core::bytes_per_element(config.v_type)})
      .bytes();
}

// Where evaluation continues, `same` tokens being in the cache already. A recurrent state is either there, or goes back
// to its last copy. Copies are taken where conversations come back to: between turns, and before a prompt's last token.
int64_t Session::continue_at(int64_t same) {
  if (!snapshots_.needed()) return same;
  if (same == state_position_)
    snapshots_.save(executor_, same);
  else
    same = snapshots_.restore(executor_, same);
  return state_position_ = same;
}

bool Session::evaluate(std::span<const int32_t> tokens, const std::atomic<bool>* cancel,
                       const std::function<void(int64_t, int64_t)>& progress) {
  prompt_ = generation_ = {};
  if (tokens.empty()) throw_error("the prompt is empty: there is nothing to evaluate");
  if (std::ssize(tokens) > context())
    throw_error("the prompt has {} tokens, the context holds {}: shorten it or raise -c", tokens.size(), context());
  for (int32_t token : tokens)
    if (token < 0 || token >= program_.vocab)
      throw_error("token {} is outside the vocabulary (0 to {})", token, program_.vocab - 1);

  const auto cached = std::span(tokens_).first(evaluated_);
  int64_t same = std::ranges::mismatch(cached, tokens).in1 - cached.begin();
  if (same == std::ssize(tokens)) --same; // the last token again, for its logits
  tokens_.assign(tokens.begin(), tokens.end());
  evaluated_ = same = continue_at(same);

  const int64_t total = std::ssize(tokens) - same;
  while (evaluated_ < std::ssize(tokens_)) {
    if (raised(cancel)) {
      tokens_.resize(evaluated_);
      return false;
    }
    int64_t count = std::min(executor_.config().max_batch, std::ssize(tokens_) - evaluated_);
    if (snapshots_.needed()) {
      if (evaluated_ + 1 == std::ssize(tokens_) || evaluated_ - snapshots_.last() >= kSnapshotTokens)
        snapshots_.save(executor_, evaluated_);
      if (count > 1 && evaluated_ + count == std::ssize(tokens_)) --count; // the last token again, for its logits
    }
    const bool last = evaluated_ + count == std::ssize(tokens_);
    forward(std::span(tokens_).subspan(evaluated_, count), evaluated_, last, prompt_);
    state_position_ = evaluated_ += count;
    if (progress) progress(evaluated_ - same, total);
  }
  return true;
}

void Session::keep(int64_t count) {
  evaluated_ = std::min(evaluated_, count);
  tokens_.resize(evaluated_);
}

StopReason Session::generate(core::Sampler& sampler, const Options& options) {
  generation_ = {};
  std::optional<bool> decoding; // whether the executor chooses the tokens itself
  int64_t awaited = -1;         // the position that it evaluates while the host handles the token before
  for (int64_t count = 0;; ++count) {
    if (raised(options.cancel)) return StopReason::interrupted;
    if (options.limit >= 0 && count >= options.limit) return StopReason::limit;
    // The sampled token is evaluated only when a further one is wanted: the last one of an answer costs nothing.
    if (evaluated_ < std::ssize(tokens_)) {
      if (evaluated_ >= context()) return StopReason::context_full;
      forward(std::span(tokens_).subspan(evaluated_, 1), evaluated_, true, generation_);
      state_position_ = ++evaluated_;
    }
    if (!decoding)
      decoding =
          !options.mask && !options.on_choice && executor_.start_decoding(sampler, static_cast<int32_t>(evaluated_), 0);
    int32_t token = -1;
    if (*decoding) {
      const bool ahead = count + 1 != options.limit && evaluated_ < context();
      const double start = seconds_now();
      token = executor_.next_token(ahead);
      if (awaited >= 0) generation_ += {1, seconds_now() - start, bytes_of(1, awaited, true)};
      if (token < 0) core::throw_unusable_logits();
      awaited = ahead ? evaluated_++ : -1;
      state_position_ = evaluated_;
      sampler.accept_drawn(token);
    } else {
      token = sampler.sample(logits(), options.mask);
      if (options.on_choice) options.on_choice(token, logits());
      sampler.accept(token);
    }
    tokens_.push_back(token);
    if (options.is_end && options.is_end(token)) return StopReason::end_of_turn;
    if (options.on_accept) options.on_accept(token);
    if (options.on_token && !options.on_token(token)) return StopReason::stopped;
  }
}

} // namespace ridge::engine
