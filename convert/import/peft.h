// PEFT adapters (adapter_config.json, adapter_model.safetensors) to GGUF (models/adapters/).
#pragma once

#include "convert/import/import.h"

#include <string>

namespace ridge::convert::import {

bool is_peft_folder(const std::string& folder);

// Reads the base model's config.json from request.base or adapter_config.json's folder; names and row order match
// `ridge convert`. Throws Error beyond low-rank updates (DoRA, whole weights, biases).
ConvertReport convert_peft(const api::ConvertRequest& request);

} // namespace ridge::convert::import
