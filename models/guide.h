// The guide: a small model inside the executable, so that a chat works before any download. models/guide/ has the file,
// the corpus that it was trained on and the script that trained it.
#pragma once

#include "gguf/gguf.h"

namespace ridge::models {

// The GGUF file, opened in place: the executable is mapped, and nothing is copied.
gguf::File open_guide();
bool is_guide(const gguf::File& file); // whether it is open_guide()'s

// An EAGLE-3 head that was trained to guess what the guide says.
gguf::File open_guide_draft();

} // namespace ridge::models
