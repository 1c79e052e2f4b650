// How `ridge bench` shows what it measured.
#pragma once

#include "measure/bench_row.h"

namespace ridge::app {

// Each prints to stdout. The table leaves out columns in which all rows are alike, as this field does.
void print_bench_markdown(const std::vector<measure::BenchRow>& rows);
void print_bench_csv(const std::vector<measure::BenchRow>& rows);
void print_bench_json(const std::vector<measure::BenchRow>& rows); // one object: machine and tests
void print_bench_json_line(const measure::BenchRow& row);          // one object a line, the machine in each

} // namespace ridge::app
