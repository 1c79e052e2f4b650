#include "app/window/window_engine.h"

#include "app/window/loaded.h"
#include "app/window/model_facts.h"
#include "app/window/recent_files.h"
#include "core/cache/rings.h"
#include "core/error.h"
#include "engine/options.h"
#include "engine/sampling_defaults.h"
#include "kernels/cuda/executor/executor.h"
#include "models/guide.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::app {

namespace intent = core::intent;
using core::EngineState;

namespace {

constexpr auto kPublishInterval = std::chrono::milliseconds(10);

template <class... Handlers>
struct Match : Handlers... {
  using Handlers::operator()...;
};

} // namespace

class WindowEngine::Worker {
 public:
  explicit Worker(std::function<void(const core::Intent&)> handle)
      : handle_(std::move(handle)), thread_([this] { run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void push(core::Intent intent) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(intent));
    }
    changed_.notify_all();
  }

 private:
  void run() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (closing_) return;
      const core::Intent intent = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      handle_(intent);
    }
  }

  std::function<void(const core::Intent&)> handle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<core::Intent> queue_;
  bool closing_ = false;
  std::thread thread_;
};

WindowEngine::WindowEngine(WindowSetup setup, std::function<void()> wake)
    : setup_(std::move(setup)), wake_(std::move(wake)), asked_(setup_.request.sampling),
      store_(setup_.conversation_folder) {
  state_.system_prompt = setup_.request.system;
  state_.sampling = setup_.request.sampling.params;
  state_.max_tokens = setup_.request.sampling.max_tokens;
  state_.job_choices = std::make_shared<core::JobChoices>(job_choices());
  state_.jobs = std::make_shared<std::vector<core::Job>>();
  state_.serving = std::make_shared<core::Serving>();
  state_.sequences = std::make_shared<core::Sequences>();
  state_.recent = recent_files();
  list_conversations(state_);
  if (!store_.problem().empty()) {
    state_.error = store_.problem();
    ++state_.error_number;
  }
  published_ = std::make_shared<core::Snapshot>(state_);
  jobs_ = std::make_unique<JobQueue>(
      [this](JobQueue::Jobs jobs) { change([&](core::Snapshot& s) { s.jobs = std::move(jobs); }); },
      setup_.model.device, setup_.model.threads);
  server_ = std::make_unique<WindowServer>(
      server::ModelSetup{setup_.model, setup_.request.sampling, setup_.request.chat_template, setup_.prefixes},
      [this](auto serving) { change([&](core::Snapshot& s) { s.serving = std::move(serving); }); });
  worker_ = std::make_unique<Worker>([this](const core::Intent& intent) { handle(intent); });
  study_worker_ = std::make_unique<Worker>([this](const core::Intent& intent) {
    --studies_waiting_;
    study(intent);
  });
  query_worker_ = std::make_unique<Worker>([this](const core::Intent& intent) { study(intent); });
  list_worker_ = std::make_unique<Worker>(
      [this, options = setup_.model](const core::Intent&) { guarded([&] { list_models(options); }, false); });
  worker_->push(intent::OpenModel{setup_.model.model});
  gpu_watch_ = std::jthread([this](const std::stop_token& stop) { watch_gpu(stop); });
}

WindowEngine::~WindowEngine() {
  gpu_watch_.request_stop();
  closing_ = true; // first: an answer that begins now looks at it after lowering cancel_
  cancel_ = true;
  ++studies_waiting_; // the one that runs stops
  jobs_.reset();
  server_.reset();
  worker_.reset();
  study_worker_.reset();
  query_worker_.reset();
  list_worker_.reset();
}

std::shared_ptr<const core::Snapshot> WindowEngine::snapshot() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

void WindowEngine::change(const std::function<void(core::Snapshot&)>& how, Publish when) {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    how(state_);
    if (when == Publish::soon && now - published_at_ < kPublishInterval) return;
    published_ = std::make_shared<core::Snapshot>(state_);
    published_at_ = now;
  }
  wake_();
}

void WindowEngine::fail(const std::string& error) {
  change([&](core::Snapshot& s) {
    s.error = error;
    ++s.error_number;
  });
}

