// The slash commands of the chat.
#include "app/models/model_names.h"
#include "app/terminal/chat/chat.h"
#include "app/terminal/chat/markdown_export.h"
#include "app/terminal/pictures.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "app/terminal/typed_pictures.h"
#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/private_folder.h"
#include "core/files/read_file.h"
#include "core/json/parse.h"
#include "core/strings/base64.h"
#include "core/strings/closest.h"
#include "core/strings/printable.h"
#include "core/units.h"
#include "engine/pictures/message_pictures.h"
#include "engine/sampling_defaults.h"
#include "media/medium.h"
#include "text/json/kept_number.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace ridge::app {
namespace {

constexpr int kCommandWidth = 21, kStatWidth = 11;

} // namespace

struct Chat::Command {
  const char* name;
  const char* argument;
  const char* help;
  void (Chat::*run)(const std::string&);
  std::vector<std::string_view> others = {};
  // Completes the argument that starts at `begin`.
  Completions (*complete)(Chat&, const std::string& line, size_t begin) = nullptr;

  static Completions path(Chat&, const std::string& line, size_t begin) { return path_completions(line, begin, false); }
  static Completions command(Chat&, const std::string& line, size_t begin) {
    std::vector<std::string> names;
    for (const Command& each : commands()) names.emplace_back(each.name);
    return completions_of(line, begin, names);
  }
  static Completions model(Chat&, const std::string& line, size_t begin) {
    Completions found = completions_of(line, begin, model_names());
    const Completions paths = path_completions(line, begin, false);
    found.words.insert(found.words.end(), paths.words.begin(), paths.words.end());
    return found;
  }
  static Completions code(Chat&, const std::string& line, size_t begin) {
    return completions_of(line, begin, std::vector<std::string>{"code"});
  }
  static Completions setting(Chat& chat, const std::string& line, size_t begin) {
    std::vector<std::string> names;
    const size_t space = line.find_first_of(" \t", begin);
    for (const Setting& each : chat.settings()) {
      if (space == std::string::npos)
        names.emplace_back(each.name);
      else if (line.substr(begin, space - begin) == each.name)
        names = each.values;
    }
    return completions_of(line, space == std::string::npos ? begin : line.find_last_of(" \t") + 1, names);
  }
};

const std::vector<Chat::Command>& Chat::commands() {
  static const std::vector<Command> list = {
      {"/help", "", "show this list", &Chat::help, {"/?", "/h"}, &Command::command},
      {"/clear", "", "clear the conversation, keep the system prompt", &Chat::clear, {"/new", "/reset"}},
      {"/regen", "", "regenerate the last answer", &Chat::regenerate, {"/retry"}},
      {"/undo", "", "remove the last message and its answer", &Chat::undo},
      {"/system", "TEXT", "set the system prompt; without TEXT: show it; `/system none` removes it", &Chat::system},
      {"/read", "FILE", "send a file's text as your message", &Chat::read, {}, &Command::path},
      {"/image",
       "FILE",
       "send an image with your next message; you can also drop its file on the input line",
       &Chat::image,
       {},
       &Command::path},
      {"/audio",
       "FILE",
       "send an audio file with your next message; you can also drop it on the input line",
       &Chat::audio,
       {},
       &Command::path},
      {"/model",
       "NAME",
       "continue with another model; without NAME: show the current one and those on this machine",
       &Chat::use_model,
       {},
       &Command::model},
      {"/lora",
       "N SCALE",
       "set the scale of LoRA adapter N; off: all to 0; FILE: load another adapter; without arguments: list them",
       &Chat::lora,
       {},
       &Command::path},
      {"/copy",
       "[code]",
       "copy the last answer, or its last code block, to the clipboard",
       &Chat::copy,
       {},
       &Command::code},
      {"/export", "FILE", "write the conversation as Markdown", &Chat::export_to, {}, &Command::path},
      {"/save", "FILE", "save the conversation as JSON messages in OpenAI's format", &Chat::save, {}, &Command::path},
      {"/load", "FILE", "continue a saved conversation", &Chat::load, {}, &Command::path},
      {"/set",
       "NAME VALUE",
       "change an option, e.g. /set temp 0.7; without arguments: list them",
       &Chat::set,
       {},
       &Command::setting},
      {"/tools", "", "list the tools that the model may call, and which of them without asking", &Chat::show_tools},
      {"/shift", "", "drop the oldest exchanges whenever the context is full; resends a message that did not fit",
       &Chat::shift},
      {"/compact", "[WISH]", "replace the conversation with a summary by the model; WISH: what to keep",
       &Chat::compact},
      {"/stats", "", "show tokens, speed and context use so far", &Chat::stats},
      {"/exit", "", "quit (also Ctrl-D)", &Chat::exit, {"/bye", "/quit", "/q"}},
  };
  return list;
}

