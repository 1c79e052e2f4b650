// How tokens are chosen, in the names that all APIs use for it and that llama.cpp's server has beside them.
#pragma once

#include "core/sampler.h"
#include "server/fields.h"

namespace ridge::server {

// Takes the numbers that sampling depends on. What the body leaves open stays. Throws ApiError for values out of range.
void take_numbers(const Fields& body, core::SamplerParams& params);

} // namespace ridge::server
