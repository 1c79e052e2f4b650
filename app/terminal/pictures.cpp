#include "app/terminal/pictures.h"

#include "app/models/encoders.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "engine/pictures/picture_shelf.h"

#include <fmt/format.h>

#include <span>

namespace ridge::app {

void take_pictures(api::ModelOptions& model, const std::vector<std::string>& images) {
  const bool named = !model.mmproj.empty() && model.mmproj != kNoEncoder;
  if (images.empty() && !named) {
    model.mmproj.clear();
    return;
  }
  model.mmproj = encoder_for_media(model.mmproj, model.model);
  if (!named) note(fmt::format("the encoder is {}", core::printable(model.mmproj, 300)));
}

std::string add_picture(const engine::LoadedModel& model, engine::Conversation& conversation, std::string_view file,
                        const std::string& name) {
  const auto picture = model.pictures->add(std::as_bytes(std::span(file)), name);
  conversation.hold(picture);
  const std::string size = picture->sound_seconds > 0 ? fmt::format("{:.1f} seconds", picture->sound_seconds)
                                                      : fmt::format("{} × {} pixels", picture->width, picture->height);
  note(fmt::format("[{}: {}, {} tokens]", core::printable(name, 300), size, picture->tokens));
  return picture->mark;
}

} // namespace ridge::app
