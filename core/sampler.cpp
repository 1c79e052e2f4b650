#include "core/sampler.h"

#include "core/error.h"
#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>

namespace ridge::core {

namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr float kHighest = std::numeric_limits<float>::max(); // replaces +infinity, so that differences exist
constexpr size_t kOrderedCandidates = 64, kAllOrdered = 256;  // promised by candidates()
constexpr int32_t kHeapTopK = 512;                            // heap beats nth_element up to here

void require(bool valid, const char* flag, const char* range, double value) {
  if (!valid) throw Error(fmt::format("{} must be {}, not {}", flag, range, value), Error::kUsage);
}

bool in_unit_interval(float value) { return value >= 0.0f && value <= 1.0f; }

} // namespace

void validate(const SamplerParams& p) {
  require(std::isfinite(p.temp) && p.temp >= 0.0f, "--temp", "0 (greedy) or a positive number", p.temp);
  require(p.top_k >= 0, "--top-k", "0 (off) or a positive number", p.top_k);
  require(in_unit_interval(p.typical_p) && p.typical_p > 0.0f, "--typical", "above 0 and at most 1 (off)", p.typical_p);
  require(in_unit_interval(p.top_p), "--top-p", "from 0 to 1 (off)", p.top_p);
  require(in_unit_interval(p.min_p), "--min-p", "from 0 (off) to 1", p.min_p);
  require(std::isfinite(p.repeat_penalty) && p.repeat_penalty > 0.0f, "--repeat-penalty",
          "a positive number, 1 being off", p.repeat_penalty);
  require(std::isfinite(p.presence_penalty), "--presence-penalty", "a finite number, 0 being off", p.presence_penalty);
  require(std::isfinite(p.frequency_penalty), "--frequency-penalty", "a finite number, 0 being off",
          p.frequency_penalty);
  require(p.repeat_last_n >= -1, "--repeat-last-n", "-1 (all), 0 (off) or a positive number", p.repeat_last_n);
  for (const SamplerParams::Bias& one : p.bias)
    if (!std::isfinite(one.bias)) throw_error("the bias of token {} must be a finite number", one.token);
  require(std::isfinite(p.dry.multiplier) && p.dry.multiplier >= 0.0f, "--dry-multiplier",
          "0 (off) or a positive number", p.dry.multiplier);
  require(std::isfinite(p.dry.base), "--dry-base", "a finite number, below 1 being off", p.dry.base);
  require(p.dry.allowed_length >= 0, "--dry-allowed-length", "0 or a positive number", p.dry.allowed_length);
  require(p.dry.last_n >= -1, "--dry-penalty-last-n", "-1 (all), 0 (off) or a positive number", p.dry.last_n);
  require(std::isfinite(p.top_n_sigma), "--top-n-sigma", "a finite number, 0 and below being off", p.top_n_sigma);
  require(in_unit_interval(p.xtc_probability), "--xtc-probability", "from 0 (off) to 1", p.xtc_probability);
  require(in_unit_interval(p.xtc_threshold), "--xtc-threshold", "from 0 to 1, above 0.5 being off", p.xtc_threshold);
  require(std::isfinite(p.dynatemp_range) && p.dynatemp_range >= 0.0f, "--dynatemp-range",
          "0 (off) or a positive number", p.dynatemp_range);
  require(std::isfinite(p.dynatemp_exponent) && p.dynatemp_exponent >= 0.0f, "--dynatemp-exp", "0 or a positive number",
          p.dynatemp_exponent);
  require(p.mirostat >= 0 && p.mirostat <= 2, "--mirostat", "0 (off), 1 or 2", p.mirostat);
  require(std::isfinite(p.mirostat_tau) && p.mirostat_tau >= 0.0f, "--mirostat-ent", "0 or a positive number",
          p.mirostat_tau);
  require(std::isfinite(p.mirostat_eta) && p.mirostat_eta >= 0.0f, "--mirostat-lr", "0 or a positive number",
          p.mirostat_eta);
  require(std::isfinite(p.adaptive_target) && p.adaptive_target <= 1.0f, "--adaptive-target",
          "a number to 1, below 0 being off", p.adaptive_target);
  require(in_unit_interval(p.adaptive_decay) && p.adaptive_decay <= 0.99f, "--adaptive-decay", "from 0 to 0.99",
          p.adaptive_decay);
  require(p.min_keep >= 0, "--min-keep", "0 or a positive number", p.min_keep);
  require(p.seed >= -1, "--seed", "-1 (random), 0 or a positive number", static_cast<double>(p.seed));
}

void validate(const SamplerParams& params, int64_t vocab) {
  validate(params);
  for (const SamplerParams::Bias& one : params.bias)
    if (one.token < 0 || one.token >= vocab)
      throw_error("a bias is for token {}, which is outside the vocabulary (0 to {})", one.token, vocab - 1);
}

void throw_unusable_logits() {
  throw Error("the model's logits are NaN or all -infinity: the model file is damaged or a computation overflowed");
}

