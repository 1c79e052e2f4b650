#include "measure/ways/regret.h"

#include "core/clock.h"
#include "kernels/cuda/executor/executor.h"
#include "measure/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

namespace ridge::measure {
namespace {

using kernels::cuda::ProductWays;

struct Prompt {
  std::vector<int32_t> tokens, positions, outputs;

  Prompt(int64_t count, int64_t vocab) : tokens(count), positions(count), outputs{static_cast<int32_t>(count - 1)} {
    std::iota(positions.begin(), positions.end(), 0);
    for (int64_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>((i * 7919 + 1) % vocab);
  }
  core::Batch batch() const { return {tokens, positions, {}, outputs}; }
};

// Median microseconds.
double time_step(core::Executor& executor, const core::Batch& batch, int repetitions) {
  std::vector<double> times;
  for (int run = -2; run < repetitions; ++run) {
    executor.load_state(0, {}, 0);
    const double start = core::seconds_now();
    executor.forward(batch);
    if (run >= 0) times.push_back((core::seconds_now() - start) * 1e6);
  }
  std::ranges::nth_element(times, times.begin() + repetitions / 2);
  return times[repetitions / 2];
}

// Microseconds over all layers.
double time_products(core::Executor& executor, const core::Program& program, const core::Batch& batch,
                     const std::set<std::string>& names, int repetitions) {
  executor.load_state(0, {}, 0);
  double seconds = 0;
  for (const core::OpTime& time : executor.profile(batch, repetitions)) {
    const auto belongs = [&](int32_t op) { return names.contains(name_without_layer(program.ops[op])); };
    if (std::ranges::any_of(time.ops, belongs)) seconds += time.seconds;
  }
  return seconds * 1e6;
}

// Each way for all products it fits.
RegretRow try_for_all(core::Executor& executor, const core::Batch& batch, const std::set<std::string>& names,
                      int repetitions) {
  RegretRow row;
  row.ways.push_back({"chosen", 0, 0, time_step(executor, batch, repetitions)});
  for (const std::string& name : names) {
    kernels::cuda::force_way(executor, "", name);
    row.ways.push_back({name, 0, 0, time_step(executor, batch, repetitions)});
    if (row.ways.back().step_us < row.ways[row.best].step_us) row.best = row.ways.size() - 1;
  }
  kernels::cuda::force_way(executor, "", "");
  return row;
}

} // namespace

std::vector<RegretRow> measure_regret(core::Executor& executor, const core::Program& program, int64_t tokens,
                                      int repetitions) {
  const Prompt prompt(tokens, program.vocab);
  std::vector<RegretRow> rows;
  std::set<std::string> all_ways;
  for (const ProductWays& of : kernels::cuda::product_ways(executor, prompt.batch())) {
    RegretRow row{.tokens = tokens, .products = of.products, .layers = of.layers};
    std::set<std::string> names;
    std::istringstream words(of.products);
    for (std::string name; words >> name;) names.insert(name);
    for (const ProductWays::Way& way : of.ways) {
      all_ways.insert(way.name);
      kernels::cuda::force_way(executor, of.products, way.name);
      const double step = time_step(executor, prompt.batch(), repetitions),
                   products = time_products(executor, program, prompt.batch(), names, std::max(3, repetitions / 4));
      if (way.name == of.chosen) row.chosen = row.ways.size();
      row.ways.push_back({way.name, way.microseconds, products / static_cast<double>(of.layers), step});
      if (step < row.ways[row.best].step_us) row.best = row.ways.size() - 1;
    }
    kernels::cuda::force_way(executor, of.products, "");
    rows.push_back(std::move(row));
  }
  rows.push_back(try_for_all(executor, prompt.batch(), all_ways, repetitions));
  rows.back().tokens = tokens;
  return rows;
}

double measure_step(core::Executor& executor, const core::Program& program, int64_t tokens, int repetitions) {
  return time_step(executor, Prompt(tokens, program.vocab).batch(), repetitions);
}

std::string regret_table(const std::vector<RegretRow>& rows, bool all_ways) {
  std::string text = fmt::format("| {:>6} | {:<30} | {:<8} | {:>8} | {:>8} | {:<8} | {:>5} | {:>7} |\n", "tokens",
                                 "products", "taken", "expected", "measured", "best", "loses", "of step");
  text += "| -----: | ------------------------------ | -------- | -------: | -------: | -------- | ----: | ------: |\n";
  const auto us = [](double time) { return time > 0 ? fmt::format("{:.1f} µs", time) : ""; };
  for (const RegretRow& row : rows) {
    const RegretRow::Way &chosen = row.ways[row.chosen], &best = row.ways[row.best];
    const bool all = row.products.empty();
    text += fmt::format("| {:>6} | {:<30.30} | {:<8} | {:>8} | {:>8} | {:<8} | {:>5} | {:>5.1f} % |\n", row.tokens,
                        all ? "all" : row.products, chosen.name, us(chosen.expected_us), us(chosen.product_us),
                        best.name, all ? "" : fmt::format("{:.0f} %", row.lost() * 100), row.lost_of_step() * 100);
    for (const RegretRow::Way& way : row.ways)
      if (all_ways)
        text += fmt::format("| {:>6} | {:>30} | {:<8} | {:>8} | {:>8} | {:<8} | {:>5} | {:>7.1f} |\n", "", "", way.name,
                            us(way.expected_us), us(way.product_us), "", "", way.step_us);
  }
  return text;
}

} // namespace ridge::measure
