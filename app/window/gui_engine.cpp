#include "app/window/gui_engine.h"

#include "app/window/gui_loaded.h"
#include "app/window/model_facts.h"
#include "app/window/recent_files.h"
#include "core/error.h"
#include "kernels/cuda/executor/executor.h"
#include "models/guide.h"

#include <fmt/format.h>

namespace ridge::app {

namespace intent = core::intent;
using core::EngineState;

namespace {

constexpr auto kPublishInterval = std::chrono::milliseconds(10);
constexpr double kSampleSeconds = 0.05; // of generation, between two points of the speed's history
constexpr size_t kHistory = 600;
constexpr double kCheapProfile = 0.1; // seconds that an answer may be followed by

template <class... Handlers>
struct Match : Handlers... {
  using Handlers::operator()...;
};

// Speeds of an answer while it is written: of the time since the last sample.
class SpeedMeter {
 public:
  // True where there is a new sample.
  bool update(const engine::Usage& usage) {
    if (usage.seconds - last_.seconds < kSampleSeconds) return false;
    recent_ = {usage.tokens - last_.tokens, usage.seconds - last_.seconds, usage.bytes - last_.bytes};
    last_ = usage;
    return true;
  }
  const engine::Usage& recent() const { return recent_; }

 private:
  engine::Usage last_, recent_;
};

std::string ending(engine::StopReason stop, int64_t max_tokens) {
  switch (stop) {
  case engine::StopReason::interrupted: return "stopped";
  case engine::StopReason::context_full: return "cut: the context is full";
  case engine::StopReason::limit: return fmt::format("cut after {} tokens", max_tokens);
  default: return "";
  }
}

} // namespace

class GuiEngine::Worker {
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

GuiEngine::GuiEngine(GuiSetup setup, std::function<void()> wake)
    : setup_(std::move(setup)), wake_(std::move(wake)), store_(setup_.conversation_folder) {
  state_.system_prompt = setup_.system;
  state_.sampling = setup_.sampling.params;
  state_.max_tokens = setup_.sampling.max_tokens;
  state_.job_choices = std::make_shared<core::JobChoices>(job_choices());
  state_.jobs = std::make_shared<std::vector<core::Job>>();
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
  talker_ = std::make_unique<Worker>([this](const core::Intent& intent) { handle(intent); });
  student_ = std::make_unique<Worker>([this](const core::Intent& intent) {
    --studies_waiting_;
    study(intent);
  });
  clerk_ = std::make_unique<Worker>([this](const core::Intent& intent) { study(intent); });
  talker_->push(intent::OpenModel{setup_.model.model});
  gpu_watch_ = std::jthread([this](const std::stop_token& stop) { watch_gpu(stop); });
}

GuiEngine::~GuiEngine() {
  gpu_watch_.request_stop();
  closing_ = true; // first: an answer that begins now looks at it after lowering cancel_
  cancel_ = true;
  ++studies_waiting_; // the one that runs gives up
  jobs_.reset();
  talker_.reset();
  student_.reset();
  clerk_.reset();
}

std::shared_ptr<const core::Snapshot> GuiEngine::snapshot() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

void GuiEngine::change(const std::function<void(core::Snapshot&)>& how, Publish when) {
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

void GuiEngine::fail(const std::string& error) {
  change([&](core::Snapshot& s) {
    s.error = error;
    ++s.error_number;
  });
}

void GuiEngine::guarded(const std::function<void()>& work, bool of_engine) {
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

void GuiEngine::send(core::Intent intent) {
  if (std::holds_alternative<intent::Stop>(intent)) {
    cancel_ = true;
  } else if (std::holds_alternative<intent::StudyTensor>(intent)) {
    ++studies_waiting_;
    student_->push(std::move(intent));
  } else if (auto* job = std::get_if<intent::StartJob>(&intent)) {
    jobs_->start(std::move(job->request));
  } else if (const auto* unwanted = std::get_if<intent::CancelJob>(&intent)) {
    jobs_->cancel(unwanted->id);
  } else if (const auto* old = std::get_if<intent::ForgetJob>(&intent)) {
    jobs_->forget(old->id);
  } else if (std::holds_alternative<intent::Tokenize>(intent) || std::holds_alternative<intent::StudyBlock>(intent) ||
             std::holds_alternative<intent::StudySlice>(intent) ||
             std::holds_alternative<intent::PredictStep>(intent)) {
    clerk_->push(std::move(intent));
  } else {
    talker_->push(std::move(intent));
  }
}

void GuiEngine::handle(const core::Intent& wanted) {
  guarded(
      [&] {
        if (const auto* open = std::get_if<intent::OpenModel>(&wanted)) return load(open->path);
        if (std::holds_alternative<intent::UseCpu>(wanted)) {
          setup_.model.device = "cpu";
          return load(path_);
        }
        if (!loaded_) return; // why not has been said
        std::visit(Match{
                       [&](const intent::Send& send) { say(send.text, exchange()); },
                       [&](const intent::EditAndResend& e) { edit(e.message, e.text); },
                       [&](const intent::Regenerate&) {
                         const Exchange before = exchange();
                         if (loaded_->conversation.drop_answer())
                           change([](core::Snapshot& s) { s.messages.pop_back(); });
                         if (state_.messages.empty() || !state_.messages.back().user) return;
                         answer(before);
                       },
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
                       [&](const intent::SetSampling& sampling) {
                         core::validate(sampling.params);
                         setup_.sampling.params = sampling.params;
                         setup_.sampling.max_tokens = sampling.max_tokens;
                         change([&](core::Snapshot& s) {
                           s.sampling = sampling.params;
                           s.max_tokens = sampling.max_tokens;
                         });
                       },
                       [](const auto&) {}, // not this thread's
                   },
                   wanted);
      },
      true);
}

void GuiEngine::load(const std::string& path) {
  const std::string name = path.empty() ? "the built-in guide" : path;
  change([&](core::Snapshot& s) {
    s.state = EngineState::loading;
    s.activity = fmt::format("opening {}", name);
  });
  auto loaded = std::make_shared<Loaded>(
      engine::open_model(path.empty() ? models::open_guide() : gguf::File::open(path)), setup_);
  loaded->model.need_tokenizer();
  continue_conversation(*loaded);
  auto facts = std::make_shared<core::ModelFacts>(model_facts(loaded->model));
  facts->built_in = path.empty();
  if (facts->built_in) facts->label = fmt::format("guide ({})", facts->label);
  const auto vocabulary = std::make_shared<const std::vector<std::string>>(display_vocabulary(loaded->model));
  change([&](core::Snapshot& s) { s.activity = "measuring memory bandwidth"; });
  const double roof = engine::measure_read_bandwidth(loaded->model);
  const core::ExecutorConfig& config = loaded->model.executor->config();
  seconds_before_ = 0;
  path_ = path;
  told_deleted_ = false;
  auto previous = loaded; // freed after the lock, which the window waits for
  change([&](core::Snapshot& s) {
    loaded_.swap(previous);
    s.gpu_failed = false;
    s.model = facts;
    s.vocabulary = vocabulary;
    s.keep_choices = loaded->device == engine::Device::cpu;
    for (core::ChatMessage& message : s.messages) message.choices = nullptr; // another vocabulary's
    s.speed = {};
    s.speed.roof_bytes_per_s = roof;
    s.kv = {0, loaded->session.context(), 0,
            core::kv_cache_bytes(loaded->model.program, loaded->session.context(),
                                 core::bytes_per_element(config.k_type), core::bytes_per_element(config.v_type))};
    s.step = step_shares(loaded->model, 0);
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

GuiEngine::Exchange GuiEngine::exchange() const { return {state_.messages, loaded_->conversation.messages()}; }

void GuiEngine::say(std::string text, const Exchange& before) {
  begin_conversation(text);
  change([&](core::Snapshot& s) { s.messages.push_back({true, text, "", ""}); });
  loaded_->conversation.add_user(std::move(text));
  answer(before);
}

void GuiEngine::edit(size_t message, const std::string& text) {
  const Exchange before = exchange();
  Json kept = Json::array();
  size_t number = 0;
  for (const Json& m : loaded_->conversation.messages()) {
    const bool system = m["role"] == "system";
    if (system || number < message) kept.push_back(m);
    if (!system) ++number;
  }
  loaded_->conversation.set_messages(kept, "conversation");
  change([&](core::Snapshot& s) { s.messages.resize(std::min(message, s.messages.size())); });
  say(text, before);
}

void GuiEngine::answer(const Exchange& before) {
  Loaded& m = *loaded_;
  cancel_ = false;
  if (closing_) return;
  SpeedMeter meter;
  const auto measure = [&](core::Snapshot& s) {
    const engine::Usage &prompt = m.session.prompt_usage(), &generation = m.session.generation_usage();
    s.speed.prompt_tokens = prompt.tokens;
    s.speed.prompt_tokens_per_s = prompt.tokens_per_second();
    s.speed.answer_tokens = generation.tokens;
    s.kv.tokens = std::ssize(m.session.tokens());
    s.kv.bytes = s.kv.capacity_bytes * static_cast<double>(s.kv.tokens) / static_cast<double>(s.kv.context);
    if (!meter.update(generation)) return;
    s.speed.tokens_per_s = meter.recent().tokens_per_second();
    s.speed.bytes_per_s = meter.recent().bytes_per_second();
    if (s.speed.history.size() >= kHistory) s.speed.history.erase(s.speed.history.begin());
    s.speed.history.push_back({seconds_before_ + generation.seconds, s.speed.tokens_per_s});
    s.step = step_shares(m.model, s.kv.tokens);
  };
  change([&](core::Snapshot& s) {
    s.messages.push_back({});
    s.state = EngineState::reading;
    s.activity = "reading the prompt";
  });
  try {
    engine::Answerer answerer(m.model, m.session, setup_.sampling);
    answerer.keep_choices(state_.keep_choices);
    engine::Answer answer = m.conversation.answer(
        answerer,
        [&](std::string_view text, bool reasoning) {
          change(
              [&](core::Snapshot& s) {
                s.state = EngineState::writing;
                s.activity = "writing";
                (reasoning ? s.messages.back().reasoning : s.messages.back().text) += text;
                measure(s);
              },
              Publish::soon);
        },
        &cancel_);
    const engine::Usage& whole = m.session.generation_usage();
    change([&](core::Snapshot& s) {
      measure(s);
      if (whole.seconds > 0) { // of the whole answer, as ridge bench counts it
        s.speed.tokens_per_s = whole.tokens_per_second();
        s.speed.bytes_per_s = whole.bytes_per_second();
      }
      s.messages.back().note = ending(answer.stop, setup_.sampling.max_tokens);
      if (!answer.choices.empty())
        s.messages.back().choices = std::make_shared<const std::vector<core::TokenChoice>>(std::move(answer.choices));
      s.step = step_shares(m.model, s.kv.tokens);
    });
    seconds_before_ += whole.seconds;
  } catch (...) {
    m.conversation.set_messages(before.messages, "conversation");
    change([&](core::Snapshot& s) { s.messages = before.shown; });
    abandon_conversation();
    throw;
  }
  if (!told_deleted_ && m.model.file.deleted()) {
    told_deleted_ = true;
    fail(fmt::format("{} was deleted or replaced; what is open stays usable until another model is", path_));
  }
  save_conversation();
  const double step_seconds =
      m.session.generation_usage().tokens > 0 ? 1 / m.session.generation_usage().tokens_per_second() : kCheapProfile;
  if (2 * kQuickRepetitions * step_seconds < kCheapProfile && m.session.held() < m.session.context())
    profile_here(kQuickRepetitions);
}

void GuiEngine::study(const core::Intent& wanted) {
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
