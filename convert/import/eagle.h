// EAGLE-3 draft heads, which depend on the model that they are for.
#pragma once

#include "convert/import/config/config.h"
#include "convert/import/matrices/output.h"

#include <string>
#include <vector>

namespace ridge::convert::import {

// Sets which rows of the model a head reads. `base`: the model, as a folder with config.json or a GGUF file; may be
// empty if the head's config.json says the layers. Throws Error if neither does.
void read_eagle_target(const Config& config, const gguf::Safetensors& tensors, const std::string& base,
                       gguf::Metadata& metadata);

// The model's token of each of the head's (d2t), stored as differences. Throws Error beyond the model's vocabulary.
Output draft_vocabulary(const gguf::SafeTensor& tensor, const std::string& path, int64_t vocab);

// A model as wide as the head's, without layers, to check a draft head's Program with.
struct StandIn {
  gguf::Metadata metadata;
  std::vector<gguf::TensorInfo> shapes;
};
StandIn stand_in_for_target(const Config& config, const gguf::Metadata& head);

} // namespace ridge::convert::import
