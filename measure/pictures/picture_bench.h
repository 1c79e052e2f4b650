// Encoding of a picture or sound, and the first token after it.
#pragma once

#include "core/ceiling.h"
#include "measure/bench.h"

#include <string>
#include <vector>

namespace ridge::measure {

struct PictureRow {
  std::string model, projector, backend, device; // device: the encoder's
  int64_t width = 0, height = 0;                 // pixels
  double sound_seconds = 0;                      // 0 for pictures
  int64_t patches = 0, tokens = 0;
  // Medians: encoder Programs; input to rows; to the first token after a short text.
  double program_seconds = 0, encoding_seconds = 0, first_token_seconds = 0;
  double flops = 0;                       // by op_cost
  core::Ceiling peak;                     // same process
  std::vector<StepProfile> profiles = {}; // if requested

  double flops_per_second() const { return flops / program_seconds; }
  double real_time_factor() const { return encoding_seconds / sound_seconds; } // for a sound
};

// Encodes random input. Throws like bench(), and a usage Error for an invalid size or no encoder.
std::vector<PictureRow> bench_pictures(const api::BenchRequest& request, const engine::LoadSteps& steps);

} // namespace ridge::measure
