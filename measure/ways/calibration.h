// Fits what is expected of each way to multiply to the GPU at hand: the ways are measured as for a regret, and factors
// for them are looked for with which the cheapest by expectation are the fastest as measured.
#pragma once

#include "measure/ways/regret.h"

#include <functional>
#include <map>
#include <span>

namespace ridge::measure {

// Factors of ways, without those that are 1, with which the choices among these rows lose least.
std::map<std::string, double> fit_way_factors(std::span<const RegretRow> rows);

// The share of a step, in the mean over all rows' steps, that choices by these factors lose against the best ones.
double regret_with(std::span<const RegretRow> rows, const std::map<std::string, double>& factors);

struct Calibration {
  struct Step {
    int64_t tokens;
    double before_us, after_us; // of whole steps, with what is expected everywhere and with the factors
  };
  std::vector<Step> steps;
  std::map<std::string, double> factors; // empty: none made steps faster
};

// Tokens of each step: at most the executor's max_batch. Some seconds for a model of 8B. Afterwards the executor
// chooses by the result. `done` is told of each number of tokens that was measured. As measure_regret() otherwise.
Calibration calibrate(core::Executor& executor, const core::Program& program, std::span<const int64_t> tokens,
                      int repetitions, const std::function<void(int64_t tokens)>& done);

} // namespace ridge::measure
