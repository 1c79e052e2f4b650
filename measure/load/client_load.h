// Plays a load to the scheduler that serves many sequences: clients that each send their next request when they have
// their answer, or requests that come at random times.
#pragma once

#include "measure/bench.h"

#include <string>
#include <vector>

namespace ridge::measure {

struct Percentiles { // seconds; 0 where nothing was measured
  double median = 0, p90 = 0, p99 = 0;
};

struct ClientLoadRow {
  std::string model, backend, device; // as of BenchRow
  core::ClientLoad load;
  int64_t requests = 0;
  double seconds = 0; // from the first request to the last answer
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  int64_t preemptions = 0;    // requests that lost their stream to others and went on later
  Percentiles first_token;    // from its request on
  Percentiles between_tokens; // of one answer
  int64_t steps = 0;
  double bytes = 0;                 // of all steps, as op_cost counts them
  double read_bytes_per_second = 0; // measured in the same process: the mean of before and after

  double prompt_rate() const { return static_cast<double>(prompt_tokens) / seconds; } // tokens per second, of all
  double generated_rate() const { return static_cast<double>(generated_tokens) / seconds; }
  double cached_share() const { return static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens); }
  double bytes_per_second() const { return bytes / seconds; }
};

// Plays the request's load to each of its models. Prompts are random tokens behind those that all share; their lengths
// and those of answers are drawn from the request's lists. A round of requests that is not counted comes first. Throws
// what bench() throws, and a usage Error where a prompt is no longer than what all share.
std::vector<ClientLoadRow> client_load(const core::BenchRequest& request, const engine::LoadSteps& steps);

} // namespace ridge::measure
