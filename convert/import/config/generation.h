// Reads generation_config.json: sampling and end tokens.
#pragma once

#include "convert/import/config/json_file.h"
#include "gguf/metadata.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::convert::import {

// Appends general.sampling.*; skips numbers out of range with a note.
void read_sampling(JsonFiles& files, gguf::Metadata& metadata, std::vector<std::string>& notes);

// eos_token_id of generation_config.json, else config.json, without duplicates.
std::vector<int64_t> end_tokens(JsonFiles& files);

} // namespace ridge::convert::import
