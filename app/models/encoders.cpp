#include "app/models/encoders.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "engine/pictures/open_pictures.h"
#include "hub/projectors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace ridge::app {

std::string find_encoder(const std::string& model) {
  if (model.empty()) return {};
  const std::vector<std::string> found = engine::fitting_encoders(model, hub::projectors_beside(model));
  if (found.empty()) return {};
  const std::string owner = hub::projector_owner(found[0]);
  if (std::ranges::all_of(found, [&](const std::string& path) { return hub::projector_owner(path) == owner; }))
    return found[0];
  std::vector<std::string> shown;
  for (const std::string& path : found) shown.push_back(core::printable(path, 300));
  throw Error(fmt::format("{}: several encoders match: {}; choose one with --mmproj FILE", core::printable(model),
                          fmt::join(shown, " or ")),
              Error::kUsage);
}

std::string encoder_to_use(const std::string& mmproj, const std::string& model) {
  if (mmproj == kNoEncoder) return {};
  if (mmproj.empty()) return find_encoder(model);
  engine::fitting_encoders(model, std::vector{mmproj});
  return mmproj;
}

std::string encoder_for_media(const std::string& mmproj, const std::string& model) {
  std::string found = encoder_to_use(mmproj, model);
  if (found.empty())
    throw Error(
        mmproj == kNoEncoder
            ? "--image and --audio: need an encoder; remove --mmproj none"
            : "--image and --audio: no mmproj*.gguf for the model next to it; give the encoder file with --mmproj",
        Error::kUsage);
  return found;
}

} // namespace ridge::app
