// Pictures in terminal conversations.
#pragma once

#include "api/requests.h"
#include "engine/chat/conversation.h"

#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

// Completes the picture options if needed. Throws Error if there is no encoder.
void take_pictures(api::ModelOptions& model, const std::vector<std::string>& images);

// Encodes a picture for the next message and returns its placeholder. `name`: file name. The encoder must be open.
std::string add_picture(const engine::LoadedModel& model, engine::Conversation& conversation, std::string_view file,
                        const std::string& name);

} // namespace ridge::app
