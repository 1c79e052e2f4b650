#pragma once

#include "measure/peaks/datasheet.h"
#include "measure/profile_report.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ridge::measure {

struct BenchRow {
  std::string model; // "llama 8B Q4_K_M"
  uint64_t file_bytes;
  int64_t parameters;
  std::string backend, device; // "CUDA"; "CUDA, NVIDIA H200, …"

  int64_t batch_tokens, ubatch_tokens; // -b, -ub
  std::string k_type, v_type;
  int threads;
  int64_t gpu_layers; // -1: as many as fit

  int64_t prompt = 0, generated = 0, depth = 0, streams = 1; // one is 0
  int64_t verified_tokens = 0;                               // per step, all with logits; `generated` counts all steps
  double acceptance = -1;                                    // < 0: no drafts
  std::string draft_heads = {};                              // mtp, eagle3, dflash
  double tokens_per_step = 1;                                // per stream, with drafts
  double expert_cache_hit_rate = -1; // share of wanted experts cached on the GPU; < 0: none on the host

  std::vector<double> seconds; // per repetition
  double bytes, flops;         // per repetition, by op_cost

  // Measured, and datasheet (null: unknown).
  double read_bytes_per_second; // mean of before and after
  double peak_flops;            // of the unit that prefill uses
  std::string peak_name;        // "tensor cores, f16"
  const Datasheet* datasheet;

  std::optional<StepProfile> profile;

  std::string test() const; // "pp512", "tg128 x8 @ d4096"
  int64_t tokens() const { return (prompt + generated) * streams; }
  double median_seconds() const;
  double rate() const; // tokens per second, median
  double rate_deviation() const;
  double bytes_per_second() const { return bytes / median_seconds(); }
  double flops_per_second() const { return flops / median_seconds(); }
};

} // namespace ridge::measure
