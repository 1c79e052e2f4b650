// Output of `ridge bench --clients`.
#pragma once

#include "measure/load/client_load.h"

#include <vector>

namespace ridge::app {

void print_load_markdown(const std::vector<measure::ClientLoadRow>& rows);
void print_load_json(const std::vector<measure::ClientLoadRow>& rows);

} // namespace ridge::app
