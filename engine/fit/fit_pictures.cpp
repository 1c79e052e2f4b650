#include "engine/fit/fit_pictures.h"

#include "engine/pictures/picture_reader.h"

#include <algorithm>

namespace ridge::engine {

Need encoder_need(const std::string& mmproj, int threads, const kernels::cuda::DeviceLimits* gpu) {
  const gguf::File file = gguf::File::open(mmproj);
  const models::vision::Model model(file);
  Need most; // of tiles, which are read one after the other
  for (const models::vision::Part& part : model.cut(media::Picture(kPlannedSide, kPlannedSide))) {
    if (!part.tile) continue;
    Need need;
    for (const models::vision::Stage& stage : model.build(part.tile->width, part.tile->height).stages)
      need += gpu ? gpu_need(stage.program, encoder_config(stage.rows(), {}), *gpu)
                  : cpu_need(stage.program, encoder_config(stage.rows(), {.threads = threads}));
    if (need.total() > most.total()) most = need;
  }
  return most;
}

} // namespace ridge::engine
