// Output of --json.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

namespace ridge::app {

// To stdout: "command", "machine", then `report`'s fields. `indent` -1: one line.
void print_report(std::string_view command, const nlohmann::ordered_json& report, int indent = 1);

} // namespace ridge::app