const Chat::Command* Chat::find_command(const std::string& line) {
  const std::string name = line.substr(0, line.find_first_of(" \t\n"));
  for (const Command& command : commands())
    if (name == command.name || std::ranges::find(command.others, name) != command.others.end()) return &command;
  return nullptr;
}

void Chat::run_command(const std::string& line) {
  const size_t space = line.find_first_of(" \t\n");
  const Command* command = find_command(line);
  if (!command) {
    std::vector<std::string_view> names;
    for (const Command& known : commands()) names.push_back(known.name);
    const std::string word = line.substr(0, space), meant = core::did_you_mean(word, names);
    throw_error("unknown command {}{}", core::printable(word), meant.empty() ? "; /help lists them" : meant);
  }
  (this->*command->run)(space == std::string::npos ? "" : trim(line.substr(space)));
}

Completions Chat::completions(const std::string& before) {
  const size_t space = before.find_first_of(" \t");
  if (before.starts_with('/') && space == std::string::npos) {
    std::vector<std::string> names;
    for (const Command& command : commands()) names.emplace_back(command.name);
    Completions found = completions_of(before, 0, names);
    return found.words.empty() ? path_completions(before, 0, true) : found;
  }
  const size_t last = before.find_last_of(" \t") + 1;
  const Command* command = before.starts_with('/') ? find_command(before) : nullptr;
  if (!command) {
    const std::string word = before.substr(last);
    const bool is_path = word.starts_with('/') || word.starts_with("~/") || word.starts_with("./");
    return is_path ? path_completions(before, last, true) : Completions{last, {}};
  }
  const size_t begin = std::min(before.find_first_not_of(" \t", space), before.size());
  if (command->complete) return command->complete(*this, before, begin);
  return {begin, {}};
}

void Chat::help(const std::string&) {
  for (const Command& command : commands())
    print_row(fmt::format("{} {}", command.name, command.argument), kCommandWidth, command.help);
  print_row("", 0,
            "End a line with \\ (or press Alt-Enter) to continue on the next. Tab completes. Ctrl-C stops an answer.");
}

void Chat::clear(const std::string&) {
  conversation().clear();
  pictures_.clear();
  picture_files_.clear();
  calls_.clear();
  refused_.clear();
  before_compaction_ = after_compaction_ = nullptr;
  warned_full_ = false;
  note("[cleared]");
}

void Chat::regenerate(const std::string&) {
  const Json before = conversation().messages();
  if (!conversation().drop_answer()) throw_error("/regen: there is no answer yet");
  if (request_.sampling.params.seed < 0) // a fixed seed would repeat the answer
    model_.renew_answerer();
  else if (request_.sampling.params.temp > 0)
    note("[the seed is fixed, so the answer will be the same; /set seed -1 varies it]");
  answer(before);
  process_pending_calls();
}

void Chat::undo(const std::string&) {
  if (!before_compaction_.is_null() && conversation().messages() == after_compaction_) {
    conversation().set_messages(std::exchange(before_compaction_, nullptr), "conversation");
    return note(fmt::format("[undone: the {} messages are back]", conversation().messages().size()));
  }
  if (!conversation().undo()) throw_error("/undo: nothing to undo");
  calls_.clear();
  note("[undone]");
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
  if (path.empty()) throw_error("/read: give a file");
  std::string text = core::read_text_file(path);
  if (trim(text).empty()) throw_error("{}: contains no text", path);
  note(fmt::format("[{}: {} bytes]", path, text.size()));
  send_message(std::move(text));
}

