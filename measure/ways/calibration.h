// Finds factors for expected times, such that the cheapest expected ways are the fastest measured on this GPU.
#pragma once

#include "measure/ways/regret.h"

#include <functional>
#include <map>
#include <span>

namespace ridge::measure {

// Factors other than 1 that minimize the loss.
std::map<std::string, double> fit_way_factors(std::span<const RegretRow> rows);

// Mean share of a step lost against the best choices.
double regret_with(std::span<const RegretRow> rows, const std::map<std::string, double>& factors);

struct Calibration {
  struct Step {
    int64_t tokens;
    double before_us, after_us; // without and with factors
  };
  std::vector<Step> steps;
  std::map<std::string, double> factors; // empty: no gain
};

// tokens: per step, at most max_batch. Some seconds for 8B. The executor then uses the result. Otherwise as
// measure_regret().
Calibration calibrate(core::Executor& executor, const core::Program& program, std::span<const int64_t> tokens,
                      int repetitions, const std::function<void(int64_t tokens)>& done);

} // namespace ridge::measure
