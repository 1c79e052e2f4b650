// Output of `ridge bench`.
#pragma once

#include "measure/bench_row.h"
#include "measure/load/client_load.h"
#include "measure/pictures/picture_bench.h"

#include <string>
#include <vector>

namespace ridge::app {

// To stdout. The table omits columns with equal values.
void print_bench_markdown(const std::vector<measure::BenchRow>& rows);
void print_bench_csv(const std::vector<measure::BenchRow>& rows);
void print_bench_json(const std::vector<measure::BenchRow>& rows); // one object
void print_bench_json_line(const measure::BenchRow& row);          // one object per line

// Markdown without paths, host or user names.
std::string bench_as_shared(const std::vector<measure::BenchRow>& rows);

void print_load_markdown(const std::vector<measure::ClientLoadRow>& rows);
void print_load_json(const std::vector<measure::ClientLoadRow>& rows);

void print_pictures_markdown(const std::vector<measure::PictureRow>& rows);
void print_pictures_json(const std::vector<measure::PictureRow>& rows);

} // namespace ridge::app
