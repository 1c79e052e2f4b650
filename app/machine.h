// Facts about this machine that Linux keeps under /proc.
#pragma once

#include <string>
#include <string_view>

namespace ridge::app {

// The value of the first "name : value" line of a /proc file; empty where there is none.
std::string proc_field(const char* path, std::string_view name);

} // namespace ridge::app
