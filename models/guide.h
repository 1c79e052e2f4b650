// The guide: a small model in the executable, for chats without a download.
#pragma once

#include "gguf/gguf.h"

namespace ridge::models {

// Opens the file in the mapped executable, without a copy.
gguf::File open_guide();
bool is_guide(const gguf::File& file);

gguf::File open_guide_draft();

} // namespace ridge::models
