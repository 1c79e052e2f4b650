// The terminal chat: what a person types in, what the model says out.
#pragma once

#include "app/terminal/chat/chat_model.h"
#include "app/terminal/completions.h"
#include "app/terminal/terminal.h"

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

using engine::Json;

class Chat {
 public:
  struct Ways {
    bool context_shift = false; // when the context fills, the oldest exchanges are forgotten
    bool markdown = true;       // answers are shown as such, where the terminal can
  };
  // All must outlive it.
  Chat(ChatModel& model, Toolbox& toolbox, core::GenerateRequest& request, Ways ways, InterruptFlag& interrupt);

  // One message or slash command; false: the user wants to leave. Errors of a turn are shown and the chat goes on. In
  // what was typed, words that are files of pictures become pictures (typed_pictures.h).
  bool take(const std::string& message, bool typed = false);

  bool failed() const { return failed_; } // a turn ended in an error

  // What may stand at the end of a line that begins with `before`: commands, what they take, or paths.
  Completions completions(const std::string& before);

 private:
  struct Command;
  struct Setting {
    std::string_view name;
    std::vector<std::string> values; // that it can have; empty: a number or a text
    std::function<std::string()> get;
    std::function<void(const std::string&)> set; // throws Error
  };
  static const std::vector<Command>& commands();
  static const Command* find_command(const std::string& line);
  static std::string trim(const std::string& text);
  void run_command(const std::string& line);
  bool take_typed_pictures(const std::string& line);
  std::string add_picture_file(const std::string& path);
  void say(std::string text);
  void give_result(std::string text); // of the first call that waits for one
  void decide(const std::string& word);
  void go_on_with_calls();         // those that may be made without a question; then it asks about the next one
  void call_tool();                // the first one that waits
  void answer(const Json& before); // messages that it goes back to where it fails
  bool make_room(const std::string& text);
  void show_status(const engine::Answer& answer) const;
  int64_t context_used() const;
  std::vector<Setting> settings();
  void change_sampling(const std::function<void(core::SamplingOptions&)>& change);
  void change_model(const std::function<void(core::ModelOptions&)>& change);

  void help(const std::string&);
  void clear(const std::string&);
  void regenerate(const std::string&);
  void undo(const std::string&);
  void system(const std::string& text);
  void read(const std::string& path);
  void image(const std::string& path);
  void audio(const std::string& path);
  void attach(const char* command, const std::string& path);
  void save(const std::string& path);
  void load(const std::string& path);
  void shift(const std::string&);
  void show_tools(const std::string&);
  void use_model(const std::string& name);
  void lora(const std::string& what);
  void copy(const std::string& what);
  void export_to(const std::string& path);
  void set(const std::string& assignment);
  void stats(const std::string&);
  void exit(const std::string&) { leaving_ = true; }

  engine::Session& session() const { return model_.session(); }
  engine::Conversation& conversation() const { return model_.conversation(); }

  ChatModel& model_;
  Toolbox& toolbox_;
  core::GenerateRequest& request_;
  Ways ways_;
  InterruptFlag& interrupt_;                                      // stops an answer, also one that has not begun yet
  std::string pictures_;                                          // marks of those that go with the next message
  std::map<std::string, std::string, std::less<>> picture_files_; // what /save writes, by mark
  std::string refused_;                                           // the message for which the context has no room
  std::deque<text::ToolCall> calls_;                              // of the last answer, that have no result yet
  std::set<std::string> allowed_;                                 // tools that are called without a question
  bool leaving_ = false, failed_ = false, warned_full_ = false;
  engine::GuessCounts total_guesses_;
  engine::Usage total_prompt_, total_generation_;
};

} // namespace ridge::app
