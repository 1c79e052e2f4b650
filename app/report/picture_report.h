// Output of `ridge bench --image`.
#pragma once

#include "measure/pictures/picture_bench.h"

#include <vector>

namespace ridge::app {

void print_pictures_markdown(const std::vector<measure::PictureRow>& rows);
void print_pictures_json(const std::vector<measure::PictureRow>& rows);

} // namespace ridge::app
