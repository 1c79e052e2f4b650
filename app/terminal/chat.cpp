#include "app/terminal/chat.h"
#include "core/files/read_file.h"

#include "app/terminal/pictures.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "app/terminal/typed_pictures.h"
#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/private_folder.h"
#include "core/json/parse.h"
#include "core/strings/base64.h"
#include "core/strings/printable.h"
#include "engine/options.h"
#include "engine/pictures/message_pictures.h"
#include "engine/sampling_defaults.h"
#include "media/picture.h"
#include "text/json/kept_number.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace ridge::app {
namespace {

constexpr double kNearlyFull = 0.8; // of the context: above it, a warning is printed
constexpr int64_t kAnswerShare = 4; // context shift keeps 1/4 of the context free for the answer

std::string trim(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

} // namespace

struct Chat::Command {
  const char* name;
  const char* argument;
  const char* help;
  void (Chat::*run)(const std::string&);
};

const std::vector<Chat::Command>& Chat::commands() {
  static const std::vector<Command> list = {
      {"/help", "", "this list", &Chat::help},
      {"/clear", "", "forget the conversation, keep the system prompt", &Chat::clear},
      {"/regen", "", "answer the last message again", &Chat::regenerate},
      {"/undo", "", "take back the last message and its answer", &Chat::undo},
      {"/system", "TEXT", "set the system prompt; without TEXT: show it; `/system none` removes it", &Chat::system},
      {"/read", "FILE", "send a file's text as your message", &Chat::read},
      {"/image", "FILE", "show the model a picture, with your next message; or drop its file into the line",
       &Chat::image},
      {"/save", "FILE", "save the conversation (JSON messages as in the OpenAI API)", &Chat::save},
      {"/load", "FILE", "continue a saved conversation", &Chat::load},
      {"/set", "NAME VALUE", "change a sampling option, e.g. /set temp 0.7; alone: show them", &Chat::set},
      {"/stats", "", "tokens, speed and context so far", &Chat::stats},
      {"/exit", "", "leave (also Ctrl-D)", &Chat::exit},
  };
  return list;
}

Chat::Chat(ChatModel& model, core::GenerateRequest& request, bool context_shift, InterruptFlag& interrupt)
    : model_(model), request_(request), context_shift_(context_shift), interrupt_(interrupt) {}

bool Chat::take(const std::string& message, bool typed) {
  try {
    const std::string line = trim(message);
    if (typed && calls_.empty() && !find_command(line) && take_typed_pictures(line)) return true;
    if (line.starts_with('/')) {
      run_command(line);
    } else if (!calls_.empty()) {
      give_result(message);
    } else if (!line.empty()) {
      say(message);
    }
  } catch (const OutputError&) {
    throw;
  } catch (const Error& error) {
    failed_ = true;
    write_stderr(fmt::format("ridge: error: {}\n", error.what()));
  }
  return !leaving_;
}

const Chat::Command* Chat::find_command(const std::string& line) {
  const std::string name = line.substr(0, line.find_first_of(" \t\n"));
  for (const Command& command : commands())
    if (name == command.name || (name == "/quit" && command.run == &Chat::exit)) return &command;
  return nullptr;
}

void Chat::run_command(const std::string& line) {
  const size_t space = line.find_first_of(" \t\n");
  const Command* command = find_command(line);
  if (!command) throw_error("unknown command {}; /help lists them", line.substr(0, space));
  (this->*command->run)(space == std::string::npos ? "" : trim(line.substr(space)));
}

// Pictures alone wait for the next message, as behind /image; among words they stand where their paths were, or stay
// text where the model takes none. False: there are none.
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
    note(fmt::format("[{} stays text: {}]", core::printable(found[0].path, 300), error.what()));
    say(line);
    return true;
  }
  for (size_t i = 0; i < found.size(); ++i) marks[i] = add_picture_file(found[i].path);
  if (!alone) {
    say(with_instead(marks));
    return true;
  }
  for (const std::string& mark : marks) pictures_ += mark;
  note("[goes with your next message]");
  return true;
}

std::string Chat::add_picture_file(const std::string& path) {
  std::string file = media::read_picture_file(path);
  const std::string mark = add_picture(model_.loaded(), conversation(), file, path);
  picture_files_[mark] = std::move(file);
  return mark;
}

void Chat::say(std::string text) {
  text = pictures_ + text;
  if (!make_room(text)) return;
  const Json before = conversation().messages();
  request_.prompt = std::move(text);
  conversation().add_user(request_.prompt);
  answer(before);
  pictures_.clear();
}

void Chat::give_result(std::string text) {
  const Json before = conversation().messages();
  const text::ToolCall call = calls_.front();
  calls_.pop_front();
  conversation().add_result(call, std::move(text));
  if (calls_.empty()) return answer(before);
  ask_for_result();
}

