#include "app/cli/inspect_errors.h"

#include "app/report/report.h"
#include "app/report/table.h"

#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "convert/requantize.h"
#include "core/error.h"
#include "core/strings/closest.h"
#include "core/strings/natural_order.h"
#include "core/strings/printable.h"
#include "core/units.h"
#include "engine/loading/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

quant::ErrorStats difference(const convert::WeightSource& a, const convert::WeightSource& b) {
  constexpr int64_t kChunkWeights = int64_t{1} << 22;
  const int64_t cols = a.cols(), rows = a.rows(), step = std::max<int64_t>(1, kChunkWeights / cols);
  quant::ErrorStats total;
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    quant::ErrorStats chunk;
#pragma omp parallel reduction(+ : chunk)
    {
      std::vector<float> row_a(static_cast<size_t>(cols)), row_b(row_a.size());
#pragma omp for schedule(static)
      for (int64_t r = first; r < first + count; ++r) {
        a.decode(r, 1, row_a.data());
        b.decode(r, 1, row_b.data());
        chunk.add_row(row_b.data(), row_a.data(), cols, nullptr);
      }
    }
    total += chunk;
    a.release(first, count);
    b.release(first, count);
  }
  return total;
}

Json to_json(const quant::ErrorStats& e) {
  return {{"rmse", e.rmse()},
          {"sqnr_db", e.sqnr_db()},
          {"cosine", e.cosine()},
          {"max_error", e.max_error},
          {"relative_error", e.relative()}};
}

constexpr const char* kErrorHeader = "{:>10} {:>8} {:>10} {:>10}";
std::string error_columns(const quant::ErrorStats& e) {
  return fmt::format("{:>10.3g} {:>8.2f} {:>10.7f} {:>10.3g}", e.rmse(), e.sqnr_db(), e.cosine(), e.max_error);
}

std::string meant_type(const std::string& name) {
  std::vector<std::string_view> known;
  for (const quant::FormatInfo& format : quant::formats())
    if (format.stored() && quant::can_encode(format.type)) known.push_back(format.name);
  return core::did_you_mean(name, known);
}

} // namespace

void compare_files(const std::string& path, const std::string& reference, bool json) {
  const gguf::File file_a = gguf::File::open(path), file_b = gguf::File::open(reference);
  auto sources_a = convert::weight_sources(file_a);
  const auto sources_b = convert::weight_sources(file_b);
  std::ranges::sort(sources_a, core::natural_less,
                    [](const convert::WeightSource& s) { return std::string_view(s.name()); });
  std::vector<std::string> only_a, only_b;
  Json rows = Json::array();
  size_t width = 0;
  for (const auto& a : sources_a) width = std::max(width, std::min<size_t>(a.name().size(), 48));
  const Table table({{"tensor", false, true, 0, width},
                     {"type", false, false, 0, 7},
                     {"against", false, false, 0, 7},
                     {"bpw", true, false, 1, 7},
                     {"RMSE", true, false, 3, 9},
                     {"SQNR dB", true, false, 0, 7},
                     {"cosine", true, false, 2, 10},
                     {"max error", true, false, 4, 9}},
                    terminal_columns());
  if (!json) fmt::print("{}", table.title());
  quant::ErrorStats total;
  for (const auto& a : sources_a) {
    const auto b = std::ranges::find(sources_b, a.name(), &convert::WeightSource::name);
    const std::string name = core::printable(a.name());
    if (b == sources_b.end()) {
      only_a.push_back(name);
      continue;
    }
    if (a.dims() != b->dims())
      throw_error("tensor {}: {} has the shape [{}], {} has [{}]: these are different models", name, path,
                  fmt::join(a.dims(), ", "), reference, fmt::join(b->dims(), ", "));
    if (!a.has_weights() || !b->has_weights()) continue;
    const quant::ErrorStats e = difference(a, *b);
    total += e;
    const double bpw = 8.0 * static_cast<double>(a.bytes()) / static_cast<double>(a.weights());
    if (json) {
      Json row = {{"name", name}, {"type", a.type().name()}, {"against", b->type().name()}, {"bits_per_weight", bpw}};
      row.update(to_json(e));
      rows.push_back(std::move(row));
    } else {
      fmt::print("{}", table.row({name, std::string(a.type().name()), std::string(b->type().name()),
                                  fmt::format("{:.4f}", bpw), fmt::format("{:.3g}", e.rmse()),
                                  fmt::format("{:.2f}", e.sqnr_db()), fmt::format("{:.7f}", e.cosine()),
                                  fmt::format("{:.3g}", e.max_error)}));
      flush_stdout();
    }
  }
  for (const auto& b : sources_b)
    if (std::ranges::find(sources_a, b.name(), &convert::WeightSource::name) == sources_a.end())
      only_b.push_back(core::printable(b.name()));
  if (json) {
    print_report("inspect", {{"file", path},
                             {"against", reference},
                             {"all", to_json(total)},
                             {"only_in_file", only_a},
                             {"only_in_against", only_b},
                             {"tensors", rows}});
    return;
  }
  fmt::print("{:<{}}  {:<8} {:<8} {:>7} {}\n", "all", width, "", "", "", error_columns(total));
  if (!only_a.empty()) fmt::print("only in {}: {}\n", path, fmt::join(only_a, ", "));
  if (!only_b.empty()) fmt::print("only in {}: {}\n", reference, fmt::join(only_b, ", "));
}

