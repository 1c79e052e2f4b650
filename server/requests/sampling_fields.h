// How tokens are chosen, in the names that all APIs use for it and that llama.cpp's server has beside them.
#pragma once

#include "core/requests.h"
#include "server/fields.h"

namespace ridge::server {

// Takes the numbers that sampling depends on. What the body leaves open stays. Throws ApiError for values out of range.
void take_numbers(const Fields& body, core::SamplerParams& params);

// A scale for each of `adapters` adapters, from a list such as [{"id": 0, "scale": 0.5}] at `path`; 0 for those that it
// leaves out. Throws ApiError for adapters that are not there or come twice.
std::vector<float> adapter_scales(const Json& list, const std::string& path, size_t adapters);
// Takes them from the field `lora`; without it they stay.
void take_adapters(const Fields& body, size_t adapters, core::SamplingOptions& sampling);

} // namespace ridge::server
