// Figures that people show each other: what docs/results.md collects.
#pragma once

#include "measure/bench_row.h"

#include <string>
#include <vector>

namespace ridge::app {

// A block of Markdown with the tests' speeds and shares, the machine, the driver, the build and the models. Nothing in
// it says whose machine it is: no paths, no names of hosts or users.
std::string bench_as_shared(const std::vector<measure::BenchRow>& rows);

} // namespace ridge::app