void show_tensor_as(const gguf::File& file, const std::string& tensor, const std::string& types,
                    const std::string& imatrix, bool json) {
  const auto sources = convert::weight_sources(file);
  const auto source = std::ranges::find(sources, tensor, &convert::WeightSource::name);
  if (source == sources.end())
    throw_error("{}: has no tensor '{}'; run `ridge inspect` without --tensor to list the tensors", file.path(),
                tensor);
  if (!source->has_weights())
    throw_error("{}: tensor {} has type {}, which is not a weight type", file.path(), tensor, source->type().name());
  std::vector<const quant::FormatInfo*> formats;
  std::stringstream list(types);
  for (std::string name; std::getline(list, name, ',');) {
    const quant::FormatInfo* format = quant::find_format(name);
    if (!format || !quant::can_encode(format->type))
      throw Error(
          fmt::format("--as: '{}' is not a type that ridge can write{}", core::printable(name), meant_type(name)),
          Error::kUsage);
    if (source->cols() % format->block_weights != 0)
      throw Error(fmt::format("--as: rows of {} weights cannot be divided into blocks of {} ({})", source->cols(),
                              format->name, format->block_weights),
                  Error::kUsage);
    formats.push_back(format);
  }
  std::optional<gguf::Imatrix> factors;
  if (!imatrix.empty()) factors = gguf::Imatrix::read(imatrix);
  const auto importance = convert::importance_of(factors ? &*factors : nullptr, *source);
  Json rows = Json::array();
  if (!json)
    fmt::print("{}: {}, {} weights\n\n{:<8} {:>8} {:>11} {}{}\n", core::printable(tensor), source->type().name(),
               source->weights(), "as", "bpw", "size",
               fmt::format(kErrorHeader, "RMSE", "SQNR dB", "cosine", "max error"), factors ? "   weighted" : "");
  for (const quant::FormatInfo* format : formats) {
    const quant::ErrorStats e =
        convert::encode_tensor(*source, format->type, importance, convert::encode_on_cpu, [](auto) {});
    const auto bytes = static_cast<double>(source->rows() * format->row_bytes(source->cols()));
    if (json) {
      Json row = {{"type", format->name}, {"bits_per_weight", format->bits_per_weight()}, {"bytes", bytes}};
      row.update(to_json(e));
      if (factors) row["weighted_relative_error"] = e.weighted_relative();
      rows.push_back(std::move(row));
    } else {
      fmt::print("{:<8} {:>8.4f} {:>11} {}{}\n", format->name, format->bits_per_weight(), core::human_bytes(bytes),
                 error_columns(e), factors ? fmt::format(" {:>10.3g}", e.weighted_relative()) : "");
      flush_stdout();
    }
  }
  if (json)
    print_report("inspect",
                 {{"name", tensor}, {"type", source->type().name()}, {"weights", source->weights()}, {"as", rows}});
}

} // namespace ridge::app
