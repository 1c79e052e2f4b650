#include "engine/sequences/session.h"

#include "core/clock.h"
#include "core/error.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace ridge::engine {
namespace {

using core::seconds_now;

bool raised(const std::atomic<bool>* flag) { return flag && flag->load(std::memory_order_relaxed); }

} // namespace

void Session::forward(int64_t count, bool want_logits, Usage& usage) {
  const int64_t position = cache_.size();
  const auto tokens = std::span(tokens_).subspan(position, count);
  std::vector<int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position));
  const auto last = static_cast<int32_t>(count) - 1;
  core::Batch batch{tokens, positions, {}, {}};
  if (want_logits) batch.outputs = {&last, 1};
  const double start = seconds_now();
  executor_.forward(batch);
  cache_.evaluated(tokens);
  usage += {count, seconds_now() - start, bytes_of(count, position, want_logits)};
}

double Session::bytes_of(int64_t tokens, int64_t position, bool logits) const {
  const core::ExecutorConfig& config = executor_.config();
  return core::program_cost(program_, {tokens, position, 1, logits ? 1 : 0, core::bytes_per_element(config.k_type),
                                       core::bytes_per_element(config.v_type)})
      .bytes();
}

bool Session::evaluate(std::span<const int32_t> tokens, const std::atomic<bool>* cancel,
                       const std::function<void(int64_t, int64_t)>& progress) {
  prompt_ = generation_ = {};
  check_prompt(tokens, context(), program_.vocab);
  tokens_.assign(tokens.begin(), tokens.end());
  const int64_t same = cache_.resume(tokens), total = std::ssize(tokens) - same;
  while (cache_.size() < std::ssize(tokens_)) {
    if (raised(cancel)) {
      tokens_.resize(cache_.size());
      return false;
    }
    const int64_t count = cache_.next_piece(tokens_, executor_.config().max_batch);
    forward(count, cache_.size() + count == std::ssize(tokens_), prompt_);
    if (progress) progress(cache_.size() - same, total);
  }
  return true;
}

void Session::keep(int64_t count) {
  cache_.keep(count);
  tokens_.resize(cache_.size());
}

StopReason Session::generate(core::Sampler& sampler, const Options& options) {
  generation_ = {};
  std::optional<bool> decoding; // whether the executor chooses the tokens itself
  int64_t awaited = -1;         // the position that it evaluates while the host handles the token before
  for (int64_t count = 0;; ++count) {
    if (raised(options.cancel)) return StopReason::interrupted;
    if (options.limit >= 0 && count >= options.limit) return StopReason::limit;
    // The sampled token is evaluated only when a further one is wanted: the last one of an answer costs nothing.
    if (cache_.size() < std::ssize(tokens_)) {
      if (cache_.size() >= context()) return StopReason::context_full;
      forward(1, true, generation_);
    }
    if (!decoding)
      decoding = !options.mask && !options.on_choice &&
                 executor_.start_decoding(sampler, static_cast<int32_t>(cache_.size()), 0);
    int32_t token = -1;
    if (*decoding) {
      const bool ahead = count + 1 != options.limit && cache_.size() < context();
      const double start = seconds_now();
      token = executor_.next_token(ahead);
      if (awaited >= 0) generation_ += {1, seconds_now() - start, bytes_of(1, awaited, true)};
      if (token < 0) core::throw_unusable_logits();
      awaited = ahead ? cache_.size() : -1;
      if (ahead) cache_.evaluated({&token, 1});
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
