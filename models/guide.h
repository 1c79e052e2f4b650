// The guide: a small model of our own inside the executable, so that there is somebody to talk to before any download.
// models/guide/ has the file, the corpus it was trained on and the recipe that made it.
#pragma once

#include "gguf/gguf.h"

namespace ridge::models {

// The GGUF file, opened where the executable is mapped: nothing is copied.
gguf::File open_guide();

} // namespace ridge::models