Sampler::Sampler(const SamplerParams& params, int64_t vocab, const TokenTexts* texts)
    : params_(without_unnamed(params)), texts_(texts), usual_(is_usual(params_)) {
  if (vocab <= 0) throw_error("the sampler needs a vocabulary of at least one token, not {}", vocab);
  validate(params, vocab);
  seed_ = params.seed >= 0 ? static_cast<uint64_t>(params.seed) : std::random_device{}();
  logits_.resize(vocab);
  candidates_.reserve(vocab);
  counts_.resize(vocab);
  plan_chain();
  reset();
}

void Sampler::reset() {
  draws_ = 0;
  std::fill(counts_.begin(), counts_.end(), 0);
  recent_.clear();
  oldest_ = 0;
  if (repetitions_) repetitions_->reset();
  surprise_ = 2.0 * params_.mirostat_tau;
  adaptive_weight_ = 1.0 / (1.0 - params_.adaptive_decay); // as if the target had been met so far
  adaptive_sum_ = params_.adaptive_target * adaptive_weight_;
  drawn_ = {};
}

void Sampler::accept(int32_t token) {
  if (token < 0 || static_cast<size_t>(token) >= counts_.size()) {
    throw_error("token {} is outside the vocabulary of {}", token, counts_.size());
  }
  if (token == drawn_.token) learn(drawn_.probability);
  drawn_ = {};
  if (repetitions_) repetitions_->accept(token);
  if (params_.repeat_last_n == 0) return;
  ++counts_[token];
  if (params_.repeat_last_n < 0) return;
  if (recent_.size() < static_cast<size_t>(params_.repeat_last_n)) {
    recent_.push_back(token);
    return;
  }
  --counts_[recent_[oldest_]];
  recent_[oldest_] = token;
  oldest_ = (oldest_ + 1) % recent_.size();
}

void Sampler::accept_drawn(int32_t token) {
  if (params_.temp > 0.0f) ++draws_;
  accept(token);
}

void Sampler::restore(const Recent& recent, uint64_t draws) {
  const auto outside = [&](int32_t token) { return token < 0 || static_cast<size_t>(token) >= counts_.size(); };
  const auto most = static_cast<size_t>(std::max(params_.repeat_last_n, 0));
  if (recent.counts.size() != counts_.size() || recent.ring.size() > most ||
      recent.oldest >= std::max<size_t>(recent.ring.size(), 1) || std::ranges::any_of(recent.ring, outside))
    throw_error("a sampler's recent tokens are not those of its parameters");
  reset();
  counts_.assign(recent.counts.begin(), recent.counts.end());
  recent_.assign(recent.ring.begin(), recent.ring.end());
  oldest_ = recent.oldest;
  draws_ = draws;
}

int32_t Sampler::sample(std::span<const float> logits, TokenMask* mask) {
  load(logits);
  if (mask == nullptr) return choose();
  if (std::any_of(logits_.begin(), logits_.end(), [](float x) { return x != kMasked; })) {
    const int32_t token = choose();
    if (mask->allows(token)) return token;
  }
  mask->apply(logits_);
  return choose();
}

void Sampler::load(std::span<const float> logits) {
  if (logits.size() != logits_.size()) {
    throw_error("the sampler got {} logits for a vocabulary of {}", logits.size(), logits_.size());
  }
  size_t nan_count = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    nan_count += logits[i] != logits[i];
    logits_[i] = std::min(logits[i], kHighest);
  }
  if (nan_count != 0) {
    throw_error("the model produced NaN logits ({} of {}): the model file is damaged or a computation overflowed",
                nan_count, logits.size());
  }
  for (const SamplerParams::Bias& one : params_.bias)
    logits_[one.token] = std::min(logits_[one.token] + one.bias, kHighest);
  for (const SamplerKind kind : before_) {
    if (kind == SamplerKind::dry) {
      for (const Repetitions::Penalty& one : repetitions_->penalties()) logits_[one.token] -= one.value;
    } else {
      for (size_t i = 0; i < logits_.size(); ++i)
        if (counts_[i] > 0) logits_[i] = penalized(static_cast<int32_t>(i), logits_[i]);
    }
  }
}

float Sampler::penalized(int32_t token, float logit) const {
  logit = logit > 0.0f ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
  logit -= static_cast<float>(counts_[token]) * params_.frequency_penalty + params_.presence_penalty;
  return std::min(logit, kHighest);
}

int32_t Sampler::choose() {
  if (greedy_) return choose_greedy();
  temperature_ = 1;
  if (usual_) {
    collect(params_.top_k);
    if (params_.typical_p < 1.0f) keep_typical();
    if (params_.top_p < 1.0f) keep_top_p();
    if (params_.min_p > 0.0f) keep_min_p();
    temperature_ = params_.temp;
  } else {
    run_chain();
  }
  double total = weigh();
  const double unbent = total;
  const bool adapts = !chain_.empty() && chain_.back() == SamplerKind::adaptive_p;
  if (adapts) total = apply_adaptive_p(total);
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability > b.probability : better(a, b);
  };
  const auto first = candidates_.begin(), last = candidates_.end();
  const auto head =
      first + static_cast<std::ptrdiff_t>(candidates_.size() <= kAllOrdered ? candidates_.size() : kOrderedCandidates);
  if (adapts)
    std::partial_sort(first, head, last, likelier);
  else
    std::partial_sort(first, head, last, better);
  const Candidate& chosen = candidates_[draw(total)];
  const double weight = adapts ? std::exp((chosen.logit - highest_logit()) / temperature_) : chosen.probability;
  drawn_ = {chosen.token, static_cast<float>(weight / unbent)};
  for (Candidate& candidate : candidates_) candidate.probability = static_cast<float>(candidate.probability / total);
  return chosen.token;
}

