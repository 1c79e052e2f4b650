// How `ridge roofline` shows what it found: tables, JSON and CSV.
#pragma once

#include "measure/roofline_report.h"

namespace ridge::app {

void print_roofline_text(const measure::RooflineReport& report);
void print_roofline_json(const measure::RooflineReport& report);
void print_roofline_csv(const measure::RooflineReport& report); // a line per ceiling and per point

} // namespace ridge::app
