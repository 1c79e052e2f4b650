// What an Ollama manifest names.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ridge::hub {

// The blob that is the model of a manifest, as a file name: "sha256-0123…". Nothing where the text is no manifest, has
// no model or several, or names anything but a hash.
std::optional<std::string> model_blob(std::string_view manifest);

} // namespace ridge::hub
