#include "engine/pooling.h"

#include "core/error.h"
#include "core/strings/printable.h"

#include <cmath>
#include <string>

namespace ridge::engine {

Pooling pooling_of_name(std::string_view name) {
  if (name == "none") return Pooling::none;
  if (name == "mean") return Pooling::mean;
  if (name == "cls") return Pooling::cls;
  if (name == "last") return Pooling::last;
  throw Error(fmt::format("unknown pooling '{}', expected mean, cls, last or none", core::printable(name)),
              Error::kUsage);
}

std::optional<Pooling> pooling_of_file(const gguf::File& file) {
  const std::string key = std::string(file.get_string("general.architecture", "")) + ".pooling_type";
  if (!file.find(key)) return std::nullopt;
  switch (const int64_t type = file.get_int(key)) {
  case 0: return Pooling::none;
  case 1: return Pooling::mean;
  case 2: return Pooling::cls;
  case 3: return Pooling::last;
  case 4:
    throw_error("{}: {} is 4: this is a reranker, with scores but no embeddings; --pooling cls returns the vector "
                "behind its score",
                file.path(), key);
  default: throw_error("{}: {} is {}, expected 0 to 4", file.path(), key, type);
  }
}

std::vector<float> pooled(std::span<const float> rows, int64_t width, Pooling pooling) {
  const auto columns = static_cast<size_t>(width);
  const auto vector_of = [](std::span<const float> row) { return std::vector<float>(row.begin(), row.end()); };
  switch (pooling) {
  case Pooling::none: return vector_of(rows);
  case Pooling::cls: return vector_of(rows.first(columns));
  case Pooling::last: return vector_of(rows.last(columns));
  case Pooling::mean: break;
  }
  std::vector<double> sums(columns);
  for (size_t i = 0; i < rows.size(); ++i) sums[i % columns] += rows[i];
  std::vector<float> mean(columns);
  for (size_t i = 0; i < columns; ++i)
    mean[i] = static_cast<float>(sums[i] * static_cast<double>(width) / static_cast<double>(rows.size()));
  return mean;
}

void normalize(std::span<float> vector) {
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * x;
  if (squares == 0) return;
  const double length = std::sqrt(squares);
  for (float& x : vector) x = static_cast<float>(x / length);
}

} // namespace ridge::engine
