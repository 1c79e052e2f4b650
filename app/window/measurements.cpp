// Measures roofs, steps and the GPU's state.
#include "app/window/loaded.h"
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

} // namespace

std::string WindowEngine::roofs_key(const Loaded& loaded) {
  return loaded.device == engine::Device::cuda
             ? "GPU"
             : fmt::format("CPU, {} threads", loaded.model.executor->config().threads);
}

// The sum over the devices in bytes per second; 0 if one is unknown.
double WindowEngine::roof_of(const Loaded& loaded, const std::function<double(engine::Device, int)>& peak) {
  const double share = loaded.model.gpu_share;
  const double gpu = share > 0 ? peak(engine::Device::cuda, 0) : 1,
               cpu = share < 1 ? peak(engine::Device::cpu, loaded.model.executor->config().threads) : 1;
  if (gpu <= 0 || cpu <= 0) return 0;
  const auto gpus = static_cast<double>(std::max<size_t>(loaded.model.gpus.size(), 1));
  return 1 / (share / (gpu * gpus) + (1 - share) / cpu);
}

double WindowEngine::known_roof(const Loaded& loaded) {
  return roof_of(loaded, [](engine::Device on, int threads) {
    const auto kept = measure::stored_read_peak(measure::device_name(on, threads));
    return kept ? kept->best : 0;
  });
}

// Runs after some idle seconds and stores the result.
void WindowEngine::measure_roof_when_idle() {
  roof_watch_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    for (auto since = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - since < kIdleBefore;) {
      if (stopped.wait_for(lock, stop, kGpuInterval, [&] { return stop.stop_requested(); })) return;
      const auto now = snapshot();
      const bool job_runs = std::ranges::any_of(*now->jobs, [](const api::Job& job) { return !job.over(); });
      if (now->state != EngineState::idle || job_runs) since = std::chrono::steady_clock::now();
    }
    std::shared_ptr<Loaded> loaded;
    {
      const std::lock_guard state_lock(mutex_);
      loaded = loaded_;
    }
    guarded(
        [&] {
          const double roof = roof_of(*loaded, measure::measure_and_keep_read_peak);
          change([&](api::Snapshot& s) {
            if (loaded_ == loaded) s.speed.roof_bytes_per_s = roof;
          });
        },
        false);
    if (snapshot()->models) send(api::intent::ListModels{}); // the list then has speeds
  });
}

void WindowEngine::measure_roofs() {
  if (roofs_) return;
  change([](api::Snapshot& s) {
    s.state = EngineState::measuring;
    s.activity = "measuring this machine's limits";
  });
  auto report = std::make_shared<measure::RooflineReport>(
      measure::measure_machine(loaded_->device, loaded_->model.executor->config().threads));
  auto roofs = std::make_shared<api::Roofs>(describe_roofs(*report));
  change([&](api::Snapshot& s) {
    roofs_ = std::move(report);
    roofs_of_ = roofs_key(*loaded_);
    s.roofs = std::move(roofs);
    s.predicted = nullptr;
  });
  if (state_.measured && std::ssize(loaded_->session.cached()) < loaded_->session.context())
    profile_here(kQuickRepetitions);
}

void WindowEngine::measure_step(int64_t past) {
  engine::Session& session = loaded_->session;
  const int64_t cached = std::ssize(session.cached()), last = session.context() - 1;
  past = std::min(past < 0 ? cached : past, last);
  cancel_ = false;
  if (past > cached) { // the gap's content does not affect the time
    std::vector<int32_t> tokens(session.cached().begin(), session.cached().end());
    for (int32_t& token : tokens) token = std::max(token, 0); // placeholders are negative
    while (std::ssize(tokens) < past)
      tokens.push_back(static_cast<int32_t>(tokens.size() * 7919 % static_cast<size_t>(loaded_->model.program.vocab)));
    change([&](api::Snapshot& s) {
      s.state = EngineState::measuring;
      s.activity = fmt::format("filling the context with {} tokens", past - cached);
    });
    if (!session.evaluate(tokens, &cancel_)) return session.keep(cached);
  } else {
    session.keep(past); // removes the measured step
  }
  change([&](api::Snapshot& s) {
    s.state = EngineState::measuring;
    s.activity = "measuring a step";
  });
  profile_here(kRepetitions);
  session.keep(std::min(cached, past));
}

void WindowEngine::profile_here(int repetitions) {
  const Loaded& m = *loaded_;
  const int32_t token = 0;
  const measure::StepProfile profile =
      measure::profile_step(*m.model.executor, m.model.program, {{&token, 1}, std::ssize(m.session.cached())},
                            state_.speed.roof_bytes_per_s, repetitions);
  auto step = std::make_shared<api::StepRoofline>(measured_step(m.model, profile, roofs_.get()));
  change([&](api::Snapshot& s) { s.measured = std::move(step); });
}

void WindowEngine::predict(const Loaded& loaded, const api::intent::PredictStep& wanted) {
  std::shared_ptr<const measure::RooflineReport> roofs;
  {
    const std::lock_guard lock(mutex_);
    roofs = roofs_;
  }
  if (!roofs) return;
  auto step = std::make_shared<api::StepRoofline>(
      predicted_step(loaded.model, *roofs, wanted.past, wanted.streams, wanted.format));
  change([&](api::Snapshot& s) {
    if (loaded_.get() == &loaded) s.predicted = std::move(step);
  });
}

void WindowEngine::watch_gpu(const std::stop_token& stop) try {
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
    if (snapshot()->gpus != gauges) change([&](api::Snapshot& s) { s.gpus = gauges; });
  } while (!stopped.wait_for(lock, stop, kGpuInterval, [] { return false; }) && !stop.stop_requested());
} catch (const std::exception&) { // no gauge; GPU errors are reported elsewhere
}

} // namespace ridge::app
