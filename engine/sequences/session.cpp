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
  hand_over_rows(position, count);
  usage += {count, seconds_now() - start, bytes_of(count, position, want_logits)};
}

// To a drafter that reads them: the hidden rows that the executor has of tokens_ from `position` on, at most so many.
void Session::hand_over_rows(int64_t position, int64_t most) {
  if (!speculator_ || !speculator_->reads_rows()) return;
  const std::span<const float> rows = executor_.hidden();
  const int64_t width = program_.values[program_.hidden].width, count = std::min(std::ssize(rows) / width, most);
  speculator_->evaluated(std::span(tokens_).first(position + count), rows.first(count * width));
}

double Session::bytes_of(int64_t tokens, int64_t position, int64_t outputs) const {
  const core::ExecutorConfig& config = executor_.config();
  return core::program_cost(program_, {tokens, position, 1, outputs, core::bytes_per_element(config.k_type),
                                       core::bytes_per_element(config.v_type)})
      .bytes();
}

bool Session::evaluate(std::span<const int32_t> tokens, const std::atomic<bool>* cancel,
                       const std::function<void(int64_t, int64_t)>& progress) {
  prompt_ = generation_ = {};
  check_prompt(tokens, context(), program_.vocab);
  tokens_.assign(tokens.begin(), tokens.end());
  // A recurrent state goes back to a copy, and mostly further than that.
  if (const int64_t most = speculator_ ? speculator_->resume(tokens) : context(); program_.states.empty())
    cache_.keep(most);
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
  Answer answer{sampler, options};
  if (speculator_) speculator_->begin(tokens_);
  for (;;) {
    if (raised(options.cancel)) return StopReason::interrupted;
    if (options.limit >= 0 && answer.tokens >= options.limit) return StopReason::limit;
    if (const std::optional<StopReason> stop = step(answer)) return *stop;
  }
}

// The next token, and those that guesses of what follows give at once. A chosen token is evaluated only when a further
// one is wanted: the last one of an answer costs nothing.
std::optional<StopReason> Session::step(Answer& answer) {
  if (answer.awaits) return await(answer);
  if (cache_.size() < std::ssize(tokens_)) {
    if (std::ssize(tokens_) > context()) return StopReason::context_full;
    const std::vector<int32_t> guesses = guess(answer);
    if (!answer.decoding || !guesses.empty()) return check(answer, guesses);
    decode_on(answer);
    return std::nullopt;
  }
  if (!answer.options.mask && !answer.options.on_choice)
    answer.decoding = answer.awaits = executor_.start_decoding(answer.sampler, static_cast<int32_t>(cache_.size()), 0);
  return answer.decoding ? std::nullopt : take(answer, choose(answer, 0));
}

// The token that the executor has chosen or is about to. It is evaluated meanwhile, where no guesses are to go with it.
std::optional<StopReason> Session::await(Answer& answer) {
  const bool ahead = answer.tokens + 1 != answer.options.limit && cache_.size() < context() &&
                     (!speculator_ || speculator_->worth(tokens_, 1, most_guesses(answer, 1) - 1) == 0);
  const double start = seconds_now();
  const int32_t token = executor_.next_token(ahead);
  if (answer.evaluating >= 0) count(1, 1, 1, answer.evaluating, seconds_now() - start);
  if (token < 0) core::throw_unusable_logits();
  if (answer.evaluating >= 0) hand_over_rows(answer.evaluating, std::ssize(tokens_) - answer.evaluating);
  answer.awaits = ahead;
  answer.evaluating = ahead ? cache_.size() : -1;
  if (ahead) cache_.evaluated({&token, 1});
  answer.sampler.accept_drawn(token);
  return take(answer, token);
}

// Has the executor evaluate what was chosen and choose the next token, which await() takes.
void Session::decode_on(Answer& answer) {
  const auto known = std::span(tokens_).subspan(cache_.size());
  const auto position = static_cast<int32_t>(cache_.size());
  executor_.decode_guesses(known, 0, position);
  answer.awaits = true;
  answer.evaluating = position;
  cache_.evaluated(known);
}

