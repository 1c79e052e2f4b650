// The items that POST /v1/responses takes and gives: a conversation's messages in the form of OpenAI's newer API.
#pragma once

#include "server/fields.h"

#include <functional>
#include <string>

namespace ridge::server {

// The `input` of a request, a text or a list of items, as messages of a chat. Reasoning is left out. Throws ApiError
// for what is malformed, and for items that are no text.
Json input_messages(const Json& input);

// The items of an answer as they come: each piece of text becomes part of an item, and of events that say so.
class OutputItems {
 public:
  enum class Kind { reasoning, message };
  // An event: its type and members.
  using Emit = std::function<void(const char* type, Json members)>;
  explicit OutputItems(Emit emit) : emit_(std::move(emit)) {}

  void add(Kind kind, const std::string& text); // an empty text adds nothing
  void finish(bool complete);                   // a complete answer has a message then, even an empty one

  const Json& items() const { return items_; }
  const std::string& text() const { return message_; } // of the messages

 private:
  void open(Kind kind);
  void close(bool complete);
  void emit_part(const char* type, Json members) const;
  Json item(const char* status, bool with_text) const;
  Json part(const std::string& text) const;

  const Emit emit_;
  Json items_ = Json::array();
  bool open_ = false;
  Kind kind_ = Kind::message; // of the open item
  std::string id_, text_;
  std::string message_;
};

} // namespace ridge::server
