// What a benchmark measured: one row per test.
#pragma once

#include "measure/peaks/datasheet.h"
#include "measure/profile_report.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ridge::measure {

struct BenchRow {
  std::string model; // "llama 8B Q4_K_M", or the shape
  uint64_t file_bytes;
  int64_t parameters;
  std::string backend, device; // "CUDA"; "CUDA, NVIDIA H200, 132 multiprocessors"

  int64_t batch_tokens, ubatch_tokens; // of prompts: passed on (-b) and evaluated (-ub) at once
  std::string k_type, v_type;
  int threads;
  int64_t gpu_layers; // -1: all for which there was room

  int64_t prompt = 0, generated = 0, depth = 0, streams = 1; // one of prompt and generated is 0
  int64_t verified = 0;      // tokens of a step, whose logits are all computed; `generated` counts all steps' tokens
  double right_guesses = -1; // the probability that a guess was taken for right with; below 0: without guesses
  std::string guessing_heads = {}; // draft heads guessed: mtp, eagle3
  double tokens_per_step = 1;      // of one stream, with guesses
  double experts_found = -1;       // share of wanted experts that the GPU had a copy of; below 0: none are on the host

  std::vector<double> seconds; // per repetition
  double bytes, flops;         // of one repetition, as op_cost counts them

  // Measured peaks, and the maker's (null: unknown).
  double read_bytes_per_second; // the mean of a measurement before the test and one after
  double peak_flops;            // of the unit that prompts run on
  std::string peak_name;        // that unit: "tensor cores, f16"
  const Datasheet* datasheet;

  std::optional<StepProfile> profile; // of one step, where asked for

  std::string test() const; // "pp512", "tg128 x8 @ d4096"
  int64_t tokens() const { return (prompt + generated) * streams; }
  double median_seconds() const;
  double rate() const;           // tokens per second, at the median
  double rate_deviation() const; // standard deviation of the repetitions' rates
  double bytes_per_second() const { return bytes / median_seconds(); }
  double flops_per_second() const { return flops / median_seconds(); }
};

} // namespace ridge::measure
