// Output of `ridge bench`.
#pragma once

#include "measure/bench_row.h"

namespace ridge::app {

// To stdout. The table omits columns with equal values.
void print_bench_markdown(const std::vector<measure::BenchRow>& rows);
void print_bench_csv(const std::vector<measure::BenchRow>& rows);
void print_bench_json(const std::vector<measure::BenchRow>& rows); // one object
void print_bench_json_line(const measure::BenchRow& row);          // one object per line

} // namespace ridge::app
