// Pictures of stored conversations: files in a folder of the conversation, named by their SHA-256. Messages refer to
// them as in other programs, which may have changed both.
#pragma once

#include "api/pictures.h"
#include "engine/chat/conversation.h"

#include <cstddef>
#include <map>
#include <string>

namespace ridge::app {

// All pictures of the shown conversation are in memory.
inline constexpr size_t kMaxPicturesOfMessage = 16;
inline constexpr size_t kMaxPictureBytes = size_t{256} << 20; // per conversation

using PicturesByMessage = std::map<size_t, api::MessagePictures>; // by message number

// A message's content without the bytes of its pictures.
struct KeptContent {
  std::string text;
  api::MessagePictures pictures;
};
// Parses "content". Throws Error, beginning with `place`, unless it is a text or a list of texts and at most
// kMaxPicturesOfMessage pictures in such a folder.
KeptContent read_kept_content(const engine::Json& content, const std::string& place);
// The inverse. The folder is beside the conversation's file.
engine::Json kept_content(const std::string& text, const api::MessagePictures& pictures, const std::string& folder);

// Reads existing, unchanged files up to the total limit.
void read_picture_files(const std::string& folder, PicturesByMessage& pictures);
// Creates the folder, writes new pictures and frees their bytes. Throws Error.
void write_picture_files(const std::string& folder, PicturesByMessage& pictures);
// Removes all other pictures, and an empty folder. Throws Error.
void remove_picture_files(const std::string& folder, const PicturesByMessage& but);

} // namespace ridge::app
