// How `ridge bench --clients` shows what it measured.
#pragma once

#include "measure/load/client_load.h"

#include <vector>

namespace ridge::app {

// Each prints to stdout.
void print_load_markdown(const std::vector<measure::ClientLoadRow>& rows);
void print_load_json(const std::vector<measure::ClientLoadRow>& rows);

} // namespace ridge::app
