// Jobs, for the window.
#pragma once

#include "api/requests.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::api {

enum class JobState : uint8_t { waiting, running, done, failed, cancelled };

struct JobTable {
  std::string title;
  std::vector<std::string> columns; // the first is text, the others are numbers with units
  std::vector<std::vector<std::string>> rows;
};

// A measured quantization; divergence from the original model.
struct FrontierPoint {
  std::string recipe; // empty: a mix of types
  uint64_t bytes = 0;
  double bits_per_weight = 0, divergence = 0; // nats per token
  bool best = false;                          // no other point is as small and diverges less
  double plain = 0;                           // divergence without the method, 0: as measured
};

struct Job {
  uint64_t id = 0;
  JobRequest request;
  std::string title;
  JobState state = JobState::waiting;
  std::string activity; // the current activity: "measuring types"
  double share = 0;
  double elapsed_s = 0;
  double remaining_s = -1; // of the current activity; negative: unknown
  std::string result;      // one line, if done
  std::string error;
  std::string opens;
  std::vector<std::string> notes;
  std::vector<JobTable> tables;
  std::vector<FrontierPoint> frontier; // by ascending bytes

  bool over() const { return state != JobState::waiting && state != JobState::running; }
};

struct JobChoices {
  struct Recipe {
    std::string name;
    double bits_per_weight;
  };
  std::vector<Recipe> recipes;
};

} // namespace ridge::api
