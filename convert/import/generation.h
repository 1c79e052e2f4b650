// generation_config.json: how a checkpoint's makers would have its tokens chosen, and which tokens end an answer.
#pragma once

#include "convert/import/json_file.h"
#include "gguf/metadata.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::convert::import {

// Appends general.sampling.*. A number out of its range is left out, with a line in `notes`.
void read_sampling(JsonFiles& files, gguf::Metadata& metadata, std::vector<std::string>& notes);

// eos_token_id of generation_config.json, else of config.json: one id or a list, without repetitions.
std::vector<int64_t> end_tokens(JsonFiles& files);

} // namespace ridge::convert::import
