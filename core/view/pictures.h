// Pictures and sounds of messages, as the window's engine and the window have them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ridge::core {

struct Pixels {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb; // [height][width][3], from the top left
};

// One of a message: a file as it was given.
struct MessagePicture {
  std::string key;                         // SHA-256 of the file, in hexadecimal digits: what tells it from others
  std::string name;                        // of the file, fit for a line
  std::shared_ptr<const std::string> file; // its bytes; null: they are not here
};
using MessagePictures = std::vector<std::shared_ptr<const MessagePicture>>;

// What is known of a picture; all of it follows from the file and the open model.
struct PictureFacts {
  int64_t width = 0, height = 0;       // pixels
  double sound_seconds = 0;            // of a sound, which is shown as its waveform
  std::shared_ptr<const Pixels> small; // as messages show it; null: it was not looked at yet, or cannot be
  int64_t tokens = 0;                  // that it takes of the context; 0: not known
  double seconds = 0;                  // that encoding it took; 0: it is not encoded
  std::string problem;                 // why it cannot be shown, in one line; empty: it can
};
using PictureFactsByKey = std::map<std::string, PictureFacts>;

struct EnlargedPicture {
  std::string key;
  std::shared_ptr<const Pixels> pixels;
};

// The pictures that an answer was given to.
struct PicturesRead {
  int64_t pictures = 0, tokens = 0;
  double seconds = 0; // that encoding them took
};

} // namespace ridge::core
