// The items that POST /v1/responses takes and gives: a conversation's messages in the form of OpenAI's newer API.
#pragma once

#include "server/fields.h"
#include "text/calls/call_parser.h"

#include <functional>
#include <string>

namespace ridge::server {

class ResponseStore;

// Adds the `input` of a request, a text or a list of items, to a conversation's messages, which have the form that
// text::read_messages() gives. Reasoning and what other servers' tools did are left out, and so are references to items
// that the store does not have. Throws ApiError for what is malformed, for items that are neither text nor calls, and
// for the output of a call that is not there.
void add_input(Json& messages, const Json& input, const ResponseStore& store);
// The `input` as a list of items with ids.
Json listed_input(const Json& input);

// The items of an answer as they come: each piece of text becomes part of an item, and of events that say so.
class OutputItems {
 public:
  enum class Kind { reasoning, message, call };
  // An event: its type and members.
  using Emit = std::function<void(const char* type, Json members)>;
  explicit OutputItems(Emit emit) : emit_(std::move(emit)) {}

  // An empty text adds nothing; of calls there is add_call(). `logprobs`: of the tokens of a message's text.
  void add(Kind kind, const std::string& text, Json logprobs = Json::array());
  void add_call(const text::CallParser::Delta& delta);
  void finish(bool complete); // a complete answer has a message or a call then, even an empty message

  const Json& items() const { return items_; }
  Json message() const; // the answer as a chat's message, with the calls that are complete

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
  Kind kind_ = Kind::message;                  // of the open item
  std::string id_, text_, call_id_, function_; // its text is a call's arguments
};

} // namespace ridge::server
