#include "measure/peaks/kept_peaks.h"

#include "core/json/state_file.h"
#include "engine/loading/machine.h"
#include "kernels/cpu/executor/executor.h"
#include "kernels/cpu/executor/threads.h"
#include "kernels/cuda/executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ridge::measure {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMeasurements = 16, kDevices = 64;
constexpr const char* kWhat = "read_bytes_per_second";

constexpr const char* kFile = "peaks.json";

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
  return fmt::format("{}, {} thread{}, {}", engine::cpu_name(), used, used == 1 ? "" : "s",
                     kernels::cpu::instruction_set());
}

std::optional<StoredPeak> stored_read_peak(const std::string& device) {
  const std::vector<double> values = measurements_of(core::read_state(kFile), device);
  if (values.empty()) return std::nullopt;
  const auto [least, best] = std::ranges::minmax(values);
  return StoredPeak{best, least, static_cast<int>(values.size())};
}

void keep_read_peak(const std::string& device, double bytes_per_second) {
  if (!(bytes_per_second > 0)) return;
  Json peaks = core::read_state(kFile);
  std::vector<double> values = measurements_of(peaks, device);
  values.push_back(bytes_per_second);
  if (values.size() > kMeasurements) values.erase(values.begin());
  peaks.erase(device);
  while (peaks.size() >= kDevices) peaks.erase(peaks.begin());
  peaks[device] = {{kWhat, values}};
  core::write_state(kFile, peaks); // failure is harmless
}

double measure_and_keep_read_peak(engine::Device on, int threads) {
  const double value = engine::measure_read_bandwidth(on, threads);
  keep_read_peak(device_name(on, threads), value);
  return value;
}

} // namespace ridge::measure
