#include "app/window/gauges.h"

#include "app/window/step_roofline.h"
#include "core/error.h"
#include "engine/loading/machine.h"
#include "kernels/cuda/executor/executor.h"
#include "measure/peaks/kept_peaks.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::app {

using api::EngineState;

namespace {

constexpr auto kGpuInterval = std::chrono::milliseconds(500);
constexpr auto kIdleBefore = std::chrono::seconds(3);
constexpr int kRepetitions = 20;

std::string roofs_key(const Loaded& loaded) {
  return loaded.device == engine::Device::cuda
             ? "GPU"
             : fmt::format("CPU, {} threads", loaded.model.executor->config().threads);
}

// The sum over the devices in bytes per second; 0 if one is unknown.
double roof_of(const Loaded& loaded, const std::function<double(engine::Device, int)>& peak) {
  const double share = loaded.model.gpu_share;
  const double gpu = share > 0 ? peak(engine::Device::cuda, 0) : 1,
               cpu = share < 1 ? peak(engine::Device::cpu, loaded.model.executor->config().threads) : 1;
  if (gpu <= 0 || cpu <= 0) return 0;
  const auto gpus = static_cast<double>(std::max<size_t>(loaded.model.gpus.size(), 1));
  return 1 / (share / (gpu * gpus) + (1 - share) / cpu);
}

} // namespace

double Gauges::known_roof(const Loaded& loaded) {
  return roof_of(loaded, [](engine::Device on, int threads) {
    const auto kept = measure::stored_read_peak(measure::device_name(on, threads));
    return kept ? kept->best : 0;
  });
}

// Runs after some idle seconds and stores the result.
void Gauges::measure_roof_when_idle() {
  roof_watch_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    for (auto since = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - since < kIdleBefore;) {
      if (stopped.wait_for(lock, stop, kGpuInterval, [&] { return stop.stop_requested(); })) return;
      const auto now = board_.snapshot();
      const bool job_runs = std::ranges::any_of(*now->jobs, [](const api::Job& job) { return !job.over(); });
      if (now->state != EngineState::idle || job_runs) since = std::chrono::steady_clock::now();
    }
    const std::shared_ptr<Loaded> loaded = board_.look([&](const api::Snapshot&) { return current_(); });
    board_.guarded([&] {
      const double roof = roof_of(*loaded, measure::measure_and_keep_read_peak);
      board_.change([&](api::Snapshot& s) {
        if (current_() == loaded) s.speed.roof_bytes_per_s = roof;
      });
    });
    measured_();
  });
}

void Gauges::measure_roofs(const Loaded& loaded) {
  if (roofs_) return;
  board_.change([](api::Snapshot& s) {
    s.state = EngineState::measuring;
    s.activity = "measuring this machine's limits";
  });
  auto report = std::make_shared<measure::RooflineReport>(
      measure::measure_machine(loaded.device, loaded.model.executor->config().threads));
  auto roofs = std::make_shared<api::Roofs>(describe_roofs(*report));
  board_.change([&](api::Snapshot& s) {
    roofs_ = std::move(report);
    roofs_of_ = roofs_key(loaded);
    s.roofs = std::move(roofs);
    s.predicted = nullptr;
  });
  if (board_.state().measured && std::ssize(loaded.session.cached()) < loaded.session.context())
    profile(loaded, kQuickRepetitions);
}

void Gauges::measure_step(Loaded& loaded, int64_t past, const std::atomic<bool>& cancel) {
  engine::Session& session = loaded.session;
  const int64_t cached = std::ssize(session.cached()), last = session.context() - 1;
  past = std::min(past < 0 ? cached : past, last);
  if (past > cached) { // the gap's content does not affect the time
    std::vector<int32_t> tokens(session.cached().begin(), session.cached().end());
    for (int32_t& token : tokens) token = std::max(token, 0); // placeholders are negative
    while (std::ssize(tokens) < past)
      tokens.push_back(static_cast<int32_t>(tokens.size() * 7919 % static_cast<size_t>(loaded.model.program.vocab)));
    board_.change([&](api::Snapshot& s) {
      s.state = EngineState::measuring;
      s.activity = fmt::format("filling the context with {} tokens", past - cached);
    });
    if (!session.evaluate(tokens, &cancel)) return session.keep(cached);
  } else {
    session.keep(past); // removes the measured step
  }
  board_.change([&](api::Snapshot& s) {
    s.state = EngineState::measuring;
    s.activity = "measuring a step";
  });
  profile(loaded, kRepetitions);
  session.keep(std::min(cached, past));
}

void Gauges::profile(const Loaded& m, int repetitions) {
  const int32_t token = 0;
  const measure::StepProfile profile =
      measure::profile_step(*m.model.executor, m.model.program, {{&token, 1}, std::ssize(m.session.cached())},
                            board_.state().speed.roof_bytes_per_s, repetitions);
  auto step = std::make_shared<api::StepRoofline>(measured_step(m.model, profile, roofs_.get()));
  board_.change([&](api::Snapshot& s) { s.measured = std::move(step); });
}

std::shared_ptr<api::StepRoofline> Gauges::predict(const Loaded& loaded, const api::intent::PredictStep& wanted) const {
  const auto roofs = board_.look([&](const api::Snapshot&) { return roofs_; });
  if (!roofs) return nullptr;
  return std::make_shared<api::StepRoofline>(
      predicted_step(loaded.model, *roofs, wanted.past, wanted.streams, wanted.format));
}

void Gauges::take(api::Snapshot& s, const Loaded& loaded) {
  if (roofs_ && roofs_of_ != roofs_key(loaded)) {
    roofs_ = nullptr;
    s.roofs = nullptr;
  }
}

void Gauges::watch_gpus(const std::stop_token& stop) try {
  std::vector<kernels::cuda::DeviceInfo> gpus;
  for (int i = 0; i < kernels::cuda::device_count(); ++i) gpus.push_back(kernels::cuda::device_info(i));
  std::erase_if(gpus, [](const kernels::cuda::DeviceInfo& gpu) { return !gpu.usable; });
  if (gpus.empty()) return;
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  do {
    std::vector<api::GpuGauge> gauges;
    for (const kernels::cuda::DeviceInfo& gpu : gpus) {
      const engine::GpuState state = engine::gpu_state(gpu.bus);
      if (state.driver.empty()) return;
      gauges.push_back({gpu.name, state.power_watts, state.power_limit_watts, state.temperature_celsius,
                        state.sm_clock_hz, state.sm_clock_max_hz, state.memory_clock_hz, state.memory_clock_max_hz,
                        state.memory_used_bytes, state.memory_bytes});
    }
    if (board_.snapshot()->gpus != gauges) board_.change([&](api::Snapshot& s) { s.gpus = gauges; });
  } while (!stopped.wait_for(lock, stop, kGpuInterval, [] { return false; }) && !stop.stop_requested());
} catch (const std::exception&) { // no gauge; GPU errors are reported elsewhere
}

} // namespace ridge::app
