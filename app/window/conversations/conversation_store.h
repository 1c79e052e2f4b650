// Stored conversations: one JSON file each, written atomically, in a form that other programs use. Pictures are
// separate files. The store never overwrites unreadable files or changes of another window.
#pragma once

#include "api/snapshot.h"
#include "app/window/conversations/kept_pictures.h"
#include "engine/chat/conversation.h"

#include <optional>
#include <string>
#include <vector>

namespace ridge::app {

using engine::Json;

struct StoredConversation {
  std::string id; // file name without .json
  std::string title;
  std::string system;
  std::optional<std::vector<api::AdapterRow>> adapters; // without names; nothing: unknown
  Json messages = Json::array();                        // without the system message; contents are texts
  // The parent of each message: an earlier index or -1. Empty: each follows the previous one.
  std::vector<int> parents;
  int end = -1;               // last shown message, if there are parents
  PicturesByMessage pictures; // if there is a folder, only files hold the bytes
  int64_t changed_ms = 0;     // Unix time
  bool named = false;         // by the user; otherwise the title is the first question
  int64_t file_time = 0;      // when last read or written; 0: no file
};

class ConversationStore {
 public:
  // Empty: nothing is stored. The folder is created with the first file.
  explicit ConversationStore(std::string folder);

  const std::vector<StoredConversation>& list() const { return list_; } // most recently changed first
  const std::string& problem() const { return problem_; }               // files that could not be read; empty: none

  StoredConversation* find(const std::string& id);
  StoredConversation& create(); // not stored before the first save()
  // Reads the file if another window changed it. Throws Error.
  void refresh(const std::string& id);
  // Reads the files that exist and are unchanged.
  PicturesByMessage pictures(const StoredConversation& c) const;
  // Call before changing and saving. If another window changed the file, this store's version becomes a copy with the
  // returned id; otherwise returns `id`.
  std::string fork_if_changed(const std::string& id);
  // Also removes unused pictures. Throws Error on failure; the conversation stays in memory.
  void save(std::string id); // by value: the caller's string may be moved or removed
  // Throws Error; the conversation then stays in the list.
  void remove(std::string id);
  // The text around a match (case-insensitive), in one line; empty if the title matches; nothing without a
  // match.
  static std::optional<std::string> excerpt_with(const StoredConversation& c, const std::string& text);

 private:
  std::string path_of(const std::string& id) const { return folder_ + "/" + id + ".json"; }
  std::string picture_folder_of(const std::string& id) const { return folder_ + "/" + picture_folder(id); }
  static std::string picture_folder(const std::string& id) { return id + ".pictures"; }
  int64_t file_time(const std::string& id) const;
  bool written_elsewhere(const StoredConversation& c) const;
  StoredConversation read(const std::string& id) const;
  std::string new_id();

  std::string folder_, problem_;
  std::vector<StoredConversation> list_;
  int64_t last_number_ = 0;
};

// About 40 characters of the question, or a picture's name if it has no text.
std::string title_of(const api::ChatMessage& question);

} // namespace ridge::app
