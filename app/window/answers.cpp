// Sending, editing and regenerating messages in the window's engine.
#include "app/window/gauges.h"
#include "app/window/loaded.h"
#include "app/window/model_facts.h"
#include "core/error.h"
#include "engine/diffusion/canvas.h"
#include "engine/diffusion/canvas_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace ridge::app {

using api::EngineState;

namespace {

constexpr double kSampleSeconds = 0.05; // seconds of generation between two points of the speed history
constexpr size_t kHistory = 600;        // points
constexpr double kCheapProfile = 0.1;   // longest step, in seconds, that is profiled after an answer

api::AnswerFacts facts_of(const engine::Session& session, const std::string& model) {
  const engine::Usage &prompt = session.prompt_usage(), &generation = session.generation_usage();
  return {model, prompt.tokens, generation.tokens, prompt.seconds, generation.seconds, generation.bytes_per_second()};
}

std::string ending(const engine::Answer& answer, int64_t max_tokens) {
  switch (answer.stop) {
  case engine::StopReason::interrupted: return "stopped";
  case engine::StopReason::context_full: return "cut off: the context is full";
  case engine::StopReason::limit: return fmt::format("cut off after {} tokens", max_tokens);
  default: return answer.schema_misses.empty() ? "" : answer.schema_misses.front();
  }
}

} // namespace

class WindowEngine::SpeedMeter {
 public:
  // Returns true if there is a new sample.
  bool update(const engine::Usage& usage) {
    if (usage.seconds - last_.seconds < kSampleSeconds) return false;
    recent_ = {std::max<int64_t>(0, usage.tokens - last_.tokens), usage.seconds - last_.seconds,
               usage.bytes - last_.bytes};
    last_ = usage;
    return true;
  }
  const engine::Usage& recent() const { return recent_; }

 private:
  engine::Usage last_, recent_;
};

WindowEngine::Messages WindowEngine::messages() const {
  return board_.look([&](const api::Snapshot& s) { return Messages{s.messages, tree_, s.pictures}; });
}

void WindowEngine::need_encoder(std::span<const api::ChatMessage> kept, const api::MessagePictures& sent) {
  bool pictures = !sent.empty();
  for (const api::ChatMessage& message : kept) pictures |= !message.pictures.empty();
  if (pictures) open_encoder();
}

void WindowEngine::send_message(const std::string& text) {
  const Messages before = messages();
  need_encoder(before.shown, before.unsent);
  append_and_answer(text, before);
}

void WindowEngine::append_and_answer(const std::string& text, const Messages& before) {
  const api::ChatMessage message = {true, text, "", "", nullptr, before.unsent};
  begin_conversation(message);
  tree_.add(message, {{"role", "user"}, {"content", text}});
  change([&](api::Snapshot& s) {
    s.messages = tree_.shown();
    std::erase_if(s.pictures, [&](const auto& picture) { return std::ranges::count(before.unsent, picture) > 0; });
  });
  setup_.request.prompt = text;
  loaded_->conversation.add_user(text);
  answer(before);
}

void WindowEngine::regenerate(const api::intent::Regenerate& wanted) {
  const size_t length = tree_.size();
  const size_t last = length > 0 && !tree_.at(length - 1).shown.user ? length - 1 : length;
  size_t number = std::min(wanted.message.value_or(last), length);
  while (number > 0 && !tree_.at(number - 1).shown.user) --number; // skip the results of tool calls
  if (number == 0) return;
  if (wanted.model && *wanted.model != path_) load(*wanted.model);
  Messages before = messages();
  before.unsent.clear(); // not sent, so a failure must not restore them
  need_encoder(before.shown, {});
  tree_.cut(number);
  show_path();
  answer(before);
}

void WindowEngine::edit(size_t message, const std::string& text) {
  const Messages before = messages();
  need_encoder(std::span(before.shown).first(std::min(message, before.shown.size())), before.unsent);
  tree_.cut(message);
  show_path();
  append_and_answer(text, before);
}

// Runs on the worker, which drives the session.
std::shared_ptr<const api::Sequences> WindowEngine::sequences_of(const Loaded& loaded) {
  return std::make_shared<api::Sequences>(with_texts(loaded.model, loaded.session.scheduler().sequences()));
}

void WindowEngine::show_speed(api::Snapshot& s, SpeedMeter& meter, const engine::Usage& generation) const {
  const Loaded& m = *loaded_;
  const engine::Usage& prompt = m.session.prompt_usage();
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
  s.sequences = sequences_of(m);
}

engine::TextSink WindowEngine::shown_while_written(SpeedMeter& meter) {
  return [this, &meter](std::string_view text, bool reasoning) {
    change(
        [&](api::Snapshot& s) {
          s.state = EngineState::writing;
          s.activity = "writing";
          (reasoning ? s.messages.back().reasoning : s.messages.back().text) += text;
          // Places of an answer that forms count when they are decided.
          if (s.messages.back().forming.empty()) show_speed(s, meter, loaded_->session.generation_usage());
        },
        Board::Publish::soon);
  };
}