void Chat::ask_for_result() const {
  const text::ToolCall& call = calls_.front();
  note(fmt::format("[the result of {}({})? A line of text, which may be empty; /undo takes the question back]",
                   call.name, call.arguments));
}

// Says what happens when the context is full before it happens: with context shift the oldest exchanges are forgotten,
// without it the message is refused.
bool Chat::make_room(const std::string& text) {
  const int64_t context = session().context();
  int64_t needed = conversation().tokens_with(text);
  int forgotten = 0;
  while (context_shift_ && needed > context - context / kAnswerShare && conversation().drop_oldest()) {
    ++forgotten;
    needed = conversation().tokens_with(text);
  }
  if (forgotten > 0)
    note(fmt::format("[context shift: the {} oldest exchange{} forgotten]", forgotten,
                     forgotten == 1 ? " is" : "s are"));
  if (needed >= context)
    throw_error("the conversation would have {} tokens, the context holds {}: shorten the message, /undo, /clear, or "
                "start with a "
                "larger -c{}",
                needed, context, context_shift_ ? "" : " or --context-shift");
  if (!context_shift_ && !warned_full_ && static_cast<double>(needed) > kNearlyFull * static_cast<double>(context)) {
    warned_full_ = true;
    note(fmt::format("[context nearly full: {} of {} tokens; when it is full, answers stop. /clear makes room]", needed,
                     context));
  }
  return true;
}

