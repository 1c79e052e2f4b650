// Items of POST /v1/responses.
#pragma once

#include "server/json/fields.h"
#include "text/calls/call_parser.h"

#include <functional>
#include <string>

namespace ridge::server {

class ResponseStore;

// Appends `input` to `messages`. Skips reasoning, other servers' tools, and unknown references. Throws ApiError for
// malformed items and for outputs without a call.
void add_input(Json& messages, const Json& input, const ResponseStore& store);
Json listed_input(const Json& input);

class OutputItems {
 public:
  enum class Kind { reasoning, message, call };
  using Emit = std::function<void(const char* type, Json members)>;
  explicit OutputItems(Emit emit) : emit_(std::move(emit)) {}

  // `logprobs` belong to a message's text.
  void add(Kind kind, const std::string& text, Json logprobs = Json::array());
  void add_call(const text::CallParser::Delta& delta);
  void finish(bool complete); // `complete`: adds an empty message if there is neither message nor call

  const Json& items() const { return items_; }
  Json message() const;

 private:
  void open(Kind kind);
  void close(bool complete);
  void emit_of_item(const char* type, Json members) const;
  void emit_part(const char* type, Json members) const;
  Json item(const char* status, bool with_text) const;
  Json part(const std::string& text) const;

  const Emit emit_;
  Json items_ = Json::array(), logprobs_ = Json::array();
  bool open_ = false;
  Kind kind_ = Kind::message;
  std::string id_, text_, call_id_, function_; // text_: a call's arguments
};

} // namespace ridge::server
