// What a benchmark runs: a request's lists as numbers.
#pragma once

#include "core/requests.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::measure {

// What errors call the lists of a request: the command line's flags, or the labels of another front end.
struct BenchNames {
  std::string prompts = "--n-prompt", generated = "--n-gen", depths = "--n-depth";
};

// What an executor is made for; the tests of one setting share it.
struct BenchSetting {
  int64_t batch, ubatch, threads, streams, gpu_layers; // ubatch 0: the executor's
  std::string k_type, v_type;
};

// A request's lists as numbers.
struct BenchPlan {
  std::vector<BenchSetting> settings;
  std::vector<int64_t> prompts, generated, depths; // tokens; depths has one at least
  std::vector<int64_t> verified;                   // tokens of a step
  std::vector<double> right_guesses;               // probabilities
  std::vector<double> right_heads;                 // of guesses that draft heads make
  std::string heads;                               // which: mtp, eagle3; empty: none

  // Tests of one stream are measured once, not again for every number of streams.
  bool has_single(const BenchSetting& setting) const { return setting.streams == settings[0].streams; }
  size_t tests_of(const BenchSetting& setting) const;
  int64_t tests_of_model() const;
  int64_t most_outputs(const BenchSetting& setting) const; // of one forward()
  int64_t longest(bool single) const;                      // test, in tokens behind the depth
};

// What an executor of this setting is made from, but for the context.
core::ModelOptions model_options(const core::BenchRequest& request, const BenchSetting& setting);

// Throws Error (wrong usage) where a list does not parse or nothing is left to measure.
BenchPlan plan_bench(const core::BenchRequest& request, const BenchNames& names);

} // namespace ridge::measure
