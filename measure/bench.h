// Speed of models, for `ridge bench` and the window.
#pragma once

#include "api/requests.h"
#include "core/clock.h"
#include "engine/loading/loaded_model.h"
#include "measure/bench_plan.h"
#include "measure/bench_row.h"

#include <functional>
#include <string>
#include <string_view>

namespace ridge::measure {

struct BenchSteps {
  std::function<void(const BenchRow&)> row;               // after each test
  std::function<void(const engine::LoadedModel&)> opened; // may be empty
  // share: of all tests. An exception cancels bench(). May be empty.
  std::function<void(const std::string& test, double share)> progress;
  engine::LoadSteps load;
  // empty: engine::start_executor().
  std::function<engine::Device(engine::LoadedModel&, const core::ExecutorConfig&, const std::string& device,
                               const engine::Placement&)>
      start;
  std::function<double()> clock = core::seconds_now; // times the tests
};

// Opens each requested model (default: the guide) with `heads` (BenchPlan::heads) and calls `run`. Throws Error if that
// fails.
void for_each_model(const api::BenchRequest& request, std::string_view heads, const engine::LoadSteps& steps,
                    const std::function<void(engine::LoadedModel&, const std::string& name)>& run);
const char* backend_of(const engine::LoadedModel& model); // "CUDA", "CPU", "CUDA+CPU"

// Every combination of the request's lists, on each model. Throws Error if a model cannot be opened or run; a usage
// Error for an invalid list or no tests (0 tokens is no test).
void bench(const api::BenchRequest& request, const BenchSteps& steps, const BenchNames& names = {});

} // namespace ridge::measure
