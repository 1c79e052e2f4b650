// How `ridge bench --image` shows what it measured.
#pragma once

#include "measure/pictures/picture_bench.h"

#include <vector>

namespace ridge::app {

// Each prints to stdout.
void print_pictures_markdown(const std::vector<measure::PictureRow>& rows);
void print_pictures_json(const std::vector<measure::PictureRow>& rows);

} // namespace ridge::app