void WindowEngine::guarded(const std::function<void()>& work, bool of_engine) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    fail("out of memory");
  } catch (const kernels::cuda::DeviceFailed& error) {
    change([](core::Snapshot& s) { s.gpu_failed = true; });
    fail(error.what());
  } catch (const Error& error) {
    fail(error.what());
  } catch (const std::exception& error) { // a bug of ours, but no reason to lose the conversation
    fail(fmt::format("internal error, please report it: {}", error.what()));
  }
  if (of_engine)
    change([&](core::Snapshot& s) {
      s.state = s.model ? EngineState::idle : EngineState::failed;
      s.activity.clear();
    });
}

void WindowEngine::send(core::Intent intent) {
  if (std::holds_alternative<intent::Stop>(intent)) {
    cancel_ = true;
  } else if (std::holds_alternative<intent::StudyTensor>(intent)) {
    ++studies_waiting_;
    study_worker_->push(std::move(intent));
  } else if (std::holds_alternative<intent::ListModels>(intent)) {
    list_worker_->push(std::move(intent));
  } else if (auto* job = std::get_if<intent::StartJob>(&intent)) {
    jobs_->start(std::move(job->request));
  } else if (const auto* unwanted = std::get_if<intent::CancelJob>(&intent)) {
    jobs_->cancel(unwanted->id);
  } else if (const auto* old = std::get_if<intent::ForgetJob>(&intent)) {
    jobs_->forget(old->id);
  } else if (const auto* server = std::get_if<intent::StartServer>(&intent)) {
    const std::shared_ptr<const core::ModelFacts> model = snapshot()->model;
    if (model) server_->start(*server, model->built_in ? "" : model->path);
  } else if (std::holds_alternative<intent::StopServer>(intent)) {
    server_->stop();
  } else if (std::holds_alternative<intent::Tokenize>(intent) || std::holds_alternative<intent::StudyBlock>(intent) ||
             std::holds_alternative<intent::StudySlice>(intent) ||
             std::holds_alternative<intent::PredictStep>(intent)) {
    query_worker_->push(std::move(intent));
  } else {
    worker_->push(std::move(intent));
  }
}

void WindowEngine::handle(const core::Intent& wanted) {
  guarded(
      [&] {
        if (const auto* open = std::get_if<intent::OpenModel>(&wanted)) return load(open->path);
        if (std::holds_alternative<intent::UseCpu>(wanted)) {
          setup_.model.device = "cpu";
          return load(path_);
        }
        if (!loaded_) return; // why not has been said
        std::visit(Match{
                       [&](const intent::Send& send) { say(send.text, messages()); },
                       [&](const intent::EditAndResend& e) { edit(e.message, e.text); },
                       [&](const intent::Regenerate&) { regenerate(); },
                       [&](const intent::NewConversation&) { open_conversation(""); },
                       [&](const intent::OpenConversation& open) { open_conversation(open.id); },
                       [&](const intent::RenameConversation& r) { rename_conversation(r.id, r.title); },
                       [&](const intent::DeleteConversation& d) { delete_conversation(d.id); },
                       [&](const intent::SetSystemPrompt& system) { set_system(system.text); },
                       [&](const intent::KeepChoices& choices) {
                         change([&](core::Snapshot& s) { s.keep_choices = choices.keep; });
                       },
                       [&](const intent::MeasureRoofs&) { measure_roofs(); },
                       [&](const intent::MeasureStep& step) { measure_step(step.past); },
                       [&](const intent::SetSampling& sampling) { set_sampling(sampling); },
                       [](const auto&) {}, // not this thread's
                   },
                   wanted);
      },
      true);
}

// What differs from before was chosen by the user, and is kept when another model is opened.
void WindowEngine::set_sampling(const intent::SetSampling& wanted) {
  core::validate(wanted.params);
  core::SamplingOptions& sampling = setup_.request.sampling;
  core::SamplingOptions changed = sampling;
  changed.params = wanted.params;
  changed.max_tokens = wanted.max_tokens;
  for (const engine::SamplingSetting& setting : engine::sampling_settings()) {
    const std::string value = setting.get(changed);
    if (value == setting.get(sampling)) continue;
    setting.set(asked_, value);
    if (std::ranges::find(asked_.chosen, setting.name) == asked_.chosen.end()) asked_.chosen.emplace_back(setting.name);
  }
  sampling = changed;
  change([&](core::Snapshot& s) {
    s.sampling = wanted.params;
    s.max_tokens = wanted.max_tokens;
  });
}

