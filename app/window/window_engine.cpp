#include "app/window/window_engine.h"

#include "app/models/encoders.h"
#include "app/window/gauges.h"
#include "app/window/loaded.h"
#include "app/window/model_facts.h"
#include "app/window/presets.h"
#include "app/window/recent_files.h"
#include "core/error.h"
#include "core/rings.h"
#include "engine/options.h"
#include "engine/sampling_defaults.h"
#include "engine/speculation/speculation.h"
#include "models/guide.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

namespace ridge::app {

namespace intent = api::intent;
using api::EngineState;

namespace {

gguf::File open_file(const std::string& path) { return path.empty() ? models::open_guide() : gguf::File::open(path); }

std::vector<api::AdapterOption> adapters_to_serve(const std::vector<api::AdapterRow>& rows) {
  std::vector<api::AdapterOption> adapters;
  for (const api::AdapterRow& row : rows) adapters.push_back({row.path, row.on ? row.scale : 0});
  return adapters;
}

// Files of one model do not belong to others.
api::ModelOptions without_files(api::ModelOptions options) {
  options.mmproj.clear();
  options.adapters.clear();
  return options;
}

template <class... Handlers>
struct Match : Handlers... {
  using Handlers::operator()...;
};

} // namespace

WindowEngine::WindowEngine(WindowSetup setup, std::function<void()> wake)
    : setup_(std::move(setup)), requested_sampling_(setup_.request.sampling), store_(setup_.conversation_folder),
      board_(std::move(wake)), tools_(setup_.mcp, board_, cancel_), lists_(board_, without_files(setup_.model), [this] {
        return loaded_ && loaded_->device == engine::Device::cuda;
      }) {
  const std::string given = std::exchange(setup_.model.mmproj, {});
  adapters_[setup_.model.model] = std::exchange(setup_.model.adapters, {});
  change([&](api::Snapshot& s) {
    s.system_prompt = setup_.request.system;
    s.sampling = setup_.request.sampling.params;
    s.max_tokens = setup_.request.sampling.max_tokens;
    s.job_choices = std::make_shared<api::JobChoices>(job_choices());
    s.jobs = std::make_shared<std::vector<api::Job>>();
    s.serving = std::make_shared<api::Serving>();
    s.sequences = std::make_shared<api::Sequences>();
    s.picture_facts = std::make_shared<api::PictureFactsByKey>();
    s.recent = recent_files();
    s.options = setup_.model;
    list_conversations(s);
    s.no_microphone = media::Microphone::problem();
  });
  try {
    auto presets = read_presets(setup_.preset_file);
    change([&](api::Snapshot& s) { s.presets = std::move(presets); });
  } catch (const Error& error) {
    setup_.preset_file.clear();
    fail(fmt::format("{}; presets are not saved", error.what()));
  }
  if (!store_.problem().empty()) fail(store_.problem());
  gauges_ = std::make_unique<Gauges>(
      board_, [this] { return loaded_; },
      [this] {
        if (snapshot()->models) lists_.ask_list(); // the list then has speeds
      });
  jobs_ = std::make_unique<JobQueue>(
      [this](JobQueue::Jobs jobs) { change([&](api::Snapshot& s) { s.jobs = std::move(jobs); }); }, setup_.model.device,
      setup_.model.threads);
  server_ = std::make_unique<WindowServer>(
      server::ModelSetup{setup_.model, setup_.request.sampling, setup_.request.chat_template, setup_.prefixes},
      [this](auto serving) { change([&](api::Snapshot& s) { s.serving = std::move(serving); }); });
  push([this, given] { load(setup_.model.model, given); });
  if (!tools_.empty())
    push([this] {
      cancel_ = false;
      if (!closing_) tools_.start(loaded_ ? &loaded_->conversation : nullptr);
    });
  if (setup_.model.model.empty()) lists_.ask_first_models();
}

WindowEngine::~WindowEngine() {
  gauges_->stop();
  closing_ = true; // first: a starting answer checks it after lowering cancel_
  stop_answer();
  ++studies_waiting_; // stops the running study
  jobs_.reset();
  server_.reset();
  lists_.stop();
  for (Worker* worker : {&worker_, &study_worker_, &query_worker_, &picture_worker_, &encoder_worker_})
    worker->stop(); // first: it may wait for the picture worker
}

void WindowEngine::stop_answer() {
  cancel_ = true;
  tools_.wake();
}

void WindowEngine::run(const std::function<void()>& work) {
  board_.guarded(work);
  change([&](api::Snapshot& s) {
    s.state = s.model ? EngineState::idle : EngineState::failed;
    s.activity.clear();
  });
}

void WindowEngine::send(api::Intent intent) {
  if (std::holds_alternative<intent::Stop>(intent)) {
    stop_answer();
  } else if (const auto* decision = std::get_if<intent::AnswerTool>(&intent)) {
    tools_.decide(*decision);
  } else if (std::holds_alternative<intent::StudyTensor>(intent)) {
    ++studies_waiting_;
    push(study_worker_, [this, what = std::move(intent)] {
      --studies_waiting_;
      study(what);
    });
  } else if (std::holds_alternative<intent::ListModels>(intent)) {
    lists_.ask_list();
  } else if (const auto* fit = std::get_if<intent::FitModel>(&intent)) {
    lists_.ask_fit(*fit);
  } else if (auto* job = std::get_if<intent::StartJob>(&intent)) {
    jobs_->start(std::move(job->request));
  } else if (const auto* unwanted = std::get_if<intent::CancelJob>(&intent)) {
    jobs_->cancel(unwanted->id);
  } else if (const auto* old = std::get_if<intent::ForgetJob>(&intent)) {
    jobs_->forget(old->id);
  } else if (const auto* server = std::get_if<intent::StartServer>(&intent)) {
    const std::shared_ptr<const api::Snapshot> now = snapshot();
    if (now->model)
      server_->start(*server, now->model->built_in ? "" : now->model->path, now->encoder_open ? now->encoder : "",
                     adapters_to_serve(now->adapters));
  } else if (std::holds_alternative<intent::StopServer>(intent)) {
    server_->stop();
  } else if (std::holds_alternative<intent::Tokenize>(intent) || std::holds_alternative<intent::StudyBlock>(intent) ||
             std::holds_alternative<intent::StudySlice>(intent) ||
             std::holds_alternative<intent::PredictStep>(intent)) {
    push(query_worker_, [this, what = std::move(intent)] { study(what); });
  } else if (const auto* added = std::get_if<intent::AddPicture>(&intent)) {
    push(picture_worker_, [this, wanted = *added] { add_picture(wanted); });
  } else if (const auto* removed = std::get_if<intent::RemovePicture>(&intent)) {
    remove_picture(removed->key);
  } else if (const auto* edited = std::get_if<intent::EditPictures>(&intent)) {
    edit_pictures(edited->message);
  } else if (const auto* large = std::get_if<intent::EnlargePicture>(&intent)) {
    push(query_worker_, [this, key = large->key] { enlarge_picture(key); });
  } else if (const auto* listens = std::get_if<intent::Listen>(&intent)) {
    board_.guarded([&] { listen(listens->on); });
  } else if (std::holds_alternative<intent::Send>(intent) || std::holds_alternative<intent::EditAndResend>(intent)) {
    const auto added = std::make_shared<std::promise<void>>();
    picture_worker_.push([added] { added->set_value(); });
    push([this, added, what = std::move(intent)] {
      added->get_future().wait();
      handle(what);
    });
  } else {
    push([this, what = std::move(intent)] { handle(what); });
  }
}

void WindowEngine::handle(const api::Intent& wanted) {
  if (const auto* open = std::get_if<intent::OpenModel>(&wanted)) return open_with(*open);
  if (std::holds_alternative<intent::UseCpu>(wanted)) {
    setup_.model.device = "cpu";
    return reopen();
  }
  if (!loaded_) return; // reported already
  std::visit(
      Match{
          [&](const intent::Send& send) { send_message(send.text); },
          [&](const intent::EditAndResend& e) { edit(e.message, e.text); },
          [&](const intent::Regenerate& again) { regenerate(again); },
          [&](const intent::ShowVersion& version) { show_version(version); },
          [&](const intent::EditAnswer& edited) { edit_answer(edited); },
          [&](const intent::SearchConversations& search) { search_conversations(search.text); },
          [&](const intent::ExportConversation& wish) { export_conversation(wish.path); },
          [&](const intent::SavePreset& preset) { save_preset(preset.name); },
          [&](const intent::UsePreset& preset) { use_preset(preset.name); },
          [&](const intent::DeletePreset& preset) { delete_preset(preset.name); },
          [&](const intent::NewConversation&) { open_conversation(""); },
          [&](const intent::OpenConversation& open) { open_conversation(open.id); },
          [&](const intent::RenameConversation& r) { rename_conversation(r.id, r.title); },
          [&](const intent::DeleteConversation& d) { delete_conversation(d.id); },
          [&](const intent::SetSystemPrompt& system) { set_system(system.text); },
          [&](const intent::KeepChoices& choices) { change([&](api::Snapshot& s) { s.keep_choices = choices.keep; }); },
          [&](const intent::MeasureRoofs&) { gauges_->measure_roofs(*loaded_); },
          [&](const intent::MeasureStep& step) {
            cancel_ = false;
            gauges_->measure_step(*loaded_, step.past, cancel_);
          },
          [&](const intent::SetSampling& sampling) { set_sampling(sampling); },
          [&](const intent::Compact&) { compact(); },
          [&](const intent::AddAdapter& added) { add_adapter(added.path); },
          [&](const intent::RemoveAdapter& removed) { remove_adapter(removed.number); },
          [&](const intent::ScaleAdapter& scaled) { scale_adapter(scaled); },
          [](const auto&) {},
      },
      wanted);
}

// Options changed by the user stay for other models.
void WindowEngine::set_sampling(const intent::SetSampling& wanted) {
  core::validate(wanted.params);
  api::SamplingOptions& sampling = setup_.request.sampling;
  api::SamplingOptions changed = sampling;
  changed.params = wanted.params;
  changed.max_tokens = wanted.max_tokens;
  for (const engine::SamplingSetting& setting : engine::sampling_settings()) {
    const std::string value = setting.get(changed);
    if (value == setting.get(sampling)) continue;
    setting.set(requested_sampling_, value);
    if (std::ranges::find(requested_sampling_.chosen, setting.name) == requested_sampling_.chosen.end())
      requested_sampling_.chosen.emplace_back(setting.name);
  }
  sampling = changed;
  change([&](api::Snapshot& s) {
    s.sampling = wanted.params;
    s.max_tokens = wanted.max_tokens;
  });
}

static std::string encoder_beside(const std::string& model, const engine::Notice& tell) {
  try {
    return find_encoder(model);
  } catch (const Error& error) {
    tell(error.what());
    return {};
  }
}

void WindowEngine::load(const std::string& path, const std::string& encoder) {
  gguf::File file = open_file(path);
  if (loaded_ && file.get_string("general.architecture", "") == "clip")
    return open_model(path_, open_file(path_), path, true);
  if (loaded_ && file.get_string("general.type", "") == "adapter") return add_adapter(path);
  const bool found = encoder.empty() && !path.empty();
  open_model(path, std::move(file),
             found ? encoder_beside(path, [this](const std::string& line) { tell(line); }) : encoder, !encoder.empty());
}

void WindowEngine::reopen() { open_model(path_, open_file(path_), encoder_, loaded_ && loaded_->model.pictures); }

// Settings are discarded if opening fails.
void WindowEngine::open_with(const intent::OpenModel& wanted) {
  const api::ModelOptions before = setup_.model;
  if (wanted.options) setup_.model = with_settings(setup_.model, *wanted.options);
  try {
    engine::check_speculation(setup_.model);
    load(wanted.path);
  } catch (...) {
    setup_.model = before;
    throw;
  }
  change([&](api::Snapshot& s) { s.options = setup_.model; });
}

void WindowEngine::open_model(const std::string& path, gguf::File file, const std::string& encoder, bool with_encoder) {
  const std::string name = path.empty() ? "the built-in guide" : path;
  change([&](api::Snapshot& s) {
    s.state = EngineState::loading;
    s.activity = fmt::format("opening {}", with_encoder ? encoder : name);
    s.notices.clear();
  });
  const engine::LoadSteps steps = {
      [this](std::string_view what, int64_t done, int64_t total) {
        if (total <= 0) return;
        change([&](api::Snapshot& s) { s.activity = fmt::format("{} {} %", what, 100 * done / total); },
               Board::Publish::soon);
      },
      [this](const std::string& line) { tell(line); }};
  WindowSetup setup = setup_;
  if (const auto known = adapters_.find(path); known != adapters_.end()) setup.model.adapters = known->second;
  if (with_encoder) setup.model.mmproj = encoder;
  auto loaded = std::make_shared<Loaded>(engine::open_generating(std::move(file), setup.model), setup, steps);
  loaded->model.need_tokenizer();
  continue_conversation(*loaded);
  tools_.offer(loaded->conversation, steps.note);
  auto facts = std::make_shared<api::ModelFacts>(model_facts(loaded->model));
  facts->built_in = path.empty();
  api::SamplingOptions sampling = requested_sampling_;
  engine::take_model_defaults(sampling, loaded->model.file, steps.note);
  if (facts->built_in) facts->label = "the guide";
  const auto vocabulary = std::make_shared<const std::vector<std::string>>(display_vocabulary(loaded->model));
  const double roof = Gauges::known_roof(*loaded);
  const core::ExecutorConfig& config = loaded->model.executor->config();
  seconds_before_ = 0;
  path_ = path;
  encoder_ = encoder;
  deletion_reported_ = false;
  tree_.forget_choices();
  setup_.request.sampling = sampling;
  auto previous = loaded; // destroyed after the lock, for which the window waits
  change([&](api::Snapshot& s) {
    loaded_.swap(previous);
    s.gpu_failed = false;
    s.sampling = sampling.params;
    s.model = facts;
    s.adapters = rows_of_adapters(*loaded_);
    s.vocabulary = vocabulary;
    s.keep_choices = loaded->device == engine::Device::cpu;
    for (api::ChatMessage& message : s.messages) message.choices = nullptr; // the vocabulary may differ
    auto pictures = std::make_shared<api::PictureFactsByKey>(*s.picture_facts);
    for (auto& [key, known] : *pictures) known.tokens = known.seconds = 0; // the encoder may differ
    s.picture_facts = std::move(pictures);
    s.encoder = encoder;
    s.encoder_open = with_encoder;
    s.speed = {};
    s.speed.roof_bytes_per_s = roof;
    s.kv = {0, loaded->session.context(), 0, core::kv_cache_bytes(loaded->model.program, config, config.context)};
    s.step = step_shares(loaded->model, 0);
    s.sequences = sequences_of(*loaded);
    s.engine_bytes = loaded->model.executor->memory_bytes();
    s.tokenized = nullptr;
    gauges_->take(s, *loaded);
    s.predicted = s.measured = nullptr;
    s.tensor = nullptr;
    s.block = nullptr;
    s.slice = nullptr;
  });
  read_missing_picture_facts();
  if (roof <= 0) gauges_->measure_roof_when_idle();
  if (path.empty() || !setup_.remember_files) return;
  remember_file(path);
  change([](api::Snapshot& s) { s.recent = recent_files(); });
}

void WindowEngine::study(const api::Intent& wanted) {
  const std::shared_ptr<Loaded> loaded = board_.look([&](const api::Snapshot&) { return loaded_; });
  if (!loaded) return;
  const gguf::File& file = loaded->model.file;
  const auto show = [&](auto part, auto found) { // unless another model was opened meanwhile
    change([&](api::Snapshot& s) {
      if (loaded_ == loaded) s.*part = std::make_shared<decltype(found)>(std::move(found));
    });
  };
  if (const auto* text = std::get_if<intent::Tokenize>(&wanted)) {
    show(&api::Snapshot::tokenized, tokenize_for_display(loaded->model, text->text));
  } else if (const auto* step = std::get_if<intent::PredictStep>(&wanted)) {
    if (const auto predicted = gauges_->predict(*loaded, *step)) show(&api::Snapshot::predicted, *predicted);
  } else if (const auto* tensor = std::get_if<intent::StudyTensor>(&wanted)) {
    study_tensor(file, tensor->tensor, [&](const api::TensorStudy& study) {
      show(&api::Snapshot::tensor, study);
      return studies_waiting_ == 0;
    });
  } else if (const auto* block = std::get_if<intent::StudyBlock>(&wanted)) {
    show(&api::Snapshot::block, study_block(file, *block));
  } else if (const auto* piece = std::get_if<intent::StudySlice>(&wanted)) {
    show(&api::Snapshot::slice, study_slice(file, *piece));
  }
}

} // namespace ridge::app
