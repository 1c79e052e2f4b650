// Pictures and sounds in requests: as OpenAI's, Anthropic's and Ollama's clients send them in messages. What is said of
// pictures is true of both.
#pragma once

#include "engine/pictures/message_pictures.h"
#include "engine/pictures/picture_shelf.h"
#include "server/fields.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::server {

class Service;

// Encodes the pictures of messages and puts what stands for them into the messages' texts. It holds them: a prompt is
// to be made of the messages as long as it is there.
class RequestPictures {
 public:
  explicit RequestPictures(const Service& service);

  // Returns the messages, or items of a response's input, with marks in place of pictures; unchanged where the model
  // takes no pictures. `path` names the list in errors. Throws ApiError for data that is no picture, and for an address
  // that must not or cannot be fetched. Throws PicturesWanted where the model was opened without its encoder.
  Json put(Json messages, const std::string& path);
  // What stands for a sound that came as a file. Throws as put().
  std::string add_sound(std::string_view file, const std::string& place);
  double sound_seconds() const; // of all sounds

 private:
  std::string mark_of(const engine::GivenPicture& picture);
  void check_room(const std::string& place) const; // for another one
  std::string add(std::string_view file, const std::string& place);
  void check_address(const engine::GivenPicture& picture) const;
  std::string fetch(const engine::GivenPicture& picture);

  const Service& service_;
  int64_t pixels_ = 0;                                // of all so far
  double seconds_left_;                               // for fetching
  const std::shared_ptr<engine::PictureShelf> shelf_; // null: it is not open for them
  std::vector<std::shared_ptr<const engine::ShelvedPicture>> held_;
};

} // namespace ridge::server
