#pragma once

#include "api/requests.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::measure {

// List names in errors: flags or labels.
struct BenchNames {
  std::string prompts = "--n-prompt", generated = "--n-gen", depths = "--n-depth";
};

// Shared by several tests.
struct BenchSetting {
  int64_t batch, ubatch, threads, streams, gpu_layers; // ubatch 0: the executor's
  std::string k_type, v_type;
};

struct BenchPlan {
  std::vector<BenchSetting> settings;
  std::vector<int64_t> prompts, generated, depths; // tokens; depths is not empty
  std::vector<int64_t> verified;                   // tokens per step
  std::vector<double> acceptances;                 // acceptance probabilities
  std::vector<double> head_acceptances;            // the same, with draft heads
  std::string heads;                               // mtp, eagle3, dflash; empty: none

  // Single-stream tests run once.
  bool runs_single_stream_tests(const BenchSetting& setting) const { return setting.streams == settings[0].streams; }
  size_t tests_of(const BenchSetting& setting) const;
  int64_t tests_of_model() const;
  int64_t most_outputs(const BenchSetting& setting) const; // of one forward()
  int64_t longest(bool single) const;                      // tokens after the depth
};

// Without the context size.
api::ModelOptions model_options(const api::BenchRequest& request, const BenchSetting& setting);

// Throws a usage Error for an invalid list or no tests.
BenchPlan plan_bench(const api::BenchRequest& request, const BenchNames& names);

} // namespace ridge::measure