std::function<void(std::span<const int32_t>)> WindowEngine::shown_while_forming(SpeedMeter& meter) {
  const int32_t mask = engine::diffusion_of(loaded_->model.file, {}).mask;
  return [this, &meter, mask](std::span<const int32_t> places) {
    const bool begins = state().messages.back().forming.empty();
    change(
        [&](api::Snapshot& s) {
          s.state = EngineState::writing;
          s.activity = "writing";
          s.messages.back().forming = engine::canvas_text(loaded_->model.need_tokenizer(), mask, places);
          engine::Usage usage = loaded_->session.generation_usage();
          usage.tokens = std::ssize(places) - std::ranges::count(places, mask);
          show_speed(s, meter, usage);
        },
        begins ? Board::Publish::now : Board::Publish::soon);
  };
}

std::vector<text::ToolCall> WindowEngine::write_answer() {
  Loaded& m = *loaded_;
  SpeedMeter meter;
  change([&](api::Snapshot& s) {
    s.messages.push_back({});
    s.state = EngineState::reading;
    s.activity = "reading the prompt";
  });
  const EncodedPictures held = put_pictures();
  engine::Answerer answerer(m.model, m.session, request_with_adapters());
  if (core::sees_ahead(m.model.program)) answerer.on_canvas = shown_while_forming(meter);
  engine::Answer answer = m.conversation.answer(answerer, shown_while_written(meter), &cancel_);
  const engine::Usage& whole = m.session.generation_usage();
  change([&](api::Snapshot& s) {
    show_speed(s, meter, whole);
    if (whole.seconds > 0) { // over the whole answer, as ridge bench counts
      s.speed.tokens_per_s = whole.tokens_per_second();
      s.speed.bytes_per_s = whole.bytes_per_second();
    }
    api::ChatMessage& written = s.messages.back();
    written.forming.clear();
    if (!answer.calls.empty()) written.text = answer.content; // shown with their results
    written.note = ending(answer, setup_.request.sampling.max_tokens);
    if (!answer.choices.empty())
      written.choices = std::make_shared<const std::vector<core::TokenChoice>>(std::move(answer.choices));
    written.facts = facts_of(m.session, s.model->label);
    tree_.add(written, m.conversation.messages().back());
    s.messages = tree_.shown();
    s.step = step_shares(m.model, s.kv.tokens);
    s.sequences = sequences_of(m);
  });
  seconds_before_ += whole.seconds;
  return std::move(answer.calls);
}

void WindowEngine::answer(const Messages& before) {
  cancel_ = false;
  if (closing_) return;
  try {
    while (true) {
      const std::vector<text::ToolCall> calls = write_answer();
      for (const text::ToolCall& call : calls) {
        api::ChatMessage shown = tools_.call(call, loaded_->model, loaded_->conversation, loaded_->session.context());
        loaded_->conversation.add_result(call, shown.text);
        tree_.add(std::move(shown), loaded_->conversation.messages().back());
        change([&](api::Snapshot& s) { s.messages = tree_.shown(); });
      }
      if (calls.empty() || cancel_) break;
    }
  } catch (...) {
    tree_ = before.tree;
    show_path();
    change(
        [&](api::Snapshot& s) { s.pictures.insert(s.pictures.begin(), before.unsent.begin(), before.unsent.end()); });
    read_missing_picture_facts();
    abandon_conversation();
    throw;
  }
  const Loaded& m = *loaded_;
  if (!deletion_reported_ && m.model.file.deleted()) {
    deletion_reported_ = true;
    fail(fmt::format("{} was deleted or replaced; the open model stays usable until you open another", path_));
  }
  save_conversation();
  const double step_seconds =
      m.session.generation_usage().tokens > 0 ? 1 / m.session.generation_usage().tokens_per_second() : kCheapProfile;
  if (2 * Gauges::kQuickRepetitions * step_seconds < kCheapProfile &&
      std::ssize(m.session.cached()) < m.session.context())
    gauges_->profile(m, Gauges::kQuickRepetitions);
}

// The summary is another version of the first message, so that the messages before it can be shown again.
void WindowEngine::compact() {
  if (tree_.size() == 0) throw_error("there is no conversation to summarize");
  need_encoder(messages().shown, {});
  cancel_ = false;
  if (closing_) return;
  Loaded& m = *loaded_;
  SpeedMeter meter;
  change([&](api::Snapshot& s) {
    s.messages.push_back({});
    s.state = EngineState::reading;
    s.activity = "reading the conversation";
  });
  engine::Conversation::Compaction made;
  try {
    const EncodedPictures held = put_pictures();
    engine::Answerer answerer(m.model, m.session, request_with_adapters());
    made = m.conversation.compact(answerer, "", shown_while_written(meter), &cancel_);
  } catch (...) {
    show_path();
    if (cancel_) return; // stopped
    throw;
  }
  Json summary = m.conversation.messages().back();
  tree_.cut(0);
  auto text = summary["content"].get<std::string>();
  tree_.add({true, std::move(text)}, std::move(summary));
  show_path();
  if (StoredConversation* stored = store_.find(state().conversation)) stored->named = true; // keeps its title
  save_conversation();
  show_context();
  seconds_before_ += m.session.generation_usage().seconds;
  if (made.left_out > 0)
    tell(fmt::format("the summary leaves out the {} oldest exchange{}, which did not fit", made.left_out,
                     made.left_out == 1 ? "" : "s"));
  if (made.answer.stop == engine::StopReason::limit)
    tell("the summary was cut off: it may use a quarter of the context");
}

} // namespace ridge::app
