// Load test of the scheduler: closed-loop clients or random arrivals.
#pragma once

#include "measure/bench.h"

#include <string>
#include <vector>

namespace ridge::measure {

struct Percentiles { // seconds; 0: not measured
  double median = 0, p90 = 0, p99 = 0;
};

struct ClientLoadRow {
  std::string model, backend, device; // as in BenchRow
  api::ClientLoad load;
  int64_t requests = 0;
  double seconds = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  int64_t preemptions = 0;    // how often requests lost their streams
  Percentiles first_token;    // since the request
  Percentiles between_tokens; // within an answer
  int64_t steps = 0;
  double bytes = 0;                 // by op_cost
  double read_bytes_per_second = 0; // mean of before and after

  double prompt_rate() const { return static_cast<double>(prompt_tokens) / seconds; } // total
  double generated_rate() const { return static_cast<double>(generated_tokens) / seconds; }
  double cached_share() const { return static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens); }
  double bytes_per_second() const { return bytes / seconds; }
};

// Warm-up, then the load, on each model. Prompts are a shared prefix plus random tokens. Throws like bench(), and a
// usage Error if a prompt is not longer than the prefix.
std::vector<ClientLoadRow> client_load(const api::BenchRequest& request, const engine::LoadSteps& steps);

} // namespace ridge::measure
