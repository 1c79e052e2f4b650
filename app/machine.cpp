#include "app/machine.h"

#include "kernels/cpu/executor.h"
#include "kernels/cuda/executor.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <dlfcn.h>
#include <sys/utsname.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace ridge::app {

std::string proc_field(const char* path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

// NVML is loaded at run time, so its few functions and constants are declared here, as its reference documents them.
GpuState gpu_state(const std::string& gpu_name) {
  using Device = void*;
  enum Clock : int { sm = 1, memory = 2 };
  GpuState state;
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return state;
  const auto symbol = [&](const char* name) { return ::dlsym(library, name); };
  const auto init = reinterpret_cast<int (*)()>(symbol("nvmlInit_v2"));
  const auto count_of = reinterpret_cast<int (*)(unsigned*)>(symbol("nvmlDeviceGetCount_v2"));
  const auto by_index = reinterpret_cast<int (*)(unsigned, Device*)>(symbol("nvmlDeviceGetHandleByIndex_v2"));
  const auto name_of = reinterpret_cast<int (*)(Device, char*, unsigned)>(symbol("nvmlDeviceGetName"));
  const auto driver = reinterpret_cast<int (*)(char*, unsigned)>(symbol("nvmlSystemGetDriverVersion"));
  const auto clock = reinterpret_cast<int (*)(Device, int, unsigned*)>(symbol("nvmlDeviceGetClockInfo"));
  const auto clock_max = reinterpret_cast<int (*)(Device, int, unsigned*)>(symbol("nvmlDeviceGetMaxClockInfo"));
  const auto power = reinterpret_cast<int (*)(Device, unsigned*)>(symbol("nvmlDeviceGetEnforcedPowerLimit"));
  if (!init || !count_of || !by_index || !name_of || !driver || !clock || !clock_max || !power || init() != 0)
    return state;

  char text[96] = "";
  if (driver(text, sizeof text) == 0) state.driver = text;
  unsigned count = 0;
  Device device = nullptr;
  count_of(&count);
  for (unsigned i = 0; i < count; ++i)
    if (by_index(i, &device) == 0 && name_of(device, text, sizeof text) == 0 && gpu_name == text) {
      const auto hz = [&](auto function, Clock which) {
        unsigned mhz = 0;
        return function(device, which, &mhz) == 0 ? mhz * 1e6 : 0.0;
      };
      state.sm_clock_hz = hz(clock, Clock::sm);
      state.sm_clock_max_hz = hz(clock_max, Clock::sm);
      state.memory_clock_hz = hz(clock, Clock::memory);
      state.memory_clock_max_hz = hz(clock_max, Clock::memory);
      if (unsigned milliwatts = 0; power(device, &milliwatts) == 0) state.power_limit_watts = milliwatts * 1e-3;
      break;
    }
  return state; // the library stays loaded: it is asked again
}

nlohmann::ordered_json machine_json() {
  utsname os = {};
  ::uname(&os);
  nlohmann::ordered_json machine = {
      {"ridge_version", RIDGE_VERSION},
      {"commit", kCommit},
      {"os", std::string(os.sysname) + " " + os.release},
      {"cpu",
       {{"name", proc_field("/proc/cpuinfo", "model name")},
        {"cores", std::thread::hardware_concurrency()},
        {"instruction_set", kernels::cpu::instruction_set()},
        {"clock_hz", 1e6 * std::strtod(proc_field("/proc/cpuinfo", "cpu MHz").c_str(), nullptr)},
        {"memory_bytes", 1024 * std::strtod(proc_field("/proc/meminfo", "MemTotal").c_str(), nullptr)}}}};
  const kernels::cuda::DeviceInfo gpu = kernels::cuda::device_info();
  if (!gpu.usable) {
    machine["gpu"] = nullptr;
    return machine;
  }
  const GpuState state = gpu_state(gpu.name);
  machine["gpu"] = {{"name", gpu.name},
                    {"driver", state.driver},
                    {"compute_capability", std::to_string(gpu.compute_major) + "." + std::to_string(gpu.compute_minor)},
                    {"multiprocessors", gpu.sm_count},
                    {"memory_bytes", gpu.memory_bytes},
                    {"sm_clock_hz", state.sm_clock_hz},
                    {"sm_clock_max_hz", state.sm_clock_max_hz},
                    {"memory_clock_hz", state.memory_clock_hz},
                    {"memory_clock_max_hz", state.memory_clock_max_hz},
                    {"power_limit_watts", state.power_limit_watts}};
  return machine;
}

void print_report(std::string_view command, const nlohmann::ordered_json& report, int indent) {
  nlohmann::ordered_json all = {{"command", command}, {"machine", machine_json()}};
  all.update(report);
  fmt::print("{}\n", all.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::fflush(stdout);
}

} // namespace ridge::app
