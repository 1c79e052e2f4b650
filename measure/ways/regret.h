// Measures every way to multiply on the GPU against the chosen one.
#pragma once

#include "core/executor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::measure {

struct RegretRow {
  struct Way {
    std::string name;
    double expected_us; // products of one layer
    double product_us;  // measured, with input conversion
    double step_us;     // whole step if only these products use it
  };
  int64_t tokens = 0;   // one stream, empty context
  std::string products; // "attn_q attn_k attn_v"; empty: all
  int64_t layers = 0;   // with these products
  size_t chosen = 0, best = 0;
  std::vector<Way> ways; // for all products: the chosen ones first, without product times

  double lost() const {
    return (ways[chosen].step_us - ways[best].step_us) / (ways[chosen].product_us * static_cast<double>(layers));
  }
  double lost_of_step() const { return 1 - ways[best].step_us / ways[chosen].step_us; }
};

// tokens <= max_batch; overwrites the cache. Products pass results in forms that only some ways read, so the last row
// uses one way everywhere it fits. Throws std::logic_error unless the executor is one GPU.
std::vector<RegretRow> measure_regret(core::Executor& executor, const core::Program& program, int64_t tokens,
                                      int repetitions);

// Median microseconds.
double measure_step(core::Executor& executor, const core::Program& program, int64_t tokens, int repetitions);

std::string regret_table(const std::vector<RegretRow>& rows, bool all_ways);

} // namespace ridge::measure
