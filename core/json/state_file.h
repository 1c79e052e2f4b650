// What programs learned of this machine and keep for one another: JSON objects in files of $XDG_STATE_HOME/ridge.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ridge::core {

// The object in the file of this name; an empty one where there is none, or not as it was written.
nlohmann::ordered_json read_state(const std::string& name);
// Where the file cannot be written, the object is lost.
void write_state(const std::string& name, const nlohmann::ordered_json& object);

} // namespace ridge::core
