// llama.cpp's JSON of settings and timings.
#pragma once

#include "server/answers.h"

#include <cstdint>
#include <string>

namespace ridge::server {

std::string build_info(); // begins with "b", as llama.cpp's clients expect

// With a tokenizer, ignored end tokens are among the biases.
Json settings_json(const api::SamplingOptions& sampling, const text::Tokenizer* tokenizer = nullptr);

// Once all have ended.
Json timings_json(const Answers& answers);

// Wall-clock times during generation. The prompt's time ends with the first token.
class RunningTimings {
 public:
  // Starts the clock. Call count_token() for each token.
  RunningTimings();
  void count_token();
  bool began() const { return tokens_ > 0; }

  double seconds() const;
  double seconds_generating() const;
  Json json(const Answers& answers) const;

 private:
  const double start_;
  double first_ = 0;
  int64_t tokens_ = 0;
};

Json progress_json(const Answers::Answer& answer, double seconds);

} // namespace ridge::server
