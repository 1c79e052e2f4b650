// Output of `ridge roofline`.
#pragma once

#include "measure/roofline_report.h"

namespace ridge::app {

void print_roofline_text(const measure::RooflineReport& report);
void print_roofline_json(const measure::RooflineReport& report);
void print_roofline_csv(const measure::RooflineReport& report);

} // namespace ridge::app
