#include "app/window/window_server.h"

#include "app/window/model_facts.h"
#include "core/error.h"
#include "core/rings.h"
#include "server/models/service.h"
#include "server/server.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <utility>

namespace ridge::app {

using api::Serving;

namespace {

constexpr auto kStateCheckInterval = std::chrono::milliseconds(100);

struct Ending {
  server::ModelService& service;
  server::Server& server;
  ~Ending() {
    service.abandon();
    server.stop();
  }
};

Serving state_of(server::ModelService& service, const std::string& address) {
  const engine::LoadedModel& model = service.model();
  const core::ExecutorConfig& config = model.executor->config();
  const engine::Scheduler::Counts counts = service.counts();
  Serving state = {.state = Serving::State::on, .address = address, .model = service.name()};
  state.engine = model.executor->description();
  state.context = service.context();
  state.weight_bytes = server::bytes_of_weights(model.program);
  state.cache_bytes = static_cast<double>(config.streams) * core::kv_cache_bytes(model.program, config, config.context);
  state.scratch_bytes = std::max(0.0, model.executor->memory_bytes() - state.cache_bytes);
  state.requests = counts.ended;
  state.waiting = counts.waiting;
  state.prompt_tokens = counts.prompt_tokens;
  state.cached_tokens = counts.cached_tokens;
  state.answer_tokens = counts.generated_tokens;
  if (auto* texts = dynamic_cast<server::Service*>(&service)) {
    for (const int64_t position : texts->scheduler().positions())
      state.slots.push_back({position >= 0, std::max<int64_t>(position, 0)});
    state.sequences = with_texts(model, texts->scheduler().sequences());
  } else {
    state.embeds = true;
  }
  for (const server::RequestList::Entry& entry : service.requests().all())
    state.latest.push_back({.number = entry.number,
                            .route = entry.route,
                            .prompt_tokens = entry.prompt_tokens,
                            .cached_tokens = entry.cached_tokens,
                            .answer_tokens = entry.answer_tokens,
                            .seconds = entry.seconds,
                            .ended = entry.ended,
                            .problem = entry.problem});
  return state;
}

} // namespace

WindowServer::~WindowServer() { stop(); }

void WindowServer::start(const api::intent::StartServer& wanted, const std::string& path, const std::string& encoder,
                         const std::vector<api::AdapterOption>& adapters) {
  const std::scoped_lock lock(mutex_);
  thread_.request_stop();
  // The old server stops on the new thread, so that the caller does not wait.
  thread_ = std::jthread([this, served = Served{wanted, path, encoder, adapters},
                          before = std::move(thread_)](const std::stop_token& stop) mutable {
    if (before.joinable()) before.join();
    run(stop, served);
  });
}

void WindowServer::stop() {
  const std::scoped_lock lock(mutex_);
  thread_.request_stop();
}

void WindowServer::run(const std::stop_token& stop, const Served& served) {
  const auto end = [&](std::string problem) {
    auto off = std::make_shared<Serving>();
    off->problem = std::move(problem);
    show_(std::move(off));
  };
  try {
    serve(stop, served);
    end("");
  } catch (const std::bad_alloc&) {
    end("not enough memory");
  } catch (const std::exception& error) {
    end(error.what());
  }
}

void WindowServer::serve(const std::stop_token& stop, const Served& served) {
  const auto& [wanted, path, encoder, adapters] = served;
  Serving state = {.state = Serving::State::starting};
  show_(std::make_shared<Serving>(state));
  server::ModelSetup setup = setup_;
  setup.parallel = wanted.parallel;
  const auto silent = [](const std::string&) {};
  setup.model.adapters = adapters;
  setup.model.mmproj = encoder;
  server::ServedModel model(server::open_served(path, setup.model, {}), setup,
                            path.empty() ? "guide" : server::model_name(path), {.note = silent}, silent);
  server::Server server(model.service(), {.host = wanted.host, .port = wanted.port, .key = wanted.key});
  const std::jthread listening([&] { server.run(); });
  const Ending ending(model.service(), server);
  const std::string address = server.address();
  std::mutex mutex;
  std::condition_variable_any asked;
  while (!stop.stop_requested()) {
    Serving now = state_of(model.service(), address);
    if (now != state) show_(std::make_shared<Serving>(now));
    state = std::move(now);
    std::unique_lock lock(mutex);
    asked.wait_for(lock, stop, kStateCheckInterval, [] { return false; });
  }
  state.state = Serving::State::stopping;
  show_(std::make_shared<Serving>(state));
}

} // namespace ridge::app
