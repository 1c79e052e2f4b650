// Jobs as the window sees them: plain data, a part of snapshot.h.
#pragma once

#include "core/requests.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::core {

enum class JobState : uint8_t { waiting, running, done, failed, cancelled };

struct JobTable {
  std::string title;
  std::vector<std::string> columns; // the first is text, the others are numbers with their units
  std::vector<std::vector<std::string>> rows;
};

// A way to write a model that was measured: how large, and how far from the model as it is.
struct FrontierPoint {
  std::string recipe; // empty: a mix of types
  uint64_t bytes = 0;
  double bits_per_weight = 0, divergence = 0; // nats per token
  bool best = false;                          // nothing else is as small and diverges less
};

struct Job {
  uint64_t id = 0;
  JobRequest request;
  std::string title; // "quantize llama-1b.gguf to Q4_K_M"
  JobState state = JobState::waiting;
  std::string activity;    // what it does now: "measuring types"
  double share = 0;        // of that which is done, 0 to 1
  double elapsed_s = 0;    // since it started
  double remaining_s = -1; // of the present activity; below 0: not known
  std::string result;      // one line, of a job that is done
  std::string error;       // one line, of one that failed
  std::string opens;       // a model file that it has written
  std::vector<std::string> notes;
  std::vector<JobTable> tables;
  std::vector<FrontierPoint> frontier; // of a quantization that explored, by ascending bytes

  bool over() const { return state != JobState::waiting && state != JobState::running; }
};

// What a job can be asked for.
struct JobChoices {
  struct Recipe {
    std::string name;
    double bits_per_weight; // of its base type
  };
  std::vector<Recipe> recipes;
};

} // namespace ridge::core
