#include "measure/ways/calibration.h"

#include "kernels/cuda/executor/executor.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ridge::measure {
namespace {

using Factors = std::map<std::string, double>;

constexpr double kMinGain = 0.01; // of a step; less is noise
constexpr double kFarthest = 3;   // factors lie in [1/this, this]
constexpr double kRatio = 1.06;
constexpr double kPreference = 2e-3; // penalty per doubling: prefers factors near 1
constexpr int kRounds = 4;

double factor_of(const Factors& factors, const std::string& way) {
  const auto found = factors.find(way);
  return found == factors.end() ? 1 : found->second;
}

double cost_of(std::span<const RegretRow> rows, const Factors& factors) {
  double cost = regret_with(rows, factors);
  for (const auto& [way, factor] : factors) cost += kPreference * std::abs(std::log2(factor));
  return cost;
}

} // namespace

double regret_with(std::span<const RegretRow> rows, const Factors& factors) {
  double lost = 0;
  std::set<int64_t> steps;
  for (const RegretRow& row : rows) {
    steps.insert(row.tokens);
    if (row.products.empty()) continue; // the row of all products has no expectation
    const auto expected = [&](const RegretRow::Way& way) { return way.expected_us * factor_of(factors, way.name); };
    const RegretRow::Way& chosen = *std::ranges::min_element(row.ways, {}, expected);
    lost += chosen.step_us / row.ways[row.best].step_us - 1;
  }
  return steps.empty() ? 0 : lost / static_cast<double>(steps.size());
}

std::map<std::string, double> fit_way_factors(std::span<const RegretRow> rows) {
  std::set<std::string> ways;
  for (const RegretRow& row : rows)
    for (const RegretRow::Way& way : row.ways)
      if (!row.products.empty()) ways.insert(way.name);
  Factors factors;
  double least = cost_of(rows, factors);
  for (int round = 0; round < kRounds; ++round)
    for (const std::string& way : ways)
      for (double factor = 1 / kFarthest; factor <= kFarthest; factor *= kRatio) {
        Factors tried = factors;
        tried[way] = factor;
        const double cost = cost_of(rows, tried);
        if (cost >= least) continue;
        least = cost;
        factors = std::move(tried);
      }
  return factors;
}

Calibration calibrate(core::Executor& executor, const core::Program& program, std::span<const int64_t> tokens,
                      int repetitions, const std::function<void(int64_t tokens)>& done) {
  kernels::cuda::set_way_factors(executor, {});
  std::vector<RegretRow> rows;
  for (const int64_t count : tokens) {
    std::ranges::move(measure_regret(executor, program, count, repetitions), std::back_inserter(rows));
    done(count);
  }
  Calibration result{.factors = fit_way_factors(rows)};
  const auto time_steps = [&](const Factors& factors, double Calibration::Step::*time) {
    kernels::cuda::set_way_factors(executor, factors);
    for (Calibration::Step& step : result.steps)
      step.*time = measure_step(executor, program, step.tokens, 2 * repetitions);
  };
  for (const int64_t count : tokens) result.steps.push_back({count, 0, 0});
  time_steps(result.factors, &Calibration::Step::after_us);
  time_steps({}, &Calibration::Step::before_us);
  double gain = 0;
  for (const Calibration::Step& step : result.steps) gain += 1 - step.after_us / step.before_us;
  if (gain < kMinGain * static_cast<double>(result.steps.size())) result.factors.clear();
  kernels::cuda::set_way_factors(executor, result.factors);
  return result;
}

} // namespace ridge::measure
