#include "engine/fit/fit_pictures.h"

#include "engine/pictures/picture_reader.h"

#include <algorithm>

namespace ridge::engine {

Need encoder_need(const std::string& mmproj, int threads) {
  const gguf::File file = gguf::File::open(mmproj);
  const models::vision::Model model(file);
  Need most; // of tiles, which are read one after the other
  for (const models::vision::Part& part : model.cut(media::Picture(kPlannedSide, kPlannedSide))) {
    if (!part.tile) continue;
    const models::vision::Encoder encoder = model.build(part.tile->width, part.tile->height);
    Need need = cpu_need(encoder.encoder, encoder_config(std::ssize(encoder.patches), {.threads = threads}));
    need += cpu_need(encoder.merger, encoder_config(std::ssize(encoder.merged) / encoder.group, {.threads = threads}));
    if (need.total() > most.total()) most = need;
  }
  return most;
}

} // namespace ridge::engine