void Chat::image(const std::string& path) { attach("/image", path); }
void Chat::audio(const std::string& path) { attach("/audio", path); }

void Chat::attach(const char* command, const std::string& path) {
  if (path.empty()) throw_error("{}: give a file", command);
  model_.take_pictures();
  pictures_ += add_picture_file(given_path(path));
}

// A mistyped name must not cost another file, such as a model.
static void keep_other_files(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none) || std::filesystem::file_size(path, none) == 0) return;
  if (std::ifstream(path, std::ios::binary).peek() != '{')
    throw_error("{}: exists and is not a saved conversation; choose another file", path);
}

void Chat::save(const std::string& path) {
  if (path.empty()) throw_error("/save: give a file");
  core::check_output(path, {model_.loaded().file.path()});
  keep_other_files(path);
  const Json messages = engine::without_marks(conversation().messages(), [&](std::string_view mark) {
    const auto file = picture_files_.find(mark);
    if (file == picture_files_.end()) return std::string();
    const auto bytes = std::as_bytes(std::span(file->second));
    return fmt::format("data:{};base64,{}", media::type_of_medium(bytes), core::to_base64(bytes));
  });
  const std::string text = text::json_text(Json{{"messages", messages}}, 2) + "\n";
  core::AtomicFile file(path, text.size(), core::kPrivateFile);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  note(fmt::format("[saved {} messages to {}]", conversation().messages().size(), path));
}

