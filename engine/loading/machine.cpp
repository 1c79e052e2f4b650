#include "engine/loading/machine.h"

#include "kernels/cpu/executor/executor.h"
#include "kernels/cuda/executor/executor.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
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

} // namespace ridge::engine
