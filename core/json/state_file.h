// Facts learned about this machine, in $XDG_STATE_HOME/ridge.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::core {

// Returns an empty object if the file is missing or invalid.
nlohmann::ordered_json read_state(const std::string& name);
// Failures are ignored.
void write_state(const std::string& name, const nlohmann::ordered_json& object);

} // namespace ridge::core
