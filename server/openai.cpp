#include "server/openai.h"

#include "core/random.h"
#include "server/api_error.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <random>

namespace ridge::server {
namespace {

constexpr int64_t kMostAnswers = 16, kMostStops = 16;

void refuse_unsupported(const Fields& body) {
  const Json* bias = body.find("logit_bias");
  if (bias && !bias->empty()) throw_invalid("logit_bias", "logit_bias is not supported");
  const Json *tools = body.find("tools"), *choice = body.find("tool_choice");
  if (tools && !tools->empty() && !(choice && *choice == "none"))
    throw_invalid("tools", "tools are not supported; send tool_choice \"none\" to have them ignored");
}

void take_format(const Fields& format, core::SamplingOptions& sampling) {
  const std::string type = format.text("type").value_or("");
  if (type == "json_object") {
    sampling.json_schema = R"({"type": "object"})";
  } else if (type == "json_schema") {
    const auto named = format.object("json_schema");
    if (!named) throw_invalid(format.path_of("json_schema"), "{} is missing", format.path_of("json_schema"));
    sampling.json_schema = Client::to_text(named->required("schema"));
  } else if (type != "text") {
    throw_invalid(format.path_of("type"), "{}: expected text, json_object or json_schema", format.path_of("type"));
  }
}

} // namespace

OpenAiOptions openai_options(const Fields& body) {
  OpenAiOptions options;
  options.answers = body.integer("n", 1, kMostAnswers).value_or(1);
  options.stream = body.flag("stream").value_or(false);
  if (const auto stream = body.object("stream_options"))
    options.usage_in_stream = stream->flag("include_usage").value_or(false);
  return options;
}

void take_sampling(const Fields& body, core::SamplingOptions& sampling) {
  refuse_unsupported(body);
  core::SamplerParams& params = sampling.params;
  const auto take = [&](const char* name, float& value, double lowest, double highest) {
    if (const auto given = body.number(name, lowest, highest)) value = static_cast<float>(*given);
  };
  take("temperature", params.temp, 0, 100);
  take("top_p", params.top_p, 0, 1);
  take("min_p", params.min_p, 0, 1);
  take("typical_p", params.typical_p, 0, 1);
  take("presence_penalty", params.presence_penalty, -100, 100);
  take("frequency_penalty", params.frequency_penalty, -100, 100);
  take("repeat_penalty", params.repeat_penalty, 0.01, 100);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (const auto k = body.integer("top_k", 0, kMost)) params.top_k = static_cast<int32_t>(*k);
  if (const auto seed = body.integer("seed", -1, int64_t{1} << 53)) params.seed = *seed;
  for (const char* name : {"max_tokens", "max_completion_tokens"})
    if (const auto most = body.integer(name, 0, kMost)) sampling.max_tokens = *most;
  if (body.find("stop")) sampling.stop = body.texts("stop", kMostStops);
  if (const auto format = body.object("response_format")) take_format(*format, sampling);
}

std::vector<Generation> copies(const Generation& generation, int64_t answers) {
  std::vector<Generation> all(answers, generation);
  if (generation.sampling.params.seed >= 0)
    for (int64_t i = 0; i < answers; ++i) all[i].sampling.params.seed += i;
  return all;
}

std::string new_id(const char* prefix) {
  static const uint64_t seed = std::random_device{}();
  static std::atomic<uint64_t> next = 0;
  return fmt::format("{}-{:016x}", prefix, core::mix_bits(core::mix_bits(seed) + next++));
}

const char* finish_reason(engine::StopReason stop) {
  using engine::StopReason;
  return stop == StopReason::limit || stop == StopReason::context_full ? "length" : "stop";
}

Json usage_json(const Answers& answers) {
  const int64_t prompt = answers.prompt_tokens(), generated = answers.generated_tokens();
  return {{"prompt_tokens", prompt},
          {"completion_tokens", generated},
          {"total_tokens", prompt + generated},
          {"prompt_tokens_details", {{"cached_tokens", answers.cached_tokens()}}}};
}

std::string token_text(const Service& service, int32_t token) {
  return service.tokenizer().decode(std::span(&token, 1), {.render_special = true, .continues = true});
}

void log_answers(const Service& service, const char* route, const Answers& answers, bool whole) {
  double reading = 0;
  engine::Usage generation;
  for (const Answers::Answer& answer : answers.all()) {
    reading += answer.sequence->prompt_usage().seconds;
    generation += answer.sequence->generation_usage();
  }
  service.log(fmt::format("{}{}: prompt {} tokens ({} cached, {:.2f} s), answer {} tokens ({:.1f} tok/s, {:.1f} GB/s)",
                          route, whole ? "" : " (client gone)", answers.prompt_tokens(), answers.cached_tokens(),
                          reading, answers.generated_tokens(), generation.tokens_per_second(),
                          generation.bytes_per_second() / 1e9));
}

} // namespace ridge::server
