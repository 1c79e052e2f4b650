#include "measure/peaks/kept_peaks.h"

#include "core/files/atomic_file.h"
#include "core/files/private_folder.h"
#include "core/files/read_file.h"
#include "core/files/xdg.h"
#include "core/json/parse.h"
#include "engine/machine.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cpu/executor/threads.h"
#include "kernels/cuda/executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <vector>

namespace ridge::measure {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMeasurements = 16, kDevices = 64; // that are kept
constexpr const char* kWhat = "read_bytes_per_second";

std::string peaks_path() { return core::state_folder().empty() ? "" : core::state_folder() + "/peaks.json"; }

// The peaks of all devices; an empty object where the file is missing or is not as it was written.
Json read_peaks() {
  std::error_code none;
  const std::string path = peaks_path();
  if (path.empty() || !std::filesystem::is_regular_file(path, none)) return Json::object();
  try {
    Json peaks = core::parse_json(core::read_text_file(path), path);
    if (peaks.is_object()) return peaks;
  } catch (const Error&) { // it is measured again
  }
  return Json::object();
}

std::vector<double> measurements_of(const Json& peaks, const std::string& device) {
  std::vector<double> values;
  const auto found = peaks.find(device);
  if (found == peaks.end() || !found->is_object() || !found->contains(kWhat)) return values;
  for (const Json& value : (*found)[kWhat])
    if (value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0)
      values.push_back(value.get<double>());
  return values;
}

} // namespace

std::string device_name(engine::Device on, int threads) {
  if (on == engine::Device::cuda) return kernels::cuda::device_info().name;
  const int used = threads > 0 ? threads : kernels::cpu::default_threads();
  return fmt::format("{}, {} thread{}, {}", engine::proc_field("/proc/cpuinfo", "model name"), used,
                     used == 1 ? "" : "s", kernels::cpu::instruction_set());
}

std::optional<KeptPeak> kept_read_peak(const std::string& device) {
  const std::vector<double> values = measurements_of(read_peaks(), device);
  if (values.empty()) return std::nullopt;
  const auto [least, best] = std::ranges::minmax(values);
  return KeptPeak{best, least, static_cast<int>(values.size())};
}

void keep_read_peak(const std::string& device, double bytes_per_second) try {
  const std::string path = peaks_path();
  if (path.empty() || !(bytes_per_second > 0)) return;
  Json peaks = read_peaks();
  std::vector<double> values = measurements_of(peaks, device);
  values.push_back(bytes_per_second);
  if (values.size() > kMeasurements) values.erase(values.begin());
  peaks.erase(device);
  while (peaks.size() >= kDevices) peaks.erase(peaks.begin());
  peaks[device] = {{kWhat, values}};
  std::error_code ignored;
  core::create_private_folders(core::state_folder(), ignored);
  const std::string text = peaks.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  core::AtomicFile file(path, text.size(), core::kPrivateFile);
  file.write(std::as_bytes(std::span(text)));
  file.publish();
} catch (const Error&) { // a read-only home costs the next program a measurement
}

double measure_and_keep_read_peak(engine::Device on, int threads) {
  const double value = engine::measure_read_bandwidth(on, threads);
  keep_read_peak(device_name(on, threads), value);
  return value;
}

} // namespace ridge::measure
