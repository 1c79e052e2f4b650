// Fits expected times of multiplication ways to this GPU: measures them as regret does and finds factors by which the
// cheapest expected ways are the fastest.
#pragma once

#include "measure/ways/regret.h"

#include <functional>
#include <map>
#include <span>

namespace ridge::measure {

// Factors other than 1 that minimize the loss over these rows.
std::map<std::string, double> fit_way_factors(std::span<const RegretRow> rows);

// Mean share of a step lost by choices with these factors against the best.
double regret_with(std::span<const RegretRow> rows, const std::map<std::string, double>& factors);

struct Calibration {
  struct Step {
    int64_t tokens;
    double before_us, after_us; // whole step, without and with the factors
  };
  std::vector<Step> steps;
  std::map<std::string, double> factors; // empty: no gain
};

// tokens: per step, at most max_batch. Some seconds for 8B. The executor then uses the result. `done`: after each token
// count. Otherwise as measure_regret().
Calibration calibrate(core::Executor& executor, const core::Program& program, std::span<const int64_t> tokens,
                      int repetitions, const std::function<void(int64_t tokens)>& done);

} // namespace ridge::measure
