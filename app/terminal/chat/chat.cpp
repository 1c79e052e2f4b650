#include "app/terminal/chat/chat.h"

#include "app/terminal/canvas_view.h"
#include "app/terminal/pictures.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "app/terminal/typed_pictures.h"
#include "core/error.h"
#include "core/strings/lower.h"
#include "core/strings/printable.h"
#include "media/medium.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::app {
namespace {

constexpr double kNearlyFull = 0.8; // share of the context that gives a warning
constexpr int64_t kAnswerShare = 4; // context shift keeps 1/4 free for the answer

} // namespace

std::string Chat::trim(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

Chat::Chat(ChatModel& model, Toolbox& toolbox, api::GenerateRequest& request, Options options, InterruptFlag& interrupt)
    : model_(model), toolbox_(toolbox), request_(request), options_(options), interrupt_(interrupt) {}

bool Chat::take(const std::string& message, bool typed) {
  try {
    const std::string line = trim(message);
    if (typed && calls_.empty() && !find_command(line) && take_typed_pictures(line)) return true;
    if (line.starts_with('/')) {
      run_command(line);
    } else if (!calls_.empty()) {
      toolbox_.find(calls_.front().name) ? decide(line) : give_result(message);
      process_pending_calls();
    } else if (!line.empty()) {
      send_message(message);
    }
  } catch (const OutputError&) {
    throw;
  } catch (const Error& error) {
    failed_ = true;
    write_stderr(fmt::format("ridge: error: {}\n", error.what()));
  }
  return !leaving_;
}

// Pictures alone join the next message. Among words they replace their paths, unless the model takes none. Returns
// false if there are none.
bool Chat::take_typed_pictures(const std::string& line) {
  const std::vector<TypedPicture> found = typed_pictures(line);
  if (found.empty()) return false;
  const auto with_instead = [&](const std::vector<std::string>& texts) {
    std::string text = line;
    for (size_t i = found.size(); i-- > 0;) text.replace(found[i].begin, found[i].end - found[i].begin, texts[i]);
    return text;
  };
  std::vector<std::string> marks(found.size());
  const bool alone = trim(with_instead(marks)).empty();
  try {
    model_.take_pictures();
  } catch (const Error& error) {
    if (alone) throw;
    note(fmt::format("[{} is sent as text: {}]", core::printable(found[0].path, 300), error.what()));
    send_message(line);
    return true;
  }
  for (size_t i = 0; i < found.size(); ++i) marks[i] = add_picture_file(found[i].path);
  if (!alone) {
    send_message(with_instead(marks));
    return true;
  }
  for (const std::string& mark : marks) pictures_ += mark;
  note("[will be sent with your next message]");
  return true;
}

std::string Chat::add_picture_file(const std::string& path) {
  std::string file = media::read_medium_file(path);
  const std::string mark = add_picture(model_.loaded(), conversation(), file, path);
  picture_files_[mark] = std::move(file);
  return mark;
}

void Chat::send_message(std::string text) {
  text = pictures_ + text;
  if (!make_room(text)) return;
  const Json before = conversation().messages();
  request_.prompt = std::move(text);
  conversation().add_user(request_.prompt);
  answer(before);
  pictures_.clear();
  process_pending_calls();
}

void Chat::give_result(std::string text) {
  const Json before = conversation().messages();
  const std::deque<text::ToolCall> waiting = calls_;
  const text::ToolCall call = calls_.front();
  calls_.pop_front();
  conversation().add_result(call, std::move(text));
  if (!calls_.empty()) return;
  try {
    answer(before);
  } catch (...) {
    calls_ = waiting;
    throw;
  }
}

void Chat::decide(const std::string& word) {
  const std::string answer = core::lower(word);
  if (answer == "a" || answer == "always") allowed_.insert(calls_.front().name);
  if (answer == "y" || answer == "yes" || answer == "a" || answer == "always") return call_tool();
  if (answer == "n" || answer == "no") give_result(kDeclined);
}

void Chat::call_tool() {
  std::string result;
  try {
    result =
        toolbox_.call(calls_.front(), model_.loaded().need_tokenizer(), session().context(), note, interrupt_.flag());
    if (toolbox_.renew(note, interrupt_.flag())) model_.offer_tools();
  } catch (const McpClient::Cancelled&) {
    interrupt_.lower();
    while (!calls_.empty()) {
      conversation().add_result(calls_.front(), kStopped);
      calls_.pop_front();
    }
    return note("[stopped]");
  }
  note(fmt::format("[{}: {} bytes]", core::printable(calls_.front().name), result.size()));
  give_result(std::move(result));
}

void Chat::process_pending_calls() {
  while (!calls_.empty()) {
    const text::ToolCall& call = calls_.front();
    const Toolbox::Tool* tool = toolbox_.find(call.name);
    if (!tool)
      return note(
          fmt::format("[enter the result of {}({}) on one line, empty if there is none; /undo takes the question back]",
                      call.name, core::printable(call.arguments, 600)));
    if (!allowed_.contains(call.name))
      return note(fmt::format("[allow {}? y: yes, n: no, a: always in this chat]", call_line(*tool, call.arguments)));
    call_tool();
  }
}

// Announces a context shift, or refuses the message.
bool Chat::make_room(const std::string& text) {
  const int64_t context = session().context();
  int64_t needed = conversation().tokens_with(text);
  int forgotten = 0;
  while (options_.context_shift && needed > context - context / kAnswerShare && conversation().drop_oldest()) {
    ++forgotten;
    needed = conversation().tokens_with(text);
  }
  if (forgotten > 0)
    note(fmt::format("[context shift: the {} oldest exchange{} dropped]", forgotten,
                     forgotten == 1 ? " was" : "s were"));
  if (needed >= context && !options_.context_shift) refused_ = text;
  if (needed >= context)
    throw_error("the conversation would need {} tokens, the context holds {}: {}shorten the message, use /undo, /clear "
                "or /compact, or raise /set ctx-size",
                needed, context,
                options_.context_shift ? "" : "/shift drops the oldest exchanges and sends the message again; or ");
  refused_.clear();
  if (!options_.context_shift && !warned_full_ &&
      static_cast<double>(needed) > kNearlyFull * static_cast<double>(context)) {
    warned_full_ = true;
    note(fmt::format("[context nearly full: {} of {} tokens; answers stop when it is full. /compact replaces the "
                     "conversation with a summary, /clear empties it, /shift drops the oldest exchanges]",
                     needed, context));
  }
  return true;
}

void Chat::generate(const Json& before, const std::function<void(const engine::TextSink& print)>& work) {
  TextPrinter printer(options_.markdown);
  try {
    work([&](std::string_view text, bool reasoning) { printer.print(text, reasoning); });
  } catch (...) {
    interrupt_.lower();
    printer.finish();
    conversation().set_messages(before, "conversation");
    throw;
  }
  interrupt_.lower();
  printer.finish();
  total_prompt_ += session().prompt_usage();
  total_generation_ += session().generation_usage();
  total_guesses_ += session().guesses();
}

void Chat::answer(const Json& before) {
  engine::Answer answer;
  generate(before, [&](const engine::TextSink& print) {
    CanvasView view(model_.loaded(), model_.answerer());
    const engine::TextSink keep = [&](std::string_view text, bool reasoning) { view.keep(text, reasoning); };
    answer = conversation().answer(model_.answerer(), view.on() ? keep : print, interrupt_.flag());
    view.print_kept(print);
  });
  show_status(answer);
  calls_.assign(answer.calls.begin(), answer.calls.end());
}

void Chat::show_status(const engine::Answer& answer) const {
  for (const std::string& miss : answer.schema_misses) note(fmt::format("[{}]", miss));
  if (answer.stop == engine::StopReason::interrupted) note("[stopped]");
  if (answer.stop == engine::StopReason::context_full)
    note("[the context is full: the answer was cut off; /compact replaces the conversation with a summary, /shift "
         "drops the oldest exchanges, /clear drops all]");
  if (!stderr_is_terminal()) return;
  const engine::Usage &prompt = session().prompt_usage(), &generation = session().generation_usage();
  if (answer.steps > 0)
    return note(fmt::format("[prompt {} · answer {} tokens in {} steps, {:.1f}/s, {:.1f} GB/s · context {} of {}]",
                            prompt.tokens, generation.tokens, answer.steps, generation.tokens_per_second(),
                            generation.bytes_per_second() / 1e9, context_used(), session().context()));
  note(fmt::format("[prompt {}, {:.0f}/s · answer {} tokens, {:.1f}/s, {:.1f} GB/s · context {} of {}]", prompt.tokens,
                   prompt.tokens_per_second(), generation.tokens, generation.tokens_per_second(),
                   generation.bytes_per_second() / 1e9, context_used(), session().context()));
}

// An answer's last token is not evaluated.
int64_t Chat::context_used() const { return std::min<int64_t>(std::ssize(session().tokens()), session().context()); }

} // namespace ridge::app
