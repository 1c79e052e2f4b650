// A PEFT adapter (adapter_config.json, adapter_model.safetensors) to a GGUF adapter as models/adapters/ reads it.
#pragma once

#include "convert/import/import.h"

#include <string>

namespace ridge::convert::import {

bool is_peft_folder(const std::string& folder);

// request.base, or the folder that adapter_config.json names, holds the config.json of the model that the adapter is
// for. Its matrices get the names and the order of rows that `ridge convert` gives that model's. Throws Error for what
// low-rank matrices beside a model's own do not express, such as DoRA, whole weights and biases.
ConvertReport convert_peft(const core::ConvertRequest& request);

} // namespace ridge::convert::import
