#include "server/settings.h"

#include "core/clock.h"
#include "server/openai.h"

#include <algorithm>

namespace ridge::server {
namespace {

Json timings_of(int64_t cached, int64_t prompt, double prompt_s, int64_t generated, double generation_s) {
  const auto per_token_ms = [](double seconds, int64_t tokens) {
    return 1e3 * seconds / static_cast<double>(std::max<int64_t>(1, tokens));
  };
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  return {{"cache_n", cached},
          {"prompt_n", prompt},
          {"prompt_ms", 1e3 * prompt_s},
          {"prompt_per_token_ms", per_token_ms(prompt_s, prompt)},
          {"prompt_per_second", rate(prompt, prompt_s)},
          {"predicted_n", generated},
          {"predicted_ms", 1e3 * generation_s},
          {"predicted_per_token_ms", per_token_ms(generation_s, generated)},
          {"predicted_per_second", rate(generated, generation_s)}};
}

} // namespace

std::string build_info() { return fmt::format("build {} of ridge", RIDGE_VERSION); }

Json settings_json(const api::SamplingOptions& sampling, const text::Tokenizer* tokenizer) {
  const core::SamplerParams& p = sampling.params;
  Json bias = Json::array(), samplers = Json::array();
  for (const core::SamplerParams::Bias& one : p.bias)
    bias.push_back({{"token", one.token}, {"bias", one.bias <= kNeverBias ? Json() : Json(one.bias)}});
  if (sampling.ignore_eos && tokenizer)
    for (int32_t token = 0; token < tokenizer->vocab_size(); ++token)
      if (tokenizer->is_eog(token)) bias.push_back({{"token", token}, {"bias", nullptr}});
  for (const core::SamplerKind kind : p.order) samplers.push_back(core::name_of(kind));
  return {{"seed", p.seed},
          {"temperature", p.temp},
          {"dynatemp_range", p.dynatemp_range},
          {"dynatemp_exponent", p.dynatemp_exponent},
          {"top_k", p.top_k},
          {"top_p", p.top_p},
          {"min_p", p.min_p},
          {"top_n_sigma", p.top_n_sigma},
          {"xtc_probability", p.xtc_probability},
          {"xtc_threshold", p.xtc_threshold},
          {"typical_p", p.typical_p},
          {"repeat_last_n", p.repeat_last_n},
          {"repeat_penalty", p.repeat_penalty},
          {"presence_penalty", p.presence_penalty},
          {"frequency_penalty", p.frequency_penalty},
          {"dry_multiplier", p.dry.multiplier},
          {"dry_base", p.dry.base},
          {"dry_allowed_length", p.dry.allowed_length},
          {"dry_penalty_last_n", p.dry.last_n},
          {"dry_sequence_breakers", p.dry.breakers},
          {"mirostat", p.mirostat},
          {"mirostat_tau", p.mirostat_tau},
          {"mirostat_eta", p.mirostat_eta},
          {"adaptive_target", p.adaptive_target},
          {"adaptive_decay", p.adaptive_decay},
          {"min_keep", p.min_keep},
          {"stop", sampling.stop},
          {"max_tokens", sampling.max_tokens},
          {"n_predict", sampling.max_tokens},
          {"ignore_eos", sampling.ignore_eos},
          {"logit_bias", std::move(bias)},
          {"grammar", sampling.grammar},
          {"samplers", std::move(samplers)}};
}

Json timings_json(const Answers& answers) {
  const engine::Usage prompt = answers.prompt_usage(), generation = answers.generation_usage();
  const engine::GuessCounts guesses = answers.guesses();
  Json timings = timings_of(answers.cached_tokens(), prompt.tokens, prompt.seconds, answers.generated_tokens(),
                            generation.seconds);
  if (guesses.steps > 0) {
    timings["draft_n"] = guesses.all_made();
    timings["draft_n_accepted"] = guesses.all_right();
  }
  return timings;
}

RunningTimings::RunningTimings() : start_(core::seconds_now()) {}

void RunningTimings::count_token() {
  if (tokens_++ == 0) first_ = core::seconds_now();
}

double RunningTimings::seconds() const { return core::seconds_now() - start_; }

double RunningTimings::seconds_generating() const { return tokens_ > 0 ? core::seconds_now() - first_ : 0; }

Json RunningTimings::json(const Answers& answers) const {
  int64_t cached = 0;
  for (const Answers::Answer& answer : answers.all())
    if (!answer.copied) cached += answer.sequence->progress().cached;
  return timings_of(cached, std::max<int64_t>(0, answers.prompt_tokens() - cached),
                    (tokens_ > 0 ? first_ : core::seconds_now()) - start_, tokens_, seconds_generating());
}

Json progress_json(const Answers::Answer& answer, double seconds) {
  const engine::Sequence::Progress progress = answer.sequence->progress();
  return {{"total", answer.prompt_tokens},
          {"cache", progress.cached},
          {"processed", std::min(progress.read, answer.prompt_tokens)},
          {"time_ms", 1e3 * seconds}};
}

} // namespace ridge::server
