// A libpulse-simple whose microphone hears a tone of 440 Hz (tests/support/fake_pulse.h).
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <thread>

namespace {

struct Stream {
  uint32_t rate;
  int64_t at = 0;
};
struct Format {
  int format;
  uint32_t rate;
  uint8_t channels;
};
enum Way { works, fails, stops, waits }; // as in FakePulse
constexpr int kRefused = 6, kKilled = 16;

void wait_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

} // namespace

extern "C" {

std::atomic<int> fake_pulse_way = works;
std::atomic<int64_t> fake_pulse_samples = 0; // given so far
std::atomic<int64_t> fake_pulse_streams = 0; // that are open

void* pa_simple_new(const char*, const char*, int direction, const char*, const char*, const Format* format,
                    const void*, const void*, int* error) {
  constexpr int kRecord = 2, kFloat32 = 5;
  *error = kRefused;
  if (fake_pulse_way == fails || direction != kRecord || format->format != kFloat32 || format->channels != 1)
    return nullptr;
  ++fake_pulse_streams;
  return new Stream{format->rate};
}

int pa_simple_read(void* stream, void* data, size_t bytes, int* error) {
  auto& own = *static_cast<Stream*>(stream);
  wait_a_little(); // 20 times as fast as a real one
  while (fake_pulse_way == waits && own.at > 0) wait_a_little();
  *error = kKilled;
  if (fake_pulse_way == stops && own.at > 0) return -1;
  auto* samples = static_cast<float*>(data);
  for (size_t i = 0; i < bytes / sizeof(float); ++i, ++own.at)
    samples[i] = static_cast<float>(
        0.25 * std::sin(2 * std::numbers::pi * 440 * static_cast<double>(own.at) / static_cast<double>(own.rate)));
  fake_pulse_samples += static_cast<int64_t>(bytes / sizeof(float));
  return 0;
}

void pa_simple_free(void* stream) {
  delete static_cast<Stream*>(stream);
  --fake_pulse_streams;
}

const char* pa_strerror(int error) { return error == kRefused ? "Connection refused" : "Entity killed"; }
}
