// The terminal chat: what a person types in, what the model says out.
#pragma once

#include "app/terminal/chat_model.h"
#include "app/terminal/terminal.h"

#include <deque>
#include <functional>
#include <map>
#include <string>

namespace ridge::app {

using engine::Json;

class Chat {
 public:
  // All must outlive it.
  Chat(ChatModel& model, core::GenerateRequest& request, bool context_shift, InterruptFlag& interrupt);

  // One message or slash command; false: the user wants to leave. Errors of a turn are shown and the chat goes on. In
  // what was typed, words that are files of pictures become pictures (typed_pictures.h).
  bool take(const std::string& message, bool typed = false);

  bool failed() const { return failed_; } // a turn ended in an error

 private:
  struct Command;
  static const std::vector<Command>& commands();
  static const Command* find_command(const std::string& line);
  void run_command(const std::string& line);
  bool take_typed_pictures(const std::string& line);
  std::string add_picture_file(const std::string& path);
  void say(std::string text);
  void give_result(std::string text); // of the first call that waits for one
  void ask_for_result() const;
  void answer(const Json& before); // messages that it goes back to where it fails
  bool make_room(const std::string& text);
  void show_status(const engine::Answer& answer) const;

  void help(const std::string&);
  void clear(const std::string&);
  void regenerate(const std::string&);
  void undo(const std::string&);
  void system(const std::string& text);
  void read(const std::string& path);
  void image(const std::string& path);
  void save(const std::string& path);
  void load(const std::string& path);
  void set(const std::string& assignment);
  void stats(const std::string&);
  void exit(const std::string&) { leaving_ = true; }

  engine::Session& session() const { return model_.session(); }
  engine::Conversation& conversation() const { return model_.conversation(); }

  ChatModel& model_;
  core::GenerateRequest& request_;
  const bool context_shift_;
  InterruptFlag& interrupt_;                                      // stops an answer, also one that has not begun yet
  std::string pictures_;                                          // marks of those that go with the next message
  std::map<std::string, std::string, std::less<>> picture_files_; // what /save writes, by mark
  std::deque<text::ToolCall> calls_;                              // of the last answer, that have no result yet
  bool leaving_ = false, failed_ = false, warned_full_ = false;
  engine::GuessCounts total_guesses_;
  engine::Usage total_prompt_, total_generation_;
};

} // namespace ridge::app
