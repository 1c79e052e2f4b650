// Pictures and sounds of messages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ridge::api {

struct Pixels {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb; // [height][width][3], from the top left
};

struct MessagePicture {
  std::string key; // SHA-256 of the file in hexadecimal
  std::string name;
  std::shared_ptr<const std::string> file; // its bytes; null: not in memory
};
using MessagePictures = std::vector<std::shared_ptr<const MessagePicture>>;

struct PictureFacts {
  int64_t width = 0, height = 0;
  double sound_seconds = 0;
  std::shared_ptr<const Pixels> small; // thumbnail; null: none yet, or not decodable
  int64_t tokens = 0;
  double seconds = 0;  // encoding time; 0: not encoded
  std::string problem; // why it cannot be shown; empty: none
};
using PictureFactsByKey = std::map<std::string, PictureFacts>;

struct EnlargedPicture {
  std::string key;
  std::shared_ptr<const Pixels> pixels;
};

// The pictures read for an answer.
struct PicturesRead {
  int64_t pictures = 0, tokens = 0;
  double seconds = 0;
};

} // namespace ridge::api
