// Resizing of position tables.
#include "core/error.h"
#include "models/vision/builder.h"
#include "models/vision/tables.h"

#include <algorithm>
#include <cmath>

namespace ridge::models::vision {
namespace {

// Source entries with weights that sum to 1.
struct Entry {
  std::vector<std::pair<int64_t, float>> of;
};

Entry linear_entry(float at, int64_t from) {
  const float low = std::floor(at), share = std::clamp(at - low, 0.0f, 1.0f);
  const auto first = static_cast<int64_t>(low);
  const auto inside = [&](int64_t i) { return std::clamp<int64_t>(i, 0, from - 1); };
  return {{{inside(first), 1 - share}, {inside(first + 1), share}}};
}

float triangle(float x) { return std::max(0.0f, 1 - std::abs(x)); }

// Keys' cubic convolution.
float cubic(float x, float a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}
float smooth_cubic(float x) { return cubic(x, -0.5f); }

Entry cubic_entry(float at, int64_t from) {
  Entry entry;
  const float low = std::floor(at);
  for (int64_t i = static_cast<int64_t>(low) - 1; i <= static_cast<int64_t>(low) + 2; ++i)
    entry.of.emplace_back(std::clamp<int64_t>(i, 0, from - 1), cubic(at - static_cast<float>(i), -0.75f));
  return entry;
}

Entry antialiased_entry(float center, float widening, int64_t from, float (*filter)(float), float reach) {
  const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - reach * widening + 0.5f)),
                end = std::min(from, static_cast<int64_t>(center + reach * widening + 0.5f));
  Entry entry;
  float total = 0;
  for (int64_t i = first; i < end; ++i) {
    const float weight = filter((static_cast<float>(i) - center + 0.5f) / widening);
    entry.of.emplace_back(i, weight);
    total += weight;
  }
  for (auto& part : entry.of) part.second /= total;
  return entry;
}

std::vector<Entry> entries(int64_t from, int64_t to, TableResize resize) {
  const float ratio = static_cast<float>(to) / static_cast<float>(from);
  std::vector<Entry> made;
  for (int64_t i = 0; i < to; ++i) {
    const auto at = static_cast<float>(i);
    switch (resize) {
    case TableResize::corners: {
      const float steps = to > 1 && from > 1 ? static_cast<float>(to - 1) / static_cast<float>(from - 1) : ratio;
      made.push_back(linear_entry(at / steps, from));
      break;
    }
    case TableResize::wider:
      made.push_back(
          linear_entry((at + 0.5f) / ((static_cast<float>(to) + 0.1f) / static_cast<float>(from)) - 0.5f, from));
      break;
    case TableResize::linear: made.push_back(linear_entry((at + 0.5f) / ratio - 0.5f, from)); break;
    case TableResize::cubic: made.push_back(cubic_entry((at + 0.5f) / ratio - 0.5f, from)); break;
    case TableResize::antialiased:
      made.push_back(antialiased_entry((at + 0.5f) / ratio, std::max(1.0f, 1 / ratio), from, triangle, 1));
      break;
    case TableResize::smooth_cubic:
      made.push_back(antialiased_entry((at + 0.5f) / ratio, std::max(1.0f, 1 / ratio), from, smooth_cubic, 2));
      break;
    }
  }
  return made;
}

} // namespace

std::vector<float> resized_table(std::span<const float> table, int64_t width, TableSize from, TableSize to,
                                 TableResize resize) {
  if (from == to && resize != TableResize::wider) return {table.begin(), table.end()};
  const std::vector<Entry> columns = entries(from.columns, to.columns, resize),
                           lines = entries(from.lines, to.lines, resize);
  std::vector<float> made(to.columns * to.lines * width);
  for (int64_t y = 0; y < to.lines; ++y)
    for (int64_t x = 0; x < to.columns; ++x) {
      float* out = made.data() + (y * to.columns + x) * width;
      for (const auto& [line, line_weight] : lines[y].of)
        for (const auto& [column, column_weight] : columns[x].of) {
          const float* row = table.data() + (line * from.columns + column) * width;
          for (int64_t i = 0; i < width; ++i) out[i] += line_weight * column_weight * row[i];
        }
    }
  return made;
}

constexpr const char* kTable = "v.position_embd.weight";

int64_t Builder::table_side() {
  const int64_t count = tensor(kTable).weights() / hparams_.width();
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(count))));
  if (count < 1 || side * side != count)
    throw_error("{}: tensor {} has {} rows, which do not form a square", file_.path(), kTable, count);
  return side;
}

std::vector<float> Builder::position_table(TableResize resize) {
  const int64_t width = hparams_.width(), side = table_side();
  return resized_table(values(kTable, side * side * width), width, {side, side}, {columns_, lines_}, resize);
}

std::vector<float> Builder::nearest_places(int64_t side) {
  const int64_t width = hparams_.width();
  const std::vector<float> all = values(kTable, side * side * width);
  std::vector<float> chosen;
  for (int64_t y = 0; y < lines_; ++y)
    for (int64_t x = 0; x < columns_; ++x) {
      const auto first = all.begin() + (side * y / lines_ * side + side * x / columns_) * width;
      chosen.insert(chosen.end(), first, first + width);
    }
  return chosen;
}

std::vector<float> Builder::table_by_axes() {
  const int64_t width = hparams_.width(), count = tensor(kTable).weights() / width / 2;
  if (std::max(columns_, lines_) > count)
    throw_error("{}: tensor {} has {} positions per side, but the image needs {}", file_.path(), kTable, count,
                std::max(columns_, lines_));
  const std::vector<float> both = values(kTable, 2 * count * width);
  std::vector<float> table;
  for (int64_t y = 0; y < lines_; ++y)
    for (int64_t x = 0; x < columns_; ++x)
      for (int64_t i = 0; i < width; ++i) table.push_back(both[x * width + i] + both[(count + y) * width + i]);
  return table;
}

} // namespace ridge::models::vision
