#pragma once

#include <string>

namespace ridge::app {

// All of standard input without trailing line breaks; empty for a terminal or device. Reports that it waits, since an
// open pipe may never end.
std::string piped_text();

} // namespace ridge::app
