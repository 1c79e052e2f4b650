// Pictures of conversations that are kept: files in a folder of the conversation, named by their SHA-256. Its messages
// name them in the form that other programs have pictures in. Other programs may have changed both.
#pragma once

#include "core/view/pictures.h"
#include "engine/conversation.h"

#include <cstddef>
#include <map>
#include <string>

namespace ridge::app {

// What pictures may be at most. All of a conversation's are in memory while it is shown.
inline constexpr size_t kMostPicturesOfMessage = 16;
inline constexpr size_t kMostPictureBytes = size_t{256} << 20; // of a conversation's files

using PicturesByMessage = std::map<size_t, core::MessagePictures>; // of messages by number

// A message's text and pictures, whose bytes are not read.
struct KeptContent {
  std::string text;
  core::MessagePictures pictures;
};
// "content" of a message. `place` begins the Error that is thrown where it is no text, list of texts and of pictures
// that are files of such a folder, or has too many.
KeptContent read_kept_content(const engine::Json& content, const std::string& place);
// The same as it is written, where the pictures are in a folder of this name beside the conversation.
engine::Json kept_content(const std::string& text, const core::MessagePictures& pictures, const std::string& folder);

// With the bytes of those whose files are there, are what they were, and are not too large together.
void read_picture_files(const std::string& folder, PicturesByMessage& pictures);
// Writes those that have bytes and no file, creates the folder, and leaves the bytes in the files alone. Throws Error.
void write_picture_files(const std::string& folder, PicturesByMessage& pictures);
// Removes the files of all pictures but these, and the folder if it is empty then. Throws Error where that fails.
void remove_picture_files(const std::string& folder, const PicturesByMessage& but);

} // namespace ridge::app
