// The terminal chat.
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
  struct Options {
    bool context_shift = false; // drop the oldest exchanges when full
    bool markdown = true;       // render Markdown
  };
  // All arguments must outlive it.
  Chat(ChatModel& model, Toolbox& toolbox, api::GenerateRequest& request, Options options, InterruptFlag& interrupt);

  // Returns false to leave the chat. Shows errors and continues. In typed text, picture paths become pictures
  // (typed_pictures.h).
  bool take(const std::string& message, bool typed = false);

  bool failed() const { return failed_; }

  // Completions for a line that begins with `before`.
  Completions completions(const std::string& before);

 private:
  struct Command;
  struct Setting {
    std::string_view name;
    std::vector<std::string> values; // allowed values; empty: a number or text
    std::function<std::string()> get;
    std::function<void(const std::string&)> set;
  };
  static const std::vector<Command>& commands();
  static const Command* find_command(const std::string& line);
  static std::string trim(const std::string& text);
  void run_command(const std::string& line);
  bool take_typed_pictures(const std::string& line);
  std::string add_picture_file(const std::string& path);
  void send_message(std::string text);
  void give_result(std::string text); // of the first pending call
  void decide(const std::string& word);
  void process_pending_calls(); // runs the allowed calls, then asks about the next
  void call_tool();
  void answer(const Json& before); // `before`: messages to restore on failure
  void generate(const Json& before, const std::function<void(const engine::TextSink& print)>& work);
  bool make_room(const std::string& text);
  void show_status(const engine::Answer& answer) const;
  int64_t context_used() const;
  std::vector<Setting> settings();
  void change_sampling(const std::function<void(api::SamplingOptions&)>& change);
  void change_model(const std::function<void(api::ModelOptions&)>& change);

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
  void compact(const std::string& instructions);
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
  api::GenerateRequest& request_;
  Options options_;
  InterruptFlag& interrupt_;                                      // also one that has not begun
  std::string pictures_;                                          // marks of pictures in the next message
  std::map<std::string, std::string, std::less<>> picture_files_; // files for /save, by mark
  std::string refused_;
  Json before_compaction_, after_compaction_; // messages
  std::deque<text::ToolCall> calls_;          // calls without results
  std::set<std::string> allowed_;             // tools that need no confirmation
  bool leaving_ = false, failed_ = false, warned_full_ = false;
  engine::GuessCounts total_guesses_;
  engine::Usage total_prompt_, total_generation_;
};

} // namespace ridge::app
