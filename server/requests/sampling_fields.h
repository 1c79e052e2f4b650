// Sampling fields of all APIs.
#pragma once

#include "api/requests.h"
#include "server/json/fields.h"

namespace ridge::server {

// Absent values stay. Throws ApiError for values out of range.
void take_numbers(const Fields& body, core::SamplerParams& params);

// Reads [{"id": 0, "scale": 0.5}]; adapters not in it get 0. Throws ApiError for unknown or duplicate ids.
std::vector<float> adapter_scales(const Json& list, const std::string& path, size_t adapters);
// Reads `lora`, if present.
void take_adapters(const Fields& body, size_t adapters, api::SamplingOptions& sampling);

} // namespace ridge::server
