#include "media/sound/microphone.h"

#include "core/files/shared_library.h"
#include "core/strings/printable.h"

#include <array>
#include <memory>

namespace ridge::media {
// Named: gcc 13 crashes on members whose types are in an unnamed namespace.
namespace pulse {

// Declarations from pulse/simple.h, stable since 2009.
struct PulseStream;
struct PulseFormat {
  int format;
  uint32_t rate;
  uint8_t channels;
};
struct PulseBuffer { // bytes; kUsual: as the server likes
  uint32_t most, target, before, least, fragment;
};
constexpr uint32_t kUsual = UINT32_MAX;
constexpr int kRecord = 2, kFloat32 = 5; // little-endian

} // namespace pulse
using namespace pulse;

struct Microphone::Library {
  PulseStream* (*open)(const char* server, const char* program, int direction, const char* source, const char* stream,
                       const PulseFormat*, const void* channels, const PulseBuffer*, int* error);
  int (*read)(PulseStream*, void*, size_t, int* error);
  void (*close)(PulseStream*);
  const char* (*explain)(int error);
};

Microphone::Library Microphone::load(const char* library) {
  const core::SharedLibrary loaded({library},
                                   fmt::format("no microphone: {} is missing: install libpulse0 (Debian, Ubuntu) or "
                                               "pulseaudio-libs (Fedora)",
                                               core::printable(library)));
  const auto find = [&](auto& function, const char* name) {
    loaded.find(function, name, fmt::format("no microphone: {} has no {}", core::printable(library), name));
  };
  Library f{};
  find(f.open, "pa_simple_new");
  find(f.read, "pa_simple_read");
  find(f.close, "pa_simple_free");
  find(f.explain, "pa_strerror");
  return f;
}

std::string Microphone::problem(const char* library) {
  try {
    load(library);
    return "";
  } catch (const core::Error& error) {
    return error.what();
  }
}

Microphone::Microphone(const char* library) {
  try {
    thread_ = std::jthread([this, functions = load(library)] { record(functions); });
  } catch (const core::Error& error) {
    throw SoundError(error.what());
  }
}

void Microphone::record(const Library& library) {
  constexpr int64_t kAtOnce = kRate / 50; // samples; so long does an end wait
  constexpr PulseFormat kFormat = {kFloat32, kRate, 1};
  constexpr PulseBuffer kBuffer = {kUsual, kUsual, kUsual, kUsual, kAtOnce * sizeof(float)};
  int error = 0;
  const std::unique_ptr<PulseStream, void (*)(PulseStream*)> stream(
      library.open(nullptr, "ridge", kRecord, nullptr, "message", &kFormat, nullptr, &kBuffer, &error), library.close);
  if (!stream) {
    problem_ = fmt::format("no microphone: {}", core::printable(library.explain(error)));
    return;
  }
  std::array<float, kAtOnce> part{};
  while (!ends_ && std::ssize(samples_) < kMaxSeconds * kRate) {
    if (library.read(stream.get(), part.data(), sizeof(part), &error) < 0) {
      problem_ = fmt::format("the microphone stopped: {}", core::printable(library.explain(error)));
      return;
    }
    samples_.insert(samples_.end(), part.begin(), part.end());
  }
}

Sound Microphone::finish() {
  constexpr int64_t kMin = kRate / 4;
  end();
  if (thread_.joinable()) thread_.join();
  const bool is_short = std::ssize(samples_) < kMin;
  if (is_short && !problem_.empty()) throw SoundError(problem_); // else keeps what it recorded before
  if (is_short) throw SoundError("nothing was recorded: hold the button while you speak");
  return {kRate, std::move(samples_)};
}

} // namespace ridge::media
