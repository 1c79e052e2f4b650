// Recording from the default source of PulseAudio or PipeWire, by libpulse-simple, which is loaded on demand.
#pragma once

#include "media/sound/sound.h"

#include <atomic>
#include <string>
#include <thread>

namespace ridge::media {

class Microphone {
 public:
  static constexpr int64_t kRate = 16000, kMaxSeconds = 600;
  static constexpr const char* kLibrary = "libpulse-simple.so.0";

  // Why nothing can be recorded; empty if the library is there.
  static std::string problem(const char* library = kLibrary);

  // Begins to record, on a thread. Throws SoundError if the library is missing.
  explicit Microphone(const char* library = kLibrary);
  ~Microphone() { end(); }

  void end() { ends_ = true; } // does not wait
  // Waits until the thread has ended. Throws SoundError if there is no microphone, or it gave nothing.
  Sound finish();

 private:
  struct Library;
  static Library load(const char* library);
  void record(const Library& library);

  std::atomic<bool> ends_ = false;
  std::vector<float> samples_; // the thread's until it ends
  std::string problem_;
  std::jthread thread_;
};

} // namespace ridge::media
