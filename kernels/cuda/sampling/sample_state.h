#pragma once

#include "core/sampler.h"
#include "kernels/cuda/sampling/sampling.h"

namespace ridge::kernels::cuda {

// Whether the device can sample with these.
bool can_sample(const core::SamplerParams& params);
bool has_penalties(const core::SamplerParams& params);
SampleState state_of(const core::Sampler& sampler);

} // namespace ridge::kernels::cuda
