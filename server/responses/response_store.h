// The latest answers of POST /v1/responses with the conversations behind them, for requests that go on from one by its
// id or ask for it. They are kept in memory, and of too many the oldest are forgotten.
#pragma once

#include "server/fields.h"

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ridge::server {

class ResponseStore {
 public:
  static constexpr size_t kMost = 256, kMostBytes = size_t{32} << 20; // of their JSON, all together

  // Nothing where no answer has that id:
  std::optional<Json> find(const std::string& id) const;            // the messages up to and with the answer
  std::optional<std::string> response(const std::string& id) const; // the answer itself, as JSON text
  std::optional<Json> input(const std::string& id) const;           // the items of its request
  std::optional<Json> find_item(const std::string& id) const;       // of any answer's output
  bool erase(const std::string& id);

  void add(std::string id, const Json& messages, const Json& response = nullptr, const Json& input = Json::array());

 private:
  struct Item {
    std::string id, text;
  };
  struct Kept {
    std::string id, messages, response, input; // as JSON text, which takes less memory than its objects
    std::vector<Item> items;                   // of the response's output
    size_t bytes() const;
  };
  const Kept* kept(const std::string& id) const; // under the lock

  mutable std::mutex mutex_;
  std::deque<Kept> kept_; // the latest first
  size_t bytes_ = 0;
};

} // namespace ridge::server
