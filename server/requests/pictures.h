// Pictures and sounds ("pictures") in requests.
#pragma once

#include "engine/pictures/message_pictures.h"
#include "engine/pictures/picture_shelf.h"
#include "server/json/fields.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::server {

class Service;

// Encodes pictures and puts marks into messages. It must live until the prompt is made.
class RequestPictures {
 public:
  explicit RequestPictures(const Service& service);

  // Changes nothing if the model takes no media. `path` is for errors. Throws ApiError for invalid data or addresses,
  // and PicturesWanted if the encoder is not open.
  Json put(Json messages, const std::string& path);
  // Adds an uploaded file. Throws as put().
  std::string add_sound(std::string_view file, const std::string& place);
  double sound_seconds() const;

 private:
  std::string mark_of(const engine::GivenPicture& picture);
  void check_room(const std::string& place) const;
  std::string add(std::string_view file, const std::string& place);
  void check_address(const engine::GivenPicture& picture) const;
  std::string fetch(const engine::GivenPicture& picture);

  const Service& service_;
  int64_t pixels_ = 0;
  double seconds_left_;                               // for downloads
  const std::shared_ptr<engine::PictureShelf> shelf_; // null: the encoder is not open
  std::vector<std::shared_ptr<const engine::ShelvedPicture>> held_;
};

} // namespace ridge::server
