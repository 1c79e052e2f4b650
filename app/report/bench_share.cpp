#include "app/report/bench_share.h"

#include "core/units.h"
#include "engine/loading/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

std::string share_text(double value, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * value / whole) : "";
}

// Shortened, since the full name may reveal too much.
std::string system_name(const std::string& os) {
  const std::string name = os.substr(0, os.find(' '));
  return os.find("microsoft") != std::string::npos ? name + " (WSL)" : name;
}

std::string machine_text(const Json& machine) {
  const Json &cpu = machine["cpu"], &gpu = machine["gpu"];
  std::string text;
  if (!gpu.is_null())
    text = fmt::format("{} ({}, driver {}), ", gpu["name"].get<std::string>(),
                       core::human_bytes(gpu["memory_bytes"].get<double>()), gpu["driver"].get<std::string>());
  return text + fmt::format("{} ({} cores, {}), {} of memory, {}", cpu["name"].get<std::string>(),
                            cpu["cores"].get<int>(), cpu["instruction_set"].get<std::string>(),
                            core::human_bytes(cpu["memory_bytes"].get<double>()),
                            system_name(machine["os"].get<std::string>()));
}

std::string settings_of(const measure::BenchRow& row) {
  std::string text = row.backend == "CUDA" ? "" : fmt::format("{} threads, ", row.threads);
  if (row.backend == "CUDA+CPU") text += fmt::format("{} layers on the GPU, ", row.gpu_layers);
  return text + fmt::format("KV cache {} and {}", row.k_type, row.v_type);
}

} // namespace

std::string bench_as_shared(const std::vector<measure::BenchRow>& rows) {
  const Json machine = engine::machine_json();
  const measure::BenchRow& first = rows.at(0);
  std::vector<std::string> models, settings;
  std::string table =
      "| model | backend | test | tok/s | ± | GB/s | of measured reads | of the datasheet's | TFLOP/s |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  double least = first.read_bytes_per_second, most = least;
  for (const measure::BenchRow& row : rows) {
    const std::string model = fmt::format("{} ({})", row.model, core::human_bytes(static_cast<double>(row.file_bytes)));
    if (std::ranges::find(models, model) == models.end()) models.push_back(model);
    if (std::ranges::find(settings, settings_of(row)) == settings.end()) settings.push_back(settings_of(row));
    least = std::min(least, row.read_bytes_per_second);
    most = std::max(most, row.read_bytes_per_second);
    table += fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {} | {} | {} |\n", row.model, row.backend,
                         row.test(), row.rate(), row.rate_deviation(), row.bytes_per_second() / 1e9,
                         share_text(row.bytes_per_second(), row.read_bytes_per_second),
                         share_text(row.bytes_per_second(), row.datasheet ? row.datasheet->memory_bytes_per_second : 0),
                         row.prompt > 0 ? fmt::format("{:.2f}", row.flops_per_second() / 1e12) : "");
  }
  const bool gpu = first.backend != "CPU" && !machine["gpu"].is_null();
  const std::string title = gpu ? machine["gpu"]["name"].get<std::string>() : machine["cpu"]["name"].get<std::string>();
  return fmt::format("### {}\n\n{}\n- machine: {}\n- models: {}\n- settings: {}\n- memory reads measured next to the "
                     "tests: {:.1f} to {:.1f} GB/s; median of {} repetitions\n- build: ridge {} ({})\n",
                     title, table, machine_text(machine), fmt::join(models, ", "), fmt::join(settings, "; "),
                     least / 1e9, most / 1e9, first.seconds.size(), RIDGE_VERSION, engine::kCommit);
}

} // namespace ridge::app
