// What the choice of kernels costs: every way to multiply each kind of product of a step on the GPU is measured, and
// the chosen ones are compared with the best.
#pragma once

#include "core/executor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::measure {

struct RegretRow {
  struct Way {
    std::string name;
    double expected_us; // for the products of one layer
    double product_us;  // measured likewise, the conversion of its input included
    double step_us;     // of the whole step, where these products alone go this way
  };
  int64_t tokens = 0;   // of one stream, behind an empty context
  std::string products; // "attn_q attn_k attn_v"; empty: all of the step
  int64_t layers = 0;   // that have them
  size_t taken = 0, best = 0;
  std::vector<Way> ways; // where all products go one way: the chosen ones first, without times of products

  // Shares of the products' time, and of the step's.
  double lost() const {
    return (ways[taken].step_us - ways[best].step_us) / (ways[taken].product_us * static_cast<double>(layers));
  }
  double lost_of_step() const { return 1 - ways[best].step_us / ways[taken].step_us; }
};

// For one number of tokens, at most the executor's max_batch; the cache is overwritten from position 0 on. Products
// hand their results on in a form that only some ways read, so the last row has all products going one way, as far as
// that fits. Throws std::logic_error for an executor that is not one of a GPU alone.
std::vector<RegretRow> measure_regret(core::Executor& executor, const core::Program& program, int64_t tokens,
                                      int repetitions);

// Microseconds of such a step, the median.
double measure_step(core::Executor& executor, const core::Program& program, int64_t tokens, int repetitions);

std::string regret_table(const std::vector<RegretRow>& rows, bool all_ways);

} // namespace ridge::measure
