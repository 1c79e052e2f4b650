// Measuring a model's speed: what `ridge bench` and the window's jobs have in common.
#pragma once

#include "engine/loaded_model.h"
#include "measure/bench_row.h"

#include <functional>
#include <string>
#include <vector>

namespace ridge::measure {

// What an executor is made for; the tests of one setting share it.
struct BenchSetting {
  int64_t batch = 2048, ubatch = 512, threads = 0, streams = 1, gpu_layers = -1;
  std::string k_type = "f16", v_type = "f16";
};

// Every combination is one test.
struct BenchPlan {
  std::vector<BenchSetting> settings;
  std::vector<int64_t> prompts, generated, depths; // tokens; depths has one at least
  std::string device = "auto";
  int repetitions = 5;
  bool profile = false;
};

// Lists of token counts in words (count_list.h).
struct BenchLists {
  std::string prompts = "512", generated = "128", depths = "0";
};

// The plan's tests. `names` are what its lists are called where they were asked for. Throws Error (usage) for a list
// that is none, and where nothing is left to measure: a prompt or generation of 0 tokens is no test.
void plan_tests(BenchPlan& plan, const BenchLists& lists, const BenchLists& names);

struct BenchSteps {
  std::function<void(BenchRow)> row; // a test is done
  // The test, and the share of it that is done. What it throws comes out of bench_model: that is how to give up.
  std::function<void(const std::string& test, double share)> progress;
  engine::LoadSteps load;
};

// `shape`: of a synthetic model; empty: a file.
void bench_model(engine::LoadedModel model, const std::string& shape, const BenchPlan& plan, const BenchSteps& steps);

} // namespace ridge::measure
