// The conversations behind the latest answers of POST /v1/responses, for requests that go on from one by its id. They
// are kept in memory, and of too many the oldest are forgotten.
#pragma once

#include "server/fields.h"

#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace ridge::server {

class ResponseStore {
 public:
  static constexpr size_t kMost = 256, kMostBytes = size_t{32} << 20; // of their JSON, all together

  // The messages up to and with the answer of that id; nothing where it is not known.
  std::optional<Json> find(const std::string& id) const;
  void add(std::string id, const Json& messages);

 private:
  struct Kept {
    std::string id, messages; // as JSON text, which takes less memory than its objects
  };
  mutable std::mutex mutex_;
  std::deque<Kept> kept_; // the latest first
  size_t bytes_ = 0;
};

} // namespace ridge::server
