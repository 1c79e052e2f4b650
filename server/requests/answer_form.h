// What an answer's text is held to, in the words of OpenAI's API, of llama.cpp's server and of vLLM: `response_format`,
// `grammar`, `json_schema`, `guided_json`, `guided_regex`, `guided_choice`, `guided_grammar` and `structured_outputs`.
#pragma once

#include "server/fields.h"

#include <string>

namespace ridge::server {

struct AnswerForm {
  Json schema = nullptr; // of JSON; null: none
  std::string gbnf;      // a grammar; empty: none. At most one of both is there
  std::string from;      // the field that asks for it
};

// Throws ApiError where a body has several of them, or one that is malformed. Whether the grammar and the schema are
// usable is found out when they are used.
AnswerForm answer_form(const Fields& body);

} // namespace ridge::server
