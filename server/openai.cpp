#include "server/openai.h"

#include "server/api_error.h"

#include <algorithm>
#include <charconv>
#include <ctime>

namespace ridge::server {
namespace {

constexpr int64_t kMostAnswers = 16;
constexpr int64_t kMostPriority = int64_t{1} << 53; // whole numbers that JSON has

// An object of token ids and what is added to their logits.
void take_bias(const Fields& biases, core::SamplerParams& params) {
  params.bias.clear();
  for (const auto& [token, value] : biases.json().items()) {
    core::SamplerParams::Bias one = {};
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), one.token);
    if (error != std::errc() || end != token.data() + token.size() || one.token < 0)
      throw_invalid("logit_bias", "logit_bias: expected token ids as names, such as {{\"1734\": -100}}");
    one.bias = static_cast<float>(biases.number(token.c_str(), -100, 100).value_or(0));
    params.bias.push_back(one);
  }
}

} // namespace

int64_t priority_of(const Fields& body) { return body.integer("priority", -kMostPriority, kMostPriority).value_or(0); }

int64_t answers_wanted(const Fields& body) { return body.integer("n", 1, kMostAnswers).value_or(1); }

void take_sampling(const Fields& body, core::SamplingOptions& sampling) {
  take_numbers(body, sampling.params);
  for (const char* name : {"max_tokens", "max_completion_tokens"})
    if (const auto most = body.integer(name, 0, INT32_MAX)) sampling.max_tokens = *most;
  if (body.find("stop")) sampling.stop = body.texts("stop", kMostStops);
  if (const auto biases = body.object("logit_bias")) take_bias(*biases, sampling.params);
}

std::vector<Generation> copies(const Generation& generation, int64_t answers) {
  std::vector<Generation> all(answers, generation);
  if (generation.sampling.params.seed >= 0)
    for (int64_t i = 0; i < answers; ++i) all[i].sampling.params.seed += i;
  return all;
}

const char* finish_reason(const Answers::Answer& answer) {
  using engine::StopReason;
  if (answer.stop == StopReason::limit || answer.stop == StopReason::context_full) return "length";
  return answer.text.calls() > 0 ? "tool_calls" : "stop";
}

std::string token_text(const Service& service, int32_t token) {
  return service.tokenizer().decode(std::span(&token, 1), {.render_special = true, .continues = true});
}

OpenAiReply::OpenAiReply(Service& service, const Fields& body, const Names& names,
                         const std::vector<Generation>& generations)
    : service_(service), names_(names), stream_(body.flag("stream").value_or(false)),
      model_(body.text("model").value_or(service.name())), id_(new_id(names.id)), created_(std::time(nullptr)),
      answers_(service, names.route, generations) {
  if (const auto options = body.object("stream_options"))
    usage_in_stream_ = options->flag("include_usage").value_or(false);
}

void OpenAiReply::send(std::shared_ptr<OpenAiReply> reply, HttpResponse& response) {
  const Stream stream = reply->stream_ ? Stream::events : Stream::none;
  reply_later(response, stream, ErrorForm::openai, [reply = std::move(reply)](Client& client) { reply->run(client); });
}

void OpenAiReply::run(Client& client) { stream_ ? stream(client) : answer(client); }

void OpenAiReply::stream(Client& client) {
  const auto send_choice = [&](Json choice, bool last) {
    if (choice.is_null()) return;
    Json chunk = envelope(names_.event, Json::array({std::move(choice)}));
    if (last && !usage_in_stream_) chunk["timings"] = timings();
    client.event(chunk);
  };
  for (size_t i = 0; i < answers(); ++i) send_choice(opening(i), false);
  if (!answers_.follow([&] { return client.is_there(); },
                       [&](size_t i, const auto* token, const auto& piece) {
                         const bool last = !token && std::ranges::all_of(answers_.all(), &Answers::Answer::ended);
                         send_choice(event(i, token, piece), last);
                       }))
    return;
  if (usage_in_stream_) {
    Json last = envelope(names_.event, Json::array());
    last["usage"] = usage();
    last["timings"] = timings();
    client.event(last);
  }
  client.write("data: [DONE]\n\n");
}

void OpenAiReply::answer(Client& client) {
  if (!answers_.follow([&] { return client.is_there(); },
                       [&](size_t i, const auto* token, const auto& piece) { add(i, token, piece); }))
    return;
  Json choices = Json::array();
  for (size_t i = 0; i < answers(); ++i) choices.push_back(whole(i));
  Json object = envelope(names_.whole, std::move(choices));
  object["usage"] = usage();
  object["timings"] = timings();
  client.line(object);
}

Json OpenAiReply::envelope(const char* object, Json choices) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}, {"choices", std::move(choices)}};
}

Json OpenAiReply::usage() const {
  const int64_t prompt = answers_.prompt_tokens(), generated = answers_.generated_tokens();
  return {{"prompt_tokens", prompt},
          {"completion_tokens", generated},
          {"total_tokens", prompt + generated},
          {"prompt_tokens_details", {{"cached_tokens", answers_.cached_tokens()}}}};
}

// What the answers took, in the words of llama.cpp's server.
Json OpenAiReply::timings() const {
  const engine::Usage prompt = answers_.prompt_usage(), generation = answers_.generation_usage();
  const engine::GuessCounts guesses = answers_.guesses();
  const auto per_token_ms = [](const engine::Usage& usage) {
    return 1e3 * usage.seconds / static_cast<double>(std::max<int64_t>(1, usage.tokens));
  };
  Json timings = {{"cache_n", answers_.cached_tokens()},
                  {"prompt_n", prompt.tokens},
                  {"prompt_ms", 1e3 * prompt.seconds},
                  {"prompt_per_token_ms", per_token_ms(prompt)},
                  {"prompt_per_second", prompt.tokens_per_second()},
                  {"predicted_n", answers_.generated_tokens()},
                  {"predicted_ms", 1e3 * generation.seconds},
                  {"predicted_per_token_ms", per_token_ms(generation)},
                  {"predicted_per_second", generation.tokens_per_second()}};
  if (guesses.steps > 0) {
    timings["draft_n"] = guesses.all_made();
    timings["draft_n_accepted"] = guesses.all_right();
  }
  return timings;
}

} // namespace ridge::server
