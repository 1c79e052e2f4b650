// Facts about the machine, for measurements.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace ridge::engine {

extern const char* const kCommit; // ends in "-dirty" if files were modified

// First "name : value" line in a /proc file; may be empty.
std::string proc_field(const char* path, std::string_view name);
// "AMD EPYC 9554"; on arm64, whose kernel has no such name, the machine's or the core's number: "Raspberry Pi 5",
// "arm64 0x41 0xd4f". `root` replaces / in tests.
std::string cpu_name(const std::string& root = "");
// A field of /proc/meminfo: MemTotal, MemAvailable, … in bytes; 0: absent.
double memory_bytes(std::string_view field);

// Bytes that the system and the control groups' limits leave.
double available_memory();
// For a control group of version 1 or 2. File pages do not count as used. Infinity without a limit.
double group_memory(const std::string& folder);

// From NVML. Empty or 0: NVML has no value.
struct GpuState {
  std::string driver;
  double sm_clock_hz = 0, sm_clock_max_hz = 0, memory_clock_hz = 0, memory_clock_max_hz = 0;
  double power_watts = 0, power_limit_watts = 0, temperature_celsius = 0;
  double memory_used_bytes = 0, memory_bytes = 0; // of all programs
};
GpuState gpu_state(const std::string& bus); // DeviceInfo::bus

nlohmann::ordered_json machine_json();

} // namespace ridge::engine
