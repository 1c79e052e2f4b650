// Results to publish (docs/results.md).
#pragma once

#include "measure/bench_row.h"

#include <string>
#include <vector>

namespace ridge::app {

// Markdown without paths, host or user names.
std::string bench_as_shared(const std::vector<measure::BenchRow>& rows);

} // namespace ridge::app
