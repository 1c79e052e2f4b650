// The chain in any order, and rare samplers. Temperature divides logits only where they are used.
#include "core/error.h"
#include "core/random.h"
#include "core/sampler.h"

#include <algorithm>
#include <cmath>

namespace ridge::core {
namespace {

bool has_penalties(const SamplerParams& p) {
  return p.repeat_penalty != 1.0f || p.presence_penalty != 0.0f || p.frequency_penalty != 0.0f;
}

bool is_on(const SamplerParams& p, SamplerKind kind) {
  switch (kind) {
  case SamplerKind::penalties: return has_penalties(p);
  case SamplerKind::dry: return p.dry.is_on();
  case SamplerKind::top_n_sigma: return p.top_n_sigma > 0.0f;
  case SamplerKind::top_k: return p.top_k > 0;
  case SamplerKind::typ_p: return p.typical_p < 1.0f;
  case SamplerKind::top_p: return p.top_p < 1.0f;
  case SamplerKind::min_p: return p.min_p > 0.0f;
  case SamplerKind::xtc: return p.xtc_probability > 0.0f && p.xtc_threshold <= 0.5f;
  case SamplerKind::temperature: return p.temp != 1.0f || p.dynatemp_range > 0.0f;
  case SamplerKind::infill: return true;
  case SamplerKind::adaptive_p: return p.adaptive_target >= 0.0f;
  }
  return false;
}

} // namespace

bool is_usual(const SamplerParams& p) {
  using enum SamplerKind;
  if (p.mirostat != 0 || p.min_keep > 1 || p.dynatemp_range > 0.0f) return false;
  for (const SamplerKind kind : {dry, top_n_sigma, xtc, adaptive_p})
    if (is_on(p, kind)) return false;
  SamplerOrder wanted, asked; // active ones
  for (const SamplerKind kind : usual_order())
    if (is_on(p, kind)) wanted.push_back(kind);
  for (const SamplerKind kind : p.order)
    if (is_on(p, kind)) asked.push_back(kind);
  return wanted == asked;
}

SamplerParams without_unnamed(SamplerParams p) {
  const SamplerParams none;
  for (const SamplerKind kind : usual_order()) {
    if (std::ranges::find(p.order, kind) != p.order.end()) continue;
    switch (kind) {
    case SamplerKind::penalties:
      p.repeat_penalty = 1;
      p.presence_penalty = p.frequency_penalty = 0;
      break;
    case SamplerKind::dry: p.dry.multiplier = 0; break;
    case SamplerKind::top_n_sigma: p.top_n_sigma = none.top_n_sigma; break;
    case SamplerKind::top_k: p.top_k = 0; break;
    case SamplerKind::typ_p: p.typical_p = 1; break;
    case SamplerKind::top_p: p.top_p = 1; break;
    case SamplerKind::min_p: p.min_p = 0; break;
    case SamplerKind::xtc: p.xtc_probability = 0; break;
    case SamplerKind::temperature:
      p.temp = 1;
      p.dynatemp_range = 0;
      break;
    case SamplerKind::infill: break;
    case SamplerKind::adaptive_p: p.adaptive_target = none.adaptive_target; break;
    }
  }
  return p;
}

// Penalties before filters see the whole row, unmasked.
void Sampler::plan_chain() {
  using enum SamplerKind;
  for (const SamplerKind kind : params_.order) {
    const bool penalizes = kind == penalties || kind == dry;
    if (!is_on(params_, kind) || (kind == infill && !texts_)) continue;
    if (penalizes && (chain_.empty() || params_.mirostat != 0))
      before_.push_back(kind);
    else if (params_.mirostat == 0 || kind == temperature)
      chain_.push_back(kind);
  }
  // It draws, so it is last.
  if (const auto at = std::ranges::find(chain_, adaptive_p); at != chain_.end()) std::rotate(at, at + 1, chain_.end());
  if (params_.dry.is_on()) repetitions_.emplace(params_.dry, texts_);
  // Greedy at temperature 0, unless an earlier sampler may remove the best.
  const auto heat = std::ranges::find(chain_, temperature);
  const auto changes_best = [](SamplerKind kind) {
    return kind == penalties || kind == dry || kind == xtc || kind == infill;
  };
  greedy_ = params_.temp == 0.0f && params_.dynatemp_range == 0.0f && heat != chain_.end() &&
            std::none_of(chain_.begin(), heat, changes_best);
}

void Sampler::run_chain() {
  auto kind = chain_.begin();
  if (kind != chain_.end() && *kind == SamplerKind::top_k) {
    collect(params_.top_k);
    ++kind;
  } else {
    collect(0);
  }
  for (; kind != chain_.end(); ++kind) run(*kind);
  if (params_.mirostat != 0) keep_by_mirostat();
}

void Sampler::run(SamplerKind kind) {
  switch (kind) {
  case SamplerKind::penalties: return penalize_candidates();
  case SamplerKind::dry: return apply_dry_penalties();
  case SamplerKind::top_n_sigma: return keep_near_highest();
  case SamplerKind::top_k: return keep_best(params_.top_k);
  case SamplerKind::typ_p: return keep_typical();
  case SamplerKind::top_p: return keep_top_p();
  case SamplerKind::min_p: return keep_min_p();
  case SamplerKind::xtc: return exclude_top();
  case SamplerKind::temperature: return apply_temperature();
  case SamplerKind::infill: return end_infill();
  case SamplerKind::adaptive_p: return;
  }
}

void Sampler::scale_logits() {
  for (Candidate& candidate : candidates_) candidate.logit /= temperature_;
  temperature_ = 1;
}

void Sampler::penalize_candidates() {
  scale_logits();
  for (Candidate& candidate : candidates_)
    if (counts_[candidate.token] > 0) candidate.logit = penalized(candidate.token, candidate.logit);
}

void Sampler::apply_dry_penalties() {
  scale_logits();
  const std::span<const Repetitions::Penalty> penalties = repetitions_->penalties(); // by token
  for (Candidate& candidate : candidates_) {
    const auto at = std::ranges::lower_bound(penalties, candidate.token, {}, &Repetitions::Penalty::token);
    if (at != penalties.end() && at->token == candidate.token) candidate.logit -= at->value;
  }
}

void Sampler::keep_best(size_t count) {
  if (candidates_.size() <= count) return;
  const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(candidates_.begin(), last, candidates_.end(), better);
  candidates_.erase(last, candidates_.end());
}

// Noise is near the mean, relevant tokens are far above. https://arxiv.org/abs/2411.07641
void Sampler::keep_near_highest() {
  const auto count = static_cast<double>(candidates_.size());
  double sum = 0, squares = 0;
  for (const Candidate& candidate : candidates_) sum += candidate.logit;
  const double mean = sum / count;
  for (const Candidate& candidate : candidates_) squares += (candidate.logit - mean) * (candidate.logit - mean);
  const double lowest = highest_logit() - params_.top_n_sigma * std::sqrt(squares / count);
  std::erase_if(candidates_, [&](const Candidate& candidate) { return candidate.logit < lowest; });
}

// "Exclude top choices". https://github.com/oobabooga/text-generation-webui/pull/6335
void Sampler::exclude_top() {
  if (candidates_.size() < 2 || uniform(seed_, draws_++) > params_.xtc_probability) return;
  const double total = weigh();
  const auto is_probable = [&](const Candidate& one) { return one.probability >= params_.xtc_threshold * total; };
  const auto behind = std::partition(candidates_.begin(), candidates_.end(), is_probable);
  if (behind - candidates_.begin() < 2) return;
  const auto least = std::max_element(candidates_.begin(), behind, better);
  std::iter_swap(least, behind - 1);
  if (candidates_.end() - (behind - 1) < params_.min_keep) return;
  candidates_.erase(candidates_.begin(), behind - 1);
}

// Dynamic temperature. https://arxiv.org/abs/2309.02772
void Sampler::apply_temperature() {
  float temperature = params_.temp;
  if (params_.dynatemp_range > 0.0f) {
    if (candidates_.size() < 2) return;
    const double total = weigh();
    double entropy = 0;
    for (const Candidate& candidate : candidates_)
      if (candidate.probability > 0) entropy -= candidate.probability / total * std::log(candidate.probability / total);
    const double share = std::clamp(entropy / std::log(static_cast<double>(candidates_.size())), 0.0, 1.0);
    const float lowest = std::max(0.0f, params_.temp - params_.dynatemp_range);
    const float highest = params_.temp + params_.dynatemp_range;
    temperature = lowest + (highest - lowest) * static_cast<float>(std::pow(share, params_.dynatemp_exponent));
  }
  if (temperature <= 0.0f)
    keep_best(1);
  else
    temperature_ *= temperature;
}

// As in llama.cpp: ends if the end is probable, merges tokens of which one begins with the other, keeps the certain
// ones.
void Sampler::end_infill() {
  constexpr size_t kMaxMerged = 256;
  constexpr double kCertain = 0.2;
  const auto ends = [&](const Candidate& one) { return texts_->ends(one.token); };
  const double total = weigh();
  double ending = 0;
  for (Candidate& candidate : candidates_) {
    candidate.probability = static_cast<float>(candidate.probability / total);
    if (ends(candidate)) ending += candidate.probability;
  }
  if (3 * ending * static_cast<double>(candidates_.size()) > 1 - ending) {
    std::erase_if(candidates_, [&](const Candidate& one) { return !ends(one); });
    return;
  }
  const size_t merged = std::min(candidates_.size(), kMaxMerged);
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(merged), candidates_.end(),
                    better);
  for (size_t i = 0; i < merged; ++i)
    for (size_t j = 0; j < merged && candidates_[i].probability > 0; ++j) {
      Candidate *to = &candidates_[i], *from = &candidates_[j];
      const std::string_view begin = texts_->piece(to->token);
      if (i == j || from->probability == 0 || ends(*to) || ends(*from) || begin.empty() ||
          !texts_->piece(from->token).starts_with(begin))
        continue;
      if (from->probability > to->probability) std::swap(to, from);
      to->probability += std::exchange(from->probability, 0.0f);
    }
  const auto drop_below = [&](double least) {
    std::erase_if(candidates_, [&](const Candidate& one) { return one.probability < least && !ends(one); });
  };
  const Candidate best = *std::max_element(candidates_.begin(), candidates_.end(),
                                           [](const auto& a, const auto& b) { return a.probability < b.probability; });
  drop_below(kCertain);
  const auto certain = candidates_.size() - static_cast<size_t>(std::ranges::count_if(candidates_, ends));
  if (certain == 0) {
    const int32_t end = texts_->end();
    const bool may_end = end >= 0 && std::isfinite(logits_[end]); // a mask may forbid it
    candidates_.assign(1, may_end ? Candidate{end, 0, 1} : best);
    return;
  }
  double left = 0;
  for (const Candidate& one : candidates_) left += one.probability;
  drop_below(left / static_cast<double>(certain + 1));
}

