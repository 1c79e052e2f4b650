#include "kernels/cuda/sampling/sample_state.h"

namespace ridge::kernels::cuda {
namespace {

bool is_greedy(const core::SamplerParams& p) { return p.temp == 0.0f; }

} // namespace

bool can_sample(const core::SamplerParams& p) {
  return core::is_usual(p) && p.bias.empty() &&
         (is_greedy(p) || (p.typical_p >= 1.0f && p.top_k >= 1 && p.top_k <= kMaxTopK));
}

bool has_penalties(const core::SamplerParams& p) {
  return p.repeat_penalty != 1.0f || p.presence_penalty != 0.0f || p.frequency_penalty != 0.0f;
}

SampleState state_of(const core::Sampler& sampler) {
  const core::SamplerParams& p = sampler.params();
  const core::Sampler::Recent recent = sampler.recent();
  return {.temp = p.temp,
          .top_p = p.top_p,
          .min_p = p.min_p,
          .repeat_penalty = p.repeat_penalty,
          .presence_penalty = p.presence_penalty,
          .frequency_penalty = p.frequency_penalty,
          .top_k = is_greedy(p) ? 1 : p.top_k,
          .penalties = has_penalties(p),
          .ring_size = p.repeat_last_n,
          .ring_filled = static_cast<int32_t>(recent.ring.size()),
          .ring_oldest = static_cast<int32_t>(recent.oldest),
          .seed = sampler.seed(),
          .draws = sampler.draws(),
          .step = 0,
          .draft_rejected = 0};
}

} // namespace ridge::kernels::cuda
