#include "engine/loading/machine.h"

#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/executor/executor.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <thread>

namespace ridge::engine {

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

std::string cpu_name(const std::string& root) {
  const std::string info = root + "/proc/cpuinfo";
  if (std::string name = proc_field(info.c_str(), "model name"); !name.empty()) return name;
  std::string name;
  std::getline(std::ifstream(root + "/proc/device-tree/model"), name, '\0');
  if (!name.empty()) return name;
  const std::string maker = proc_field(info.c_str(), "CPU implementer"), part = proc_field(info.c_str(), "CPU part");
  return maker.empty() ? "" : fmt::format("arm64 {} {}", maker, part);
}

double memory_bytes(std::string_view field) {
  return 1024 * std::strtod(proc_field("/proc/meminfo", field).c_str(), nullptr);
}

double group_memory(const std::string& folder) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  const auto number = [&](const char* file) {
    double value = kNoLimit;
    std::ifstream in(folder + "/" + file);
    return in >> value ? value : kNoLimit;
  };
  for (const auto& [limit_file, taken_file] :
       {std::pair("memory.max", "memory.current"), std::pair("memory.limit_in_bytes", "memory.usage_in_bytes")}) {
    const double limit = number(limit_file), taken = number(taken_file);
    if (limit == kNoLimit || taken == kNoLimit) continue;
    double files = 0, value = 0;
    std::ifstream statistics(folder + "/memory.stat");
    for (std::string name; statistics >> name >> value;)
      if (name == "active_file" || name == "inactive_file") files += value;
    return std::max(0.0, limit - taken + files);
  }
  return kNoLimit;
}

double available_memory() {
  double available = memory_bytes("MemAvailable");
  std::ifstream groups("/proc/self/cgroup"); // "0::/user.slice", "5:memory:/docker/ab12"
  for (std::string line; std::getline(groups, line);) {
    const bool second_version = line.starts_with("0::"), memory = line.find(":memory:") != std::string::npos;
    if (!second_version && !memory) continue;
    const std::string root = second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::string path = line.substr(line.find(':', line.find(':') + 1) + 1);
    for (size_t slash = path.size(); slash != std::string::npos; slash = path.rfind('/')) { // enclosing groups
      path.resize(slash);
      available = std::min(available, group_memory(root + path));
    }
  }
  return available;
}

nlohmann::ordered_json machine_json() {
  utsname os = {};
  ::uname(&os);
  nlohmann::ordered_json machine = {
      {"ridge_version", RIDGE_VERSION},
      {"commit", kCommit},
      {"os", std::string(os.sysname) + " " + os.release},
      {"cpu",
       {{"name", cpu_name()},
        {"cores", std::thread::hardware_concurrency()},
        {"instruction_set", kernels::cpu::instruction_set()},
        {"clock_hz", 1e6 * std::strtod(proc_field("/proc/cpuinfo", "cpu MHz").c_str(), nullptr)},
        {"memory_bytes", memory_bytes("MemTotal")}}}};
  const kernels::cuda::DeviceInfo gpu = kernels::cuda::device_info();
  if (!gpu.usable) {
    machine["gpu"] = nullptr;
    return machine;
  }
  const GpuState state = gpu_state(gpu.bus);
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

GpuState gpu_state(const std::string& bus) {
  using Device = void*;
  enum Clock : int { sm_clock = 1, memory_clock = 2 };
  constexpr int kSensorGpu = 0;
  struct Memory {
    unsigned long long total, free, used;
  };
  GpuState state;
  static void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL); // stays loaded
  if (!library) return state;
  const auto symbol = [&](const char* name) { return ::dlsym(library, name); };
  const auto init = reinterpret_cast<int (*)()>(symbol("nvmlInit_v2"));
  const auto by_bus = reinterpret_cast<int (*)(const char*, Device*)>(symbol("nvmlDeviceGetHandleByPciBusId_v2"));
  const auto driver = reinterpret_cast<int (*)(char*, unsigned)>(symbol("nvmlSystemGetDriverVersion"));
  const auto clock = reinterpret_cast<int (*)(Device, int, unsigned*)>(symbol("nvmlDeviceGetClockInfo"));
  const auto clock_max = reinterpret_cast<int (*)(Device, int, unsigned*)>(symbol("nvmlDeviceGetMaxClockInfo"));
  const auto power_limit = reinterpret_cast<int (*)(Device, unsigned*)>(symbol("nvmlDeviceGetEnforcedPowerLimit"));
  const auto power = reinterpret_cast<int (*)(Device, unsigned*)>(symbol("nvmlDeviceGetPowerUsage"));
  const auto temperature = reinterpret_cast<int (*)(Device, int, unsigned*)>(symbol("nvmlDeviceGetTemperature"));
  const auto memory = reinterpret_cast<int (*)(Device, Memory*)>(symbol("nvmlDeviceGetMemoryInfo"));
  if (!init || !by_bus || !driver || !clock || !clock_max || !power_limit || !power || !temperature || !memory)
    return state;
  static const bool ready = init() == 0;
  if (!ready) return state;

  char text[96] = "";
  if (driver(text, sizeof text) == 0) state.driver = text;
  Device device = nullptr;
  if (by_bus(bus.c_str(), &device) != 0) return state;
  const auto hz = [&](auto function, Clock which) {
    unsigned mhz = 0;
    return function(device, which, &mhz) == 0 ? mhz * 1e6 : 0.0;
  };
  state.sm_clock_hz = hz(clock, sm_clock);
  state.sm_clock_max_hz = hz(clock_max, sm_clock);
  state.memory_clock_hz = hz(clock, memory_clock);
  state.memory_clock_max_hz = hz(clock_max, memory_clock);
  if (unsigned milliwatts = 0; power_limit(device, &milliwatts) == 0) state.power_limit_watts = milliwatts * 1e-3;
  if (unsigned milliwatts = 0; power(device, &milliwatts) == 0) state.power_watts = milliwatts * 1e-3;
  if (unsigned celsius = 0; temperature(device, kSensorGpu, &celsius) == 0) state.temperature_celsius = celsius;
  if (Memory m = {}; memory(device, &m) == 0) {
    state.memory_used_bytes = static_cast<double>(m.used);
    state.memory_bytes = static_cast<double>(m.total);
  }
  return state;
}

} // namespace ridge::engine
