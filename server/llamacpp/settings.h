// How llama.cpp's server writes down how an answer is generated, and what it took.
#pragma once

#include "server/answers.h"

#include <cstdint>

namespace ridge::server {

// "generation_settings": everything that a request may say of its sampling, as it is.
Json settings_json(const core::SamplingOptions& sampling);

// What the answers took, once all have ended.
Json timings_json(const Answers& answers);

// The same while they are generated, by the clock: the prompt took until the first token.
class RunningTimings {
 public:
  // Before the first token is sought, and for each token.
  RunningTimings();
  void count_token();

  double seconds() const;            // since the start
  double seconds_generating() const; // since the first token
  Json json(const Answers& answers) const;

 private:
  const double start_;
  double first_ = 0;
  int64_t tokens_ = 0;
};

// How far the prompt of the answer is read: "prompt_progress".
Json progress_json(const Answers::Answer& answer, double seconds);

} // namespace ridge::server
