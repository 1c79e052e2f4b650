// Measures the speed of models: what `ridge bench` and the window's jobs have in common.
#pragma once

#include "core/clock.h"
#include "core/requests.h"
#include "engine/loaded_model.h"
#include "measure/bench_plan.h"
#include "measure/bench_row.h"

#include <functional>
#include <string>
#include <string_view>

namespace ridge::measure {

struct BenchSteps {
  std::function<void(const BenchRow&)> row;               // a test is done
  std::function<void(const engine::LoadedModel&)> opened; // a model is open; may be empty
  // The test that runs, and the share of all tests that is done. What it throws comes out of bench(): throw to cancel.
  // May be empty.
  std::function<void(const std::string& test, double share)> progress;
  engine::LoadSteps load;
  // How a model gets its executor; empty: engine::start_executor().
  std::function<engine::Device(engine::LoadedModel&, const core::ExecutorConfig&, const std::string& device,
                               const engine::Placement&)>
      start;
  std::function<double()> clock = core::seconds_now; // that tests are timed with
};

// Opens each model of the request, the guide where it names none, and hands it on with what reports call it. `heads`:
// with its draft heads (BenchPlan::heads). Throws Error where one cannot be opened.
void for_each_model(const core::BenchRequest& request, std::string_view heads, const engine::LoadSteps& steps,
                    const std::function<void(engine::LoadedModel&, const std::string& name)>& run);
const char* backend_of(const engine::LoadedModel& model); // that its executor runs on: "CUDA", "CPU", "CUDA+CPU"

// Measures every combination of the request's lists on each of its models; without a model, on the guide. Throws Error
// where a model cannot be opened or run, and a usage Error for a list that does not parse and where nothing is left to
// measure: a prompt or generation of 0 tokens is no test.
void bench(const core::BenchRequest& request, const BenchSteps& steps, const BenchNames& names = {});

} // namespace ridge::measure
