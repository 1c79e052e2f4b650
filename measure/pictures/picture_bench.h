// Measures what a picture or a sound costs: its encoding, and the first token of an answer behind it.
#pragma once

#include "core/ceiling.h"
#include "measure/bench.h"

#include <string>
#include <vector>

namespace ridge::measure {

struct PictureRow {
  std::string model, projector, backend, device; // as of BenchRow; where the encoder runs
  int64_t width = 0, height = 0;                 // pixels
  double sound_seconds = 0;                      // of a sound, which has no pixels
  int64_t patches = 0, tokens = 0;
  // Medians: of the encoder's Programs alone, of all from pixels or samples to rows, and with the first token behind
  // the rows and a few tokens of text.
  double program_seconds = 0, encoding_seconds = 0, first_token_seconds = 0;
  double flops = 0;                       // of the Programs, as op_cost counts them
  core::Ceiling peak;                     // operations per second, measured in the same process
  std::vector<StepProfile> profiles = {}; // of the Programs, one after another, where asked for

  double flops_per_second() const { return flops / program_seconds; }
  double real_time_factor() const { return encoding_seconds / sound_seconds; } // of a sound
};

// Encodes random pixels or samples, as many as the request says, again and again, with each of its models. Throws what
// bench() throws, and a usage Error for a size that is none and a model without an encoder.
std::vector<PictureRow> bench_pictures(const core::BenchRequest& request, const engine::LoadSteps& steps);

} // namespace ridge::measure