int32_t Sampler::choose_greedy() {
  const auto best = std::max_element(logits_.begin(), logits_.end());
  if (*best == kMasked) throw_error("no token can follow: every logit is -infinity");
  const auto token = static_cast<int32_t>(best - logits_.begin());
  candidates_.assign(1, {token, *best, 1.0f});
  return token;
}

void Sampler::collect(int32_t most) {
  candidates_.clear();
  const auto vocab = static_cast<int32_t>(logits_.size());
  const int32_t k = most == 0 ? vocab : std::min(most, vocab);
  if (k <= kHeapTopK) {
    // A heap with the worst in front. Later equal logits have higher ids: not better.
    float worst = kMasked;
    for (int32_t i = 0; i < vocab; ++i) {
      if (!(logits_[i] > worst)) continue;
      if (candidates_.size() == static_cast<size_t>(k)) {
        std::pop_heap(candidates_.begin(), candidates_.end(), better);
        candidates_.pop_back();
      }
      candidates_.push_back({i, logits_[i], 0.0f});
      std::push_heap(candidates_.begin(), candidates_.end(), better);
      if (candidates_.size() == static_cast<size_t>(k)) worst = candidates_.front().logit;
    }
  } else {
    for (int32_t i = 0; i < vocab; ++i) {
      if (logits_[i] != kMasked) candidates_.push_back({i, logits_[i], 0.0f});
    }
    if (candidates_.size() > static_cast<size_t>(k)) {
      std::nth_element(candidates_.begin(), candidates_.begin() + k, candidates_.end(), better);
      candidates_.resize(k);
    }
  }
  if (candidates_.empty()) throw_error("no token can follow: every logit is -infinity");
}

float Sampler::highest_logit() const {
  const auto lower = [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; };
  return std::max_element(candidates_.begin(), candidates_.end(), lower)->logit;
}

// Sets probabilities relative to the best; returns their sum.
double Sampler::weigh() {
  const float highest = highest_logit();
  double total = 0;
  for (Candidate& candidate : candidates_) {
    candidate.probability = std::exp((candidate.logit - highest) / temperature_);
    total += candidate.probability;
  }
  return total;
}

// Keeps the first candidates in order `before` that reach `mass`. Sorts growing pieces, because few usually suffice.
template <class Before>
void Sampler::keep_mass(double mass, Before before) {
  double sum = 0;
  size_t ordered = 0;
  for (size_t piece = kOrderedCandidates; ordered < candidates_.size(); piece *= 4) {
    const auto first = candidates_.begin() + ordered;
    const size_t end = std::min(candidates_.size(), ordered + piece);
    const auto last = candidates_.begin() + end;
    if (last != candidates_.end()) std::nth_element(first, last, candidates_.end(), before);
    std::sort(first, last, before);
    for (; ordered < end; ++ordered) {
      sum += candidates_[ordered].probability;
      if (sum >= mass && std::cmp_greater_equal(ordered + 1, params_.min_keep)) {
        candidates_.resize(ordered + 1);
        return;
      }
    }
  }
}

void Sampler::keep_top_p() { keep_mass(weigh() * params_.top_p, better); }

// Locally typical sampling: surprise -log p near the entropy. Meister et al. 2022, https://arxiv.org/abs/2202.00666
void Sampler::keep_typical() {
  const double total = weigh();
  double entropy = 0;
  for (const Candidate& candidate : candidates_) {
    const double p = candidate.probability / total;
    if (p > 0) entropy -= p * std::log(p);
  }
  // The surprise is log(total) + (highest - logit) / temperature.
  const double offset = (std::log(total) - entropy) * temperature_ + highest_logit();
  const auto distance = [&](const Candidate& candidate) { return std::abs(offset - candidate.logit); };
  keep_mass(total * params_.typical_p, [&](const Candidate& a, const Candidate& b) {
    const double da = distance(a), db = distance(b);
    return da != db ? da < db : a.token < b.token;
  });
}

void Sampler::keep_min_p() {
  weigh();
  const auto unlikely = [&](const Candidate& candidate) { return candidate.probability < params_.min_p; };
  if (params_.min_keep > 1 && std::ranges::count_if(candidates_, std::not_fn(unlikely)) < params_.min_keep)
    return keep_best(params_.min_keep);
  std::erase_if(candidates_, unlikely);
}

size_t Sampler::draw(double total) {
  const double target = uniform(seed_, draws_++) * total;
  double sum = 0;
  size_t last_possible = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].probability == 0.0f) continue;
    sum += candidates_[i].probability;
    last_possible = i;
    if (sum > target) break;
  }
  return last_possible;
}

} // namespace ridge::core