// https://arxiv.org/abs/2007.14966
void Sampler::keep_by_mirostat() {
  constexpr size_t kEstimated = 100; // for version 1's estimate of Zipf's exponent
  const double total = weigh();
  if (params_.mirostat == 2) {
    const double least = total * std::exp2(-surprise_);
    const auto is_surprising = [&](const Candidate& one) { return one.probability < least; };
    if (std::ranges::all_of(candidates_, is_surprising)) return keep_best(1);
    std::erase_if(candidates_, is_surprising);
    return;
  }
  const size_t head = std::min(kEstimated, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(head), candidates_.end(),
                    better);
  double products = 0, squares = 0;
  for (size_t i = 0; i + 1 < head; ++i) {
    if (candidates_[i + 1].probability == 0) break;
    const double distance = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += distance * std::log(candidates_[i].probability / candidates_[i + 1].probability);
    squares += distance * distance;
  }
  const double exponent = squares > 0 ? products / squares : 0, epsilon = exponent - 1;
  const double size = std::pow(
      epsilon * std::exp2(surprise_) / (1 - std::pow(static_cast<double>(logits_.size()), -epsilon)), 1 / exponent);
  keep_best(size >= 1 ? static_cast<size_t>(std::min(size, 1e9)) : 1); // NaN also gives 1
}

// Favors probabilities near a target that moves against previous draws. Returns the sum of weights.
double Sampler::apply_adaptive_p(double total) {
  constexpr double kWidth = 0.3, kPeak = 5, kSharpness = 10; // shape of the bias, in logits
  const double target = std::clamp(2.0 * params_.adaptive_target - adaptive_sum_ / adaptive_weight_, 0.0, 1.0);
  double sum = 0;
  for (Candidate& candidate : candidates_) {
    const double distance = std::abs(candidate.probability / total - target) / kWidth;
    const double logit = kPeak - kSharpness * distance * distance / (1 + distance);
    candidate.probability = static_cast<float>(std::exp(logit - kPeak));
    sum += candidate.probability;
  }
  return sum;
}

void Sampler::learn(float probability) {
  if (params_.mirostat != 0)
    surprise_ -= params_.mirostat_eta * (-std::log2(std::max(probability, 1e-30f)) - params_.mirostat_tau);
  adaptive_sum_ = probability + params_.adaptive_decay * adaptive_sum_;
  adaptive_weight_ = 1 + params_.adaptive_decay * adaptive_weight_;
}

} // namespace ridge::core
