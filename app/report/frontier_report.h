// Output of ridge quantize --explore.
#pragma once

#include "convert/frontier.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace ridge::app {

void print_frontier(const convert::Frontier& frontier); // to stdout
nlohmann::ordered_json frontier_json(const convert::Frontier& frontier);
std::string frontier_svg(const convert::Frontier& frontier, const std::string& title);

} // namespace ridge::app