void Chat::answer(const Json& before) {
  TextPrinter printer;
  engine::Answer answer;
  try {
    answer = conversation().answer(
        model_.answerer(), [&](std::string_view text, bool reasoning) { printer.print(text, reasoning); },
        interrupt_.flag());
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
  show_status(answer);
  calls_.assign(answer.calls.begin(), answer.calls.end());
  if (!calls_.empty()) ask_for_result();
}

void Chat::show_status(const engine::Answer& answer) const {
  for (const std::string& miss : answer.schema_misses) note(fmt::format("[{}]", miss));
  if (answer.stop == engine::StopReason::interrupted) note("[stopped]");
  if (answer.stop == engine::StopReason::context_full)
    note("[the context is full: the answer is cut; /clear makes room]");
  if (!stderr_is_terminal()) return;
  const engine::Usage &prompt = session().prompt_usage(), &generation = session().generation_usage();
  note(fmt::format("[prompt {} tokens, {:.0f}/s · answer {} tokens, {:.1f}/s, {:.1f} GB/s · context {} of {}]",
                   prompt.tokens, prompt.tokens_per_second(), generation.tokens, generation.tokens_per_second(),
                   generation.bytes_per_second() / 1e9, session().tokens().size(), session().context()));
}

void Chat::help(const std::string&) {
  for (const Command& command : commands())
    fmt::print("{:<20} {}\n", fmt::format("{} {}", command.name, command.argument), command.help);
  fmt::print("A line that ends with \\ (or Alt-Enter) continues on the next. Ctrl-C stops an answer.\n");
}

void Chat::clear(const std::string&) {
  conversation().clear();
  pictures_.clear();
  picture_files_.clear();
  calls_.clear();
  warned_full_ = false;
  note("[cleared]");
}

void Chat::regenerate(const std::string&) {
  const Json before = conversation().messages();
  if (!conversation().drop_answer()) throw_error("/regen: there is no answer yet");
  if (request_.sampling.params.seed < 0) // a sampler's seed gives the same answer again
    model_.renew_answerer();
  else if (request_.sampling.params.temp > 0)
    note("[the seed is fixed, and the answer with it; /set seed -1 lets it vary]");
  answer(before);
}

void Chat::undo(const std::string&) {
  if (!conversation().undo()) throw_error("/undo: there is nothing to take back");
  calls_.clear();
  note("[taken back]");
}

void Chat::system(const std::string& text) {
  if (text.empty()) {
    const Json& messages = conversation().messages();
    const bool has = !messages.empty() && messages[0]["role"] == "system";
    const Json content = has ? messages[0]["content"] : Json("[no system prompt]");
    note(content.is_string() ? content.get<std::string>() : content.dump());
    return;
  }
  conversation().set_system(text == "none" ? "" : text);
  note(text == "none" ? "[system prompt removed]" : "[system prompt set]");
}

void Chat::read(const std::string& path) {
  if (path.empty()) throw_error("/read: name a file");
  std::string text = core::read_text_file(path);
  if (trim(text).empty()) throw_error("{}: holds no text", path);
  note(fmt::format("[{}: {} bytes]", path, text.size()));
  say(std::move(text));
}

void Chat::image(const std::string& path) {
  if (path.empty()) throw_error("/image: name a file");
  model_.take_pictures();
  pictures_ += add_picture_file(given_path(path));
}

void Chat::save(const std::string& path) {
  if (path.empty()) throw_error("/save: name a file");
  core::check_output(path, {model_.loaded().file.path()});
  const Json messages = engine::without_marks(conversation().messages(), [&](std::string_view mark) {
    const auto file = picture_files_.find(mark);
    if (file == picture_files_.end()) return std::string();
    const auto bytes = std::as_bytes(std::span(file->second));
    return fmt::format("data:{};base64,{}", media::type_of_picture(bytes), core::to_base64(bytes));
  });
  const std::string text = text::json_text(Json{{"messages", messages}}, 2) + "\n";
  core::AtomicFile file(path, text.size(), core::kPrivateFile);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  note(fmt::format("[saved {} messages to {}]", conversation().messages().size(), path));
}

void Chat::load(const std::string& path) {
  if (path.empty()) throw_error("/load: name a file");
  Json json = core::parse_json(core::read_text_file(path), path, {.exact_numbers = true});
  Json& messages = json.is_object() && json.contains("messages") ? json["messages"] : json;
  messages = engine::with_marks(std::move(messages), path, [&](const engine::GivenPicture& picture) {
    std::optional<std::string> file = core::from_base64(picture.base64);
    if (picture.is_address) throw_error("{}: an address: a chat fetches no pictures", picture.place);
    if (!file) throw_error("{}: expected base64", picture.place);
    model_.take_pictures();
    const std::string mark = add_picture(model_.loaded(), conversation(), *file, picture.place);
    picture_files_[mark] = std::move(*file);
    return mark;
  });
  conversation().set_messages(json, path);
  calls_.clear();
  warned_full_ = false;
  note(fmt::format("[loaded {} messages]", conversation().messages().size()));
}

void Chat::set(const std::string& assignment) {
  if (assignment.empty()) {
    for (const engine::SamplingSetting& setting : engine::sampling_settings())
      fmt::print("{:<18} {}\n", setting.name, setting.get(request_.sampling));
    return;
  }
  const size_t space = assignment.find_first_of(" \t=");
  const std::string name = assignment.substr(0, space),
                    value = space == std::string::npos ? "" : trim(assignment.substr(space + 1));
  const auto settings = engine::sampling_settings();
  const auto setting = std::ranges::find(settings, name, &engine::SamplingSetting::name);
  if (setting == settings.end()) throw_error("/set: unknown option '{}'; /set alone lists them", name);
  core::SamplingOptions changed = request_.sampling;
  setting->set(changed, value);
  core::validate(changed.params);
  request_.sampling = changed;
  model_.renew_answerer();
  note(fmt::format("[{} = {}]", name, setting->get(request_.sampling)));
}

void Chat::stats(const std::string&) {
  fmt::print("prompts    {} tokens, {:.1f} s, {:.1f} tokens/s\n", total_prompt_.tokens, total_prompt_.seconds,
             total_prompt_.tokens_per_second());
  fmt::print("answers    {} tokens, {:.1f} s, {:.1f} tokens/s, {:.2f} GB/s\n", total_generation_.tokens,
             total_generation_.seconds, total_generation_.tokens_per_second(),
             total_generation_.bytes_per_second() / 1e9);
  if (const engine::GuessCounts& guesses = total_guesses_; guesses.steps > 0)
    fmt::print("guesses    {} of {} tokens right, {:.2f} tokens a step in {} steps with guesses\n", guesses.all_right(),
               guesses.all_made(), 1 + static_cast<double>(guesses.all_right()) / static_cast<double>(guesses.steps),
               guesses.steps);
  if (const core::ExpertUse use = model_.loaded().executor->expert_use(); use.found + use.missed > 0)
    fmt::print("experts    {} of {} in the host's memory, {} on the GPU, where {:.1f} % were found{}\n", use.on_host,
               use.experts, use.copies, 100 * use.found_share(),
               use.on_host < use.experts ? fmt::format("; {} were read from the file", use.read) : "");
  fmt::print("context    {} of {} tokens, {} messages\n", session().tokens().size(), session().context(),
             conversation().messages().size());
  fmt::print("seed       {}\n", model_.answerer().seed());
  core::SamplingOptions recommended;
  if (const auto changed = engine::take_model_defaults(recommended, model_.loaded().file, [](const std::string&) {});
      !changed.empty())
    fmt::print("sampling   the model file recommends {}; /set shows what is used\n", fmt::join(changed, ", "));
  fmt::print("engine     {}, {:.1f} MB beside the model\n", model_.loaded().executor->description(),
             model_.loaded().executor->memory_bytes() / 1e6);
}

} // namespace ridge::app
