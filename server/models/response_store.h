// Keeps recent answers of POST /v1/responses, with their conversations, in memory.
#pragma once

#include "server/json/fields.h"

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ridge::server {

class ResponseStore {
 public:
  static constexpr size_t kMax = 256, kMaxBytes = size_t{32} << 20;

  // Null for an unknown id:
  std::optional<Json> find(const std::string& id) const; // includes the answer
  std::optional<std::string> response(const std::string& id) const;
  std::optional<Json> input(const std::string& id) const;
  std::optional<Json> find_item(const std::string& id) const;
  bool erase(const std::string& id);

  void add(std::string id, const Json& messages, const Json& response = nullptr, const Json& input = Json::array());

 private:
  struct Item {
    std::string id, text;
  };
  struct Kept {
    std::string id, messages, response, input; // JSON text: smaller than objects
    std::vector<Item> items;
    size_t bytes() const;
  };
  const Kept* kept(const std::string& id) const; // requires the lock

  mutable std::mutex mutex_;
  std::deque<Kept> kept_; // latest first
  size_t bytes_ = 0;
};

} // namespace ridge::server
