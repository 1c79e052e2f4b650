#include "engine/pictures/fit_pictures.h"

#include "engine/pictures/picture_reader.h"

#include <algorithm>

namespace ridge::engine {

Need encoder_need(const std::string& mmproj, int threads, const kernels::cuda::DeviceLimits* gpu) {
  const gguf::File file = gguf::File::open(mmproj);
  const Encoders encoders(file);
  Need most; // of the largest tile: tiles run one at a time
  const auto count = [&](const models::vision::Encoder& encoder) {
    Need need;
    for (const models::vision::Stage& stage : encoder.stages)
      need += gpu ? gpu_need(stage.program, encoder_config(stage.rows(), {}), *gpu)
                  : cpu_need(stage.program, encoder_config(stage.rows(), {.threads = threads}));
    if (need.total() > most.total()) most = need;
  };
  if (encoders.pictures)
    for (const models::vision::Part& part : encoders.pictures->cut(media::Picture(kPlannedSide, kPlannedSide)))
      if (part.tile) count(encoders.pictures->build(part.tile->width, part.tile->height));
  if (encoders.sounds)
    for (const models::sound::Part& part : encoders.sounds->cut(std::vector<float>(kPlannedSamples)))
      if (part.frames) count(encoders.sounds->build(part.frames->count));
  return most;
}

} // namespace ridge::engine