void Chat::load(const std::string& path) {
  if (path.empty()) throw_error("/load: give a file");
  Json json = core::parse_json(core::read_text_file(path), path, {.exact_numbers = true});
  Json& messages = json.is_object() && json.contains("messages") ? json["messages"] : json;
  messages = engine::with_marks(std::move(messages), path, [&](const engine::GivenPicture& picture) {
    std::optional<std::string> file = core::from_base64(picture.base64);
    if (picture.is_address) throw_error("{}: this is an address; chat does not download images", picture.place);
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

void Chat::shift(const std::string&) {
  options_.context_shift = true;
  note("[the oldest exchanges will be dropped when the context is full; /set context-shift off keeps them]");
  if (!refused_.empty()) send_message(std::exchange(refused_, {}));
}

void Chat::compact(const std::string& instructions) {
  if (!calls_.empty()) throw_error("/compact: a tool call is waiting for its result");
  const Json before = conversation().messages();
  engine::Conversation::Compaction made;
  generate(before, [&](const engine::TextSink& print) {
    made = conversation().compact(model_.answerer(), instructions, print, interrupt_.flag());
  });
  before_compaction_ = before;
  after_compaction_ = conversation().messages();
  warned_full_ = false;
  const int64_t left_out = made.left_out;
  note(fmt::format("[compacted: this summary replaces {} messages for the model{}; /undo restores them]", before.size(),
                   left_out == 0 ? ""
                                 : fmt::format(", without the {} oldest exchange{}, which did not fit", left_out,
                                               left_out == 1 ? "" : "s")));
  if (made.answer.stop == engine::StopReason::limit)
    note("[the summary was cut off: it may use a quarter of the context]");
  if (!refused_.empty()) send_message(std::exchange(refused_, {}));
}

void Chat::show_tools(const std::string&) {
  if (toolbox_.tools().empty()) note("[no tools: start ridge with --mcp FILE or --mcp-server NAME=COMMAND]");
  for (const Toolbox::Tool& tool : toolbox_.tools()) {
    if (!tool.offered) continue;
    const std::string summary = core::printable(tool.description.substr(0, tool.description.find('\n')), 200);
    print_row(core::printable(tool.name), kCommandWidth,
              fmt::format("{}: {}{}", tool.server, summary, allowed_.contains(tool.name) ? " (without asking)" : ""));
  }
}

void Chat::use_model(const std::string& name) {
  if (name.empty()) {
    note(fmt::format("[{}: {}]", model_title(model_.loaded().file), core::printable(model_.loaded().file.path(), 300)));
    const std::vector<std::string> names = model_names();
    if (!names.empty()) fmt::print("{}", in_columns(names, std::max(terminal_columns(), 1)));
    return;
  }
  const std::string path = model_path(name);
  change_model([&](api::ModelOptions& o) {
    o.model = path;
    o.draft_model.clear(); // of the old model
    o.mmproj.clear();
    o.adapters.clear();
  });
  note(fmt::format("[{}, context {} tokens]", model_title(model_.loaded().file), session().context()));
}

void Chat::copy(const std::string& what) {
  if (!what.empty() && what != "code")
    throw_error("/copy: unknown argument '{}'; /copy copies the last answer, /copy code its last code block", what);
  const Json& messages = conversation().messages();
  if (messages.empty() || messages.back()["role"] != "assistant") throw_error("/copy: there is no answer yet");
  std::string text = messages.back()["content"].is_string() ? messages.back()["content"].get<std::string>() : "";
  if (what == "code") text = last_code(text);
  if (text.empty()) throw_error("/copy: the answer {}", what == "code" ? "has no code block" : "is empty");
  if (!stdout_is_terminal()) throw_error("/copy: needs a terminal's clipboard, but stdout is not a terminal");
  write_stdout(clipboard_order(text));
  note(fmt::format("[{} bytes copied to the clipboard, if the terminal allows it (OSC 52)]", text.size()));
}

void Chat::export_to(const std::string& path) {
  if (path.empty()) throw_error("/export: give a file");
  core::check_output(path, {model_.loaded().file.path()});
  const std::string text = conversation_as_markdown(conversation().messages(), model_title(model_.loaded().file));
  core::AtomicFile file(path, text.size(), core::kPrivateFile);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  note(fmt::format("[wrote {} messages to {}]", conversation().messages().size(), path));
}

void Chat::stats(const std::string&) {
  const auto row = [](const char* what, const std::string& text) { print_row(what, kStatWidth, text); };
  row("prompts", fmt::format("{} tokens, {:.1f} s, {:.1f} tokens/s", total_prompt_.tokens, total_prompt_.seconds,
                             total_prompt_.tokens_per_second()));
  row("answers", fmt::format("{} tokens, {:.1f} s, {:.1f} tokens/s, {:.2f} GB/s", total_generation_.tokens,
                             total_generation_.seconds, total_generation_.tokens_per_second(),
                             total_generation_.bytes_per_second() / 1e9));
  if (const engine::GuessCounts& guesses = total_guesses_; guesses.steps > 0)
    row("drafts",
        fmt::format("{} of {} tokens accepted, {:.2f} tokens per step in {} steps with drafts", guesses.all_right(),
                    guesses.all_made(),
                    1 + static_cast<double>(guesses.all_right()) / static_cast<double>(guesses.steps), guesses.steps));
  if (const core::ExpertUse use = model_.loaded().executor->expert_use(); use.hits + use.misses > 0)
    row("experts",
        fmt::format("{} of {} in host memory, {} on the GPU with a hit rate of {:.1f} %{}", use.on_host, use.experts,
                    use.copies, 100 * use.hit_rate(),
                    use.on_host < use.experts ? fmt::format("; {} were read from the file", use.file_reads) : ""));
  row("context", fmt::format("{} of {} tokens, {} messages", context_used(), session().context(),
                             conversation().messages().size()));
  row("seed", fmt::format("{}", model_.answerer().seed()));
  api::SamplingOptions recommended;
  if (const auto changed = engine::take_model_defaults(recommended, model_.loaded().file, [](const std::string&) {});
      !changed.empty())
    row("sampling",
        fmt::format("the model file recommends {}; /set shows the current values", fmt::join(changed, ", ")));
  row("engine", fmt::format("{}, {} in addition to the model", model_.loaded().executor->description(),
                            core::human_bytes(model_.loaded().executor->memory_bytes())));
}

} // namespace ridge::app
