// The facts about this machine that every measurement must report.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace ridge::engine {

extern const char* const kCommit; // that this program was built from, "-dirty" after it where files had changed

// The value of the first "name : value" line of a /proc file; empty where there is none.
std::string proc_field(const char* path, std::string_view name);
// A field of /proc/meminfo, such as MemTotal or MemAvailable, in bytes; 0 where there is none.
double memory_bytes(std::string_view field);

// Memory that this process may still take: what the system has available or, if that is less, what the limits of its
// control groups leave.
double available_memory();
// What the limit of the control group in this folder (of version 2 or 1) leaves, the pages of files not counted as
// taken; infinity without a limit.
double group_memory(const std::string& folder);

// A GPU's state, from NVML, the NVIDIA driver's management library; empty or 0 where NVML has no value.
struct GpuState {
  std::string driver; // "580.95.05"
  double sm_clock_hz = 0, sm_clock_max_hz = 0, memory_clock_hz = 0, memory_clock_max_hz = 0;
  double power_watts = 0, power_limit_watts = 0, temperature_celsius = 0;
  double memory_used_bytes = 0, memory_bytes = 0; // of all programs
};
GpuState gpu_state(const std::string& bus); // DeviceInfo::bus

// The block "machine" of every JSON report: program, commit, CPU, memory, GPU, driver, clocks as they are now.
nlohmann::ordered_json machine_json();

} // namespace ridge::engine
