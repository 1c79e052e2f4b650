// Pictures in conversations on the terminal.
#pragma once

#include "core/requests.h"
#include "engine/conversation.h"

#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

// Settles the options of a command for pictures, where there are some or an encoder is named. Throws Error where there
// is no encoder.
void take_pictures(core::ModelOptions& model, const std::vector<std::string>& images);

// Encodes a picture for the next message, says what it costs, and returns what stands for it in the message. `name`: of
// its file. The model is open with its encoder.
std::string add_picture(const engine::LoadedModel& model, engine::Conversation& conversation, std::string_view file,
                        const std::string& name);

} // namespace ridge::app
