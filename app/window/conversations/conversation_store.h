// The conversations that the window lists: one JSON file each, in the form that other programs exchange them in,
// written whole or not at all. A file that cannot be understood is left as it is and reported, never overwritten, nor
// is one that another window has written meanwhile. Pictures are files of their own beside it, which are read when a
// conversation is opened.
#pragma once

#include "app/window/conversations/kept_pictures.h"
#include "core/view/snapshot.h"
#include "engine/conversation.h"

#include <optional>
#include <string>
#include <vector>

namespace ridge::app {

using engine::Json;

struct StoredConversation {
  std::string id; // its file's name, without .json
  std::string title;
  std::string system;            // prompt
  Json messages = Json::array(); // as Conversation has them, the system message left out; contents are texts
  // For each message, the one that it follows, which is before it, -1: none. Empty: each follows the one before it.
  std::vector<int> parents;
  int end = -1;               // the message that what is shown ends with, where there are parents
  PicturesByMessage pictures; // of the messages; where there is a folder, their bytes are in files alone
  int64_t changed_ms = 0;     // since 1970
  bool named = false;         // by a person; else the title is the first question
  int64_t file_time = 0;      // of the file that this was read from or written to; 0: there is none
};

class ConversationStore {
 public:
  // Reads the folder; empty: nothing is kept on disk. Does not create it before there is something to keep.
  explicit ConversationStore(std::string folder);

  const std::vector<StoredConversation>& list() const { return list_; } // the last changed first
  const std::string& problem() const { return problem_; }               // what could not be read; empty: nothing

  StoredConversation* find(const std::string& id);
  StoredConversation& create(); // not kept before the first save()
  // Reads it again where another window has written it. Throws Error where that cannot be read.
  void refresh(const std::string& id);
  // A conversation's pictures with their bytes, as far as their files are there and what they were.
  PicturesByMessage pictures(const StoredConversation& c) const;
  // To be called before changing and saving it. Where another window has written it, that stays as it is under `id`,
  // and what is here becomes a copy, whose id this returns; otherwise `id`.
  std::string keep_both(const std::string& id);
  // Writes it, as changed now, and its pictures; removes files of pictures that it has not any more. Throws Error where
  // that fails; it is kept in memory all the same.
  void save(std::string id); // a copy, here and below: the caller's may stand in what is moved or removed
  // Throws Error where its file cannot be removed; then it stays in the list.
  void remove(std::string id);
  // Where this text stands in a conversation, capitals or not, in one line; empty where it is in the title. Nothing
  // where it is in neither the title nor a message.
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

// The beginning of a question, as a title: one line, at most some 40 characters. Without text, a picture's name.
std::string title_of(const core::ChatMessage& question);

} // namespace ridge::app
