// Output constraints: `response_format`, `grammar`, `json_schema`, `guided_json`, `guided_regex`, `guided_choice`,
// `guided_grammar`, `structured_outputs` (OpenAI, llama.cpp, vLLM).
#pragma once

#include "server/json/fields.h"

#include <string>

namespace ridge::server {

struct AnswerForm {
  Json schema = nullptr;
  std::string gbnf; // may be empty; excludes a schema
  std::string from;
};

// Throws ApiError for several or malformed ones. Grammar and schema are checked when used.
AnswerForm answer_form(const Fields& body);

} // namespace ridge::server
