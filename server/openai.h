// What OpenAI's routes for chats and completions share.
#pragma once

#include "server/answers.h"
#include "server/reply.h"

#include <optional>
#include <string>

namespace ridge::server {

// How a request wants its answers.
struct OpenAiOptions {
  int64_t answers = 1; // n
  bool stream = false, usage_in_stream = false;
};
OpenAiOptions openai_options(const Fields& body);

// Takes a body's sampling parameters; what it leaves open stays. Throws ApiError for values out of range, and for
// parameters that would change the answer and are not supported.
void take_sampling(const Fields& body, core::SamplingOptions& sampling);

// One generation for each of `answers`, with a seed of its own.
std::vector<Generation> copies(const Generation& generation, int64_t answers);

std::string new_id(const char* prefix);
const char* finish_reason(engine::StopReason stop); // "stop" or "length"
Json usage_json(const Answers& answers);

// A token's text, which may be a part of a character; then it has U+FFFD, and its bytes tell.
std::string token_text(const Service& service, int32_t token);

// One line about a request that was served, or whose client has gone.
void log_answers(const Service& service, const char* route, const Answers& answers, bool whole);

} // namespace ridge::server