// Evaluates what was chosen, and guesses of what follows. Takes tokens as long as the guesses are what is chosen.
std::optional<StopReason> Session::check(Answer& answer, std::span<const int32_t> guesses) {
  const int64_t position = cache_.size(), known = std::ssize(tokens_) - position;
  std::vector<int32_t> tokens(tokens_.begin() + position, tokens_.end());
  tokens.insert(tokens.end(), guesses.begin(), guesses.end());
  const bool recurrent = !program_.states.empty() && !guesses.empty();
  if (recurrent) executor_.mark_state(0);
  const double start = seconds_now();
  const std::span<const int32_t> chosen = evaluate_guesses(answer, tokens, std::ssize(guesses));
  const double seconds = seconds_now() - start;

  int64_t right = 0; // guesses that were taken, and a token behind them
  const auto settle = [&] {
    hand_over_rows(position, known + right);
    if (recurrent && right < std::ssize(guesses))
      executor_.return_to_mark(); // what was taken is evaluated again, with the next guesses
    else
      cache_.evaluated(std::span(tokens).first(known + right));
  };
  std::optional<StopReason> stop;
  try {
    for (;; ++right) {
      const int32_t token = answer.decoding ? chosen[right] : choose(answer, right);
      if (token < 0) core::throw_unusable_logits();
      if (answer.decoding) answer.sampler.accept_drawn(token);
      stop = take(answer, token);
      if (stop || right == std::ssize(guesses) || token != guesses[right]) break;
    }
  } catch (...) {
    settle();
    throw;
  }
  settle();
  count(right + 1, std::ssize(tokens), std::ssize(guesses) + 1, position, seconds);
  if (speculator_) speculator_->were_right(stop ? right : std::ssize(guesses), right);
  return stop;
}

// The tokens that the executor chose, where it does; else logits are there to choose from.
std::span<const int32_t> Session::evaluate_guesses(const Answer& answer, std::span<const int32_t> tokens,
                                                   int64_t guesses) {
  const auto position = static_cast<int32_t>(cache_.size());
  if (answer.decoding) {
    executor_.decode_guesses(tokens, guesses, position);
    return executor_.chosen_tokens();
  }
  std::vector<int32_t> positions(tokens.size()), outputs(guesses + 1);
  std::iota(positions.begin(), positions.end(), position);
  std::iota(outputs.begin(), outputs.end(), static_cast<int32_t>(std::ssize(tokens) - guesses - 1));
  executor_.forward({tokens, positions, {}, outputs});
  return {};
}

// From the logits of that output.
int32_t Session::choose(Answer& answer, int64_t output) {
  const std::span<const float> logits = executor_.logits(output);
  const int32_t token = answer.sampler.sample(logits, answer.options.mask);
  if (answer.options.on_choice) answer.options.on_choice(token, logits);
  answer.sampler.accept(token);
  return token;
}

std::optional<StopReason> Session::take(Answer& answer, int32_t token) {
  const Options& options = answer.options;
  ++answer.tokens;
  tokens_.push_back(token);
  if (options.is_end && options.is_end(token)) return StopReason::end_of_turn;
  if (options.on_accept) options.on_accept(token);
  if (options.on_token && !options.on_token(token)) return StopReason::stopped;
  return std::nullopt;
}

// In a step that evaluates `known` tokens before them.
int64_t Session::most_guesses(const Answer& answer, int64_t known) const {
  const core::ExecutorConfig& config = executor_.config();
  int64_t most = std::min({config.max_outputs - 1, config.max_batch - known, context() - std::ssize(tokens_)});
  if (answer.options.limit >= 0) most = std::min(most, answer.options.limit - answer.tokens - 1);
  return most;
}

// What may follow, where trying it pays.
std::vector<int32_t> Session::guess(const Answer& answer) {
  const int64_t known = std::ssize(tokens_) - cache_.size();
  if (!speculator_ || speculator_->worth(tokens_, known, most_guesses(answer, known)) == 0) return {};
  std::vector<int32_t> guesses = speculator_->draft();
  if (answer.options.is_end) guesses.erase(std::ranges::find_if(guesses, answer.options.is_end), guesses.end());
  return guesses;
}

// A step that took `taken` tokens from `outputs`, having evaluated so many from `position` on.
void Session::count(int64_t taken, int64_t evaluated, int64_t outputs, int64_t position, double seconds) {
  generation_ += {taken, seconds, bytes_of(evaluated, position, outputs)};
  if (speculator_) speculator_->took(evaluated, seconds);
}

} // namespace ridge::engine
