#include "media/sound/microphone.h"

#include "support/fake_pulse.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

using namespace ridge;
using media::Microphone;
using tests::FakePulse;

TEST_CASE("a microphone records what it hears until it ends") {
  const FakePulse pulse;
  CHECK(Microphone::problem().empty());
  const int64_t before = pulse.samples();
  Microphone microphone;
  pulse.wait_for(5000, before);
  const media::Sound sound = microphone.finish();
  CHECK(sound.rate == 16000);
  CHECK(sound.samples.size() >= 4960);
  CHECK(sound.samples.size() % 320 == 0);
  float error = 0;
  for (size_t i = 0; i < sound.samples.size(); ++i) {
    const double angle = 2 * std::numbers::pi * 440 * static_cast<double>(i) / 16000;
    error = std::max(error, std::abs(sound.samples[i] - static_cast<float>(0.25 * std::sin(angle))));
  }
  CHECK(error < 1e-6f);
}

TEST_CASE("why nothing was recorded is one line") {
  const char* const missing = "libthere-is-none.so.0";
  CHECK(Microphone::problem(missing).find("libthere-is-none.so.0 is missing: install") != std::string::npos);
  CHECK_THROWS_WITH_AS(Microphone{missing}, doctest::Contains("is missing"), media::SoundError);
  CHECK_THROWS_WITH_AS(Microphone{"libm.so.6"}, doctest::Contains("libm.so.6 has no pa_simple_new"), media::SoundError);
  {
    const FakePulse pulse(FakePulse::fails);
    Microphone microphone;
    CHECK_THROWS_WITH_AS(microphone.finish(), "no microphone: Connection refused", media::SoundError);
  }
  {
    const FakePulse pulse(FakePulse::stops);
    const int64_t before = pulse.samples();
    Microphone microphone;
    pulse.wait_for(320, before);
    pulse.wait_for_end();
    CHECK_THROWS_WITH_AS(microphone.finish(), "the microphone stopped: Entity killed", media::SoundError);
  }
  {
    const FakePulse pulse(FakePulse::waits);
    const int64_t before = pulse.samples();
    Microphone microphone;
    pulse.wait_for(320, before);
    microphone.end();
    pulse.way(FakePulse::works);
    CHECK_THROWS_WITH_AS(microphone.finish(), "nothing was recorded: hold the button while you speak",
                         media::SoundError);
  }
}
