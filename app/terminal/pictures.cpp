#include "app/terminal/pictures.h"

#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "engine/pictures/open_pictures.h"
#include "engine/pictures/picture_shelf.h"
#include "media/picture.h"

#include <fmt/format.h>

#include <span>

namespace ridge::app {

void take_pictures(core::ModelOptions& model, const std::vector<std::string>& images) {
  if (images.empty() && model.mmproj.empty()) return;
  if (model.mmproj.empty()) {
    model.mmproj = engine::find_mmproj(model.model);
    if (model.mmproj.empty())
      throw Error("--image: no mmproj*.gguf lies beside the model; name the file of its encoder with --mmproj",
                  Error::kUsage);
    note(fmt::format("pictures are read by {}", core::printable(model.mmproj)));
  }
  engine::settle_for_pictures(model);
}

std::string add_picture(const engine::LoadedModel& model, engine::Conversation& conversation, const std::string& path) {
  if (!model.pictures) throw_error("the model was started without an encoder of pictures: start with --mmproj FILE");
  const std::string file = media::read_picture_file(path);
  const auto picture = model.pictures->add(std::as_bytes(std::span(file)), path);
  conversation.hold(picture);
  note(fmt::format("[{}: {} × {} pixels, {} tokens]", core::printable(path), picture->width, picture->height,
                   picture->tokens));
  return picture->mark;
}

} // namespace ridge::app