void WindowEngine::load(const std::string& path) {
  const std::string name = path.empty() ? "the built-in guide" : path;
  change([&](core::Snapshot& s) {
    s.state = EngineState::loading;
    s.activity = fmt::format("opening {}", name);
  });
  auto loaded = std::make_shared<Loaded>(
      engine::open_generating(path.empty() ? models::open_guide() : gguf::File::open(path), setup_.model), setup_);
  loaded->model.need_tokenizer();
  continue_conversation(*loaded);
  auto facts = std::make_shared<core::ModelFacts>(model_facts(loaded->model));
  facts->built_in = path.empty();
  core::SamplingOptions sampling = asked_;
  engine::take_model_defaults(sampling, loaded->model.file, note);
  if (facts->built_in) facts->label = fmt::format("guide ({})", facts->label);
  const auto vocabulary = std::make_shared<const std::vector<std::string>>(display_vocabulary(loaded->model));
  change([&](core::Snapshot& s) { s.activity = "measuring memory bandwidth"; });
  const double roof = engine::measure_read_bandwidth(loaded->model);
  const core::ExecutorConfig& config = loaded->model.executor->config();
  seconds_before_ = 0;
  path_ = path;
  told_deleted_ = false;
  setup_.request.sampling = sampling;
  auto previous = loaded; // freed after the lock, which the window waits for
  change([&](core::Snapshot& s) {
    loaded_.swap(previous);
    s.gpu_failed = false;
    s.sampling = sampling.params;
    s.model = facts;
    s.vocabulary = vocabulary;
    s.keep_choices = loaded->device == engine::Device::cpu;
    for (core::ChatMessage& message : s.messages) message.choices = nullptr; // another vocabulary's
    s.speed = {};
    s.speed.roof_bytes_per_s = roof;
    s.kv = {0, loaded->session.context(), 0, core::kv_cache_bytes(loaded->model.program, config, config.context)};
    s.step = step_shares(loaded->model, 0);
    s.sequences = sequences_of(*loaded);
    s.engine_bytes = loaded->model.executor->memory_bytes();
    s.tokenized = nullptr;
    if (roofs_ && roofs_of_ != roofs_key(*loaded)) {
      roofs_ = nullptr;
      s.roofs = nullptr;
    }
    s.predicted = s.measured = nullptr;
    s.tensor = nullptr;
    s.block = nullptr;
    s.slice = nullptr;
  });
  if (path.empty() || !setup_.remember_files) return;
  remember_file(path);
  change([](core::Snapshot& s) { s.recent = recent_files(); });
}

void WindowEngine::study(const core::Intent& wanted) {
  std::shared_ptr<Loaded> loaded;
  {
    const std::lock_guard lock(mutex_);
    loaded = loaded_;
  }
  if (!loaded) return;
  const auto still_open = [&] { return loaded_ == loaded; }; // under the lock of change()
  guarded(
      [&] {
        if (const auto* text = std::get_if<intent::Tokenize>(&wanted)) {
          auto tokenized = std::make_shared<core::Tokenized>(tokenize_for_display(loaded->model, text->text));
          change([&](core::Snapshot& s) {
            if (still_open()) s.tokenized = std::move(tokenized);
          });
        } else if (const auto* step = std::get_if<intent::PredictStep>(&wanted)) {
          predict(*loaded, *step);
        } else if (const auto* tensor = std::get_if<intent::StudyTensor>(&wanted)) {
          study_tensor(loaded->model.file, tensor->tensor, [&](const core::TensorStudy& study) {
            change([&](core::Snapshot& s) {
              if (still_open()) s.tensor = std::make_shared<core::TensorStudy>(study);
            });
            return studies_waiting_ == 0;
          });
        } else if (const auto* block = std::get_if<intent::StudyBlock>(&wanted)) {
          auto study = std::make_shared<core::BlockStudy>(study_block(loaded->model.file, *block));
          change([&](core::Snapshot& s) {
            if (still_open()) s.block = std::move(study);
          });
        } else if (const auto* piece = std::get_if<intent::StudySlice>(&wanted)) {
          auto study = std::make_shared<core::SliceStudy>(study_slice(loaded->model.file, *piece));
          change([&](core::Snapshot& s) {
            if (still_open()) s.slice = std::move(study);
          });
        }
      },
      false);
}

} // namespace ridge::app
