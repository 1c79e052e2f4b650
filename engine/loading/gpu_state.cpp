// NVML is loaded at run time, so its declarations are repeated here, after its reference.
#include "engine/loading/machine.h"

#include <dlfcn.h>

namespace ridge::engine {

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
