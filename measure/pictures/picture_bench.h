// Measures encoding of a picture or sound, and time to the first token after it.
#pragma once

#include "core/ceiling.h"
#include "measure/bench.h"

#include <string>
#include <vector>

namespace ridge::measure {

struct PictureRow {
  std::string model, projector, backend, device; // as in BenchRow; device of the encoder
  int64_t width = 0, height = 0;                 // pixels
  double sound_seconds = 0;                      // 0 for pictures
  int64_t patches = 0, tokens = 0;
  // Medians: encoder Programs only; input to rows; and up to the first token after the rows and a short text.
  double program_seconds = 0, encoding_seconds = 0, first_token_seconds = 0;
  double flops = 0;                       // of the Programs, by op_cost
  core::Ceiling peak;                     // operations per second, same process
  std::vector<StepProfile> profiles = {}; // per Program, if requested

  double flops_per_second() const { return flops / program_seconds; }
  double real_time_factor() const { return encoding_seconds / sound_seconds; } // for a sound
};

// Encodes random input of the requested size with each model. Throws like bench(), and a usage Error for an invalid
// size or a model without encoder.
std::vector<PictureRow> bench_pictures(const core::BenchRequest& request, const engine::LoadSteps& steps);

} // namespace ridge::measure
