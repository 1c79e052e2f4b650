#include "server/openai.h"

#include "core/error.h"
#include "engine/calls/call_constraint.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/requests/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <span>
#include <utility>

namespace ridge::server {
namespace {

constexpr int64_t kMaxAnswers = 16;
constexpr double kMaxBias = 100;
constexpr int64_t kMaxPriority = int64_t{1} << 53; // JSON's largest exact integer

void add_bias(core::SamplerParams& params, std::span<const int32_t> tokens, float bias) {
  for (const int32_t token : tokens) params.bias.push_back({token, bias});
}

// Tokens of an id or a text.
std::vector<int32_t> tokens_of(const Service& service, const Json& given) {
  if (given.is_number_integer() && given.get<double>() >= 0 && given.get<double>() <= INT32_MAX)
    return {given.get<int32_t>()};
  if (!given.is_string()) throw_invalid("logit_bias", "logit_bias: expected token ids or texts");
  return service.tokenizer().encode(given.get<std::string>(), {.parse_special = true});
}

// Takes an object of token ids or texts and biases, or llama.cpp's list of [token or text, bias or false (never)].
void take_bias(const Service& service, const Fields& body, core::SamplerParams& params) {
  const Json* given = body.find("logit_bias");
  if (!given) return;
  params.bias.clear();
  if (given->is_array()) {
    for (const Json& pair : *given) {
      if (!pair.is_array() || pair.size() != 2)
        throw_invalid("logit_bias", "logit_bias: expected pairs of token and bias");
      const bool never = pair[1] == false;
      if (!never && !(pair[1].is_number() && std::abs(pair[1].get<double>()) <= kMaxBias))
        throw_invalid("logit_bias", "logit_bias: expected numbers from {} to {}, or false", -kMaxBias, kMaxBias);
      add_bias(params, tokens_of(service, pair[0]), never ? kNeverBias : pair[1].get<float>());
    }
    return;
  }
  const Fields biases(*given, "logit_bias");
  for (const auto& [key, value] : biases.json().items()) {
    const auto bias = static_cast<float>(biases.number(key.c_str(), -kMaxBias, kMaxBias).value_or(0));
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    const bool is_id = error == std::errc() && end == key.data() + key.size() && token >= 0;
    if (!is_id && key.find_first_not_of("0123456789") == std::string::npos)
      throw_invalid("logit_bias", "logit_bias: expected token ids or texts as keys, found {}", key.substr(0, 100));
    add_bias(params, is_id ? std::vector{token} : tokens_of(service, key), bias);
  }
}

void take_ends(const Fields& body, Generation& generation) {
  if (body.find("stop")) generation.sampling.stop = body.texts("stop", kMaxStops);
  if (const auto ignored = body.flag("ignore_eos")) generation.sampling.ignore_eos = *ignored;
  if (const Json* tokens = body.find("stop_token_ids")) generation.stop_tokens = token_ids(*tokens, "stop_token_ids");
  generation.min_tokens = body.integer("min_tokens", 0, INT32_MAX).value_or(0);
  const int64_t most = generation.sampling.max_tokens;
  if (most >= 0 && generation.min_tokens > most)
    throw_invalid("min_tokens", "min_tokens: {} exceeds the maximum length of the answer, {}", generation.min_tokens,
                  most);
}

} // namespace

int64_t priority_of(const Fields& body) { return body.integer("priority", -kMaxPriority, kMaxPriority).value_or(0); }

int64_t answers_wanted(const Fields& body) { return body.integer("n", 1, kMaxAnswers).value_or(1); }

void take_sampling(const Service& service, const Fields& body, Generation& generation, const char* most) {
  take_numbers(body, generation.sampling.params);
  take_adapters(body, service.model().program.adapters.size(), generation.sampling);
  for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens", most})
    if (const auto given = body.integer(name, -1, INT32_MAX)) generation.sampling.max_tokens = *given;
  take_ends(body, generation);
  take_bias(service, body, generation.sampling.params);
  generation.reuse = body.flag("cache_prompt").value_or(true);
  generation.priority = priority_of(body);
  if (const int64_t slot = body.integer("id_slot", -1, INT32_MAX).value_or(-1); slot >= 0)
    generation.stream = static_cast<int32_t>(slot % service.model().executor->config().streams);
}

void hold(const Service& service, const AnswerForm& form, Generation& generation) {
  api::SamplingOptions& sampling = generation.sampling;
  const bool chat = generation.chat_prompt.has_value();
  if (form.from.empty() || (chat && form.gbnf.empty())) return;
  sampling.grammar = sampling.grammar_file = sampling.json_schema = "";
  if (!form.schema.is_null()) {
    sampling.json_schema = Client::to_text(form.schema);
    return;
  }
  if (generation.calls && !generation.calls->tools.empty())
    throw_invalid(form.from,
                  "{}: cannot be combined with tools, whose calls must match their schemas; send it without tools",
                  form.from);
  try {
    const auto rules = engine::make_grammar_rules(service.call_format(), service.grammar(form.gbnf));
    if (chat)
      generation.calls = rules;
    else
      sampling.grammar = form.gbnf;
  } catch (const Error& error) {
    throw_invalid(form.from, "{}: {}", form.from, error.what());
  }
}

std::optional<int64_t> likely_wanted(const Fields& body) {
  return body.integer("top_logprobs", 0, core::TokenChoice::kMax);
}

std::vector<Generation> copies(const Generation& generation, int64_t answers) {
  std::vector<Generation> all(answers, generation);
  for (int64_t i = 1; i < answers; ++i) {
    int64_t& seed = all[i].sampling.params.seed;
    if (seed >= 0) seed = static_cast<int64_t>((static_cast<uint64_t>(seed) + static_cast<uint64_t>(i)) & INT64_MAX);
    all[i].copied = true;
    all[i].stream = -1;
  }
  return all;
}

const char* finish_reason(const Answers::Answer& answer) {
  if (answer.is_cut()) return "length";
  return answer.text.calls() > 0 ? "tool_calls" : "stop";
}

std::string token_text(const Service& service, int32_t token) {
  return service.tokenizer().decode(std::span(&token, 1), {.render_special = true, .continues = true});
}

float written_logprob(float log_probability) {
  return std::isfinite(log_probability) ? log_probability : -9999.0f; // OpenAI writes this value
}

Json logprobs_of(const Service& service, const core::TokenChoice& choice, int64_t likely) {
  const auto entry = [&](int32_t id, float log_probability) {
    const std::string_view piece = service.tokenizer().piece(id);
    return Json{{"token", token_text(service, id)},
                {"logprob", written_logprob(log_probability)},
                {"bytes", std::vector<uint8_t>(piece.begin(), piece.end())}};
  };
  Json chosen = entry(choice.token, choice.log_probability), top = Json::array();
  for (const core::TokenChoice::Likely& one : std::span(choice.top).first(likely))
    if (one.token >= 0) top.push_back(entry(one.token, one.log_probability));
  chosen["top_logprobs"] = std::move(top);
  return chosen;
}

OpenAiReply::OpenAiReply(Service& service, const Fields& body, const Names& names,
                         const std::vector<Generation>& generations)
    : service_(service), names_(names), stream_(body.flag("stream").value_or(false)),
      timings_in_events_(body.flag("timings_per_token").value_or(false)),
      progress_in_events_(body.flag("return_progress").value_or(false)),
      model_(body.text("model").value_or(service.name())), id_(new_id(names.id)), created_(std::time(nullptr)),
      answers_(service, names.route, generations) {
  if (const auto options = body.object("stream_options")) {
    usage_in_stream_ = options->flag("include_usage").value_or(false);
    usage_in_events_ = options->flag("continuous_usage_stats").value_or(false);
  }
}

void OpenAiReply::send(std::shared_ptr<OpenAiReply> reply, HttpResponse& response) {
  const Stream stream = reply->stream_ ? Stream::events : Stream::none;
  reply_later(response, stream, ErrorForm::openai, [reply = std::move(reply)](Client& client) { reply->run(client); });
}

void OpenAiReply::run(Client& client) { stream_ ? stream(client) : answer(client); }

void OpenAiReply::stream(Client& client) {
  std::string same = Client::to_text(envelope(names_.event, Json::array())); // of all events
  same.resize(same.size() - std::string_view("]}").size());
  const auto send_choice = [&](const Json& choice, bool last) {
    if (choice.is_null()) return;
    std::string chunk = same + Client::to_text(choice) + "]";
    const auto add = [&](const char* name, const Json& value) {
      chunk += fmt::format(R"(,"{}":{})", name, Client::to_text(value));
    };
    if (last && !usage_in_stream_)
      add("timings", timings_json(answers_));
    else if (timings_in_events_ && timings_.began())
      add("timings", timings_.json(answers_));
    if (usage_in_events_) add("usage", usage_so_far());
    client.event_text(chunk + "}");
  };
  for (size_t i = 0; i < answers(); ++i) send_choice(opening(i), false);
  if (progress_in_events_) answers_.call_while_waiting([&] { return send_progress(client); });
  if (!answers_.follow([&] { return client.is_there(); },
                       [&](size_t i, const auto* token, const auto& piece) {
                         if (token && progress_in_events_ && answers_.all()[i].taken == 1) send_progress(client, i);
                         if (token) timings_.count_token();
                         const bool last = !token && std::ranges::all_of(answers_.all(), &Answers::Answer::ended);
                         send_choice(event(i, token, piece), last);
                       }))
    return;
  if (usage_in_stream_) {
    Json last = envelope(names_.event, Json::array());
    last["usage"] = usage();
    last["timings"] = timings_json(answers_);
    client.event(last);
  }
  client.write("data: [DONE]\n\n");
}

bool OpenAiReply::send_progress(Client& client) {
  for (size_t i = 0; i < answers(); ++i) {
    const Answers::Answer& answer = answers_.all()[i];
    if (answer.taken == 0 && !answer.ended && !send_progress(client, i)) return false;
  }
  return true;
}

bool OpenAiReply::send_progress(Client& client, size_t i) {
  const Answers::Answer& answer = answers_.all()[i];
  const int64_t read = answer.sequence->progress().read;
  if (std::exchange(sent_progress_, read) == read) return true;
  Json chunk = envelope(names_.event, Json::array({empty_choice(i)}));
  chunk["prompt_progress"] = progress_json(answer, timings_.seconds());
  if (timings_in_events_) chunk["timings"] = timings_.json(answers_);
  return client.event(chunk);
}

void OpenAiReply::answer(Client& client) {
  if (!answers_.follow([&] { return client.is_there(); },
                       [&](size_t i, const auto* token, const auto& piece) { add(i, token, piece); }))
    return;
  Json choices = Json::array();
  for (size_t i = 0; i < answers(); ++i) choices.push_back(whole(i));
  Json object = envelope(names_.whole, std::move(choices));
  object["usage"] = usage();
  object["timings"] = timings_json(answers_);
  client.line(object);
}

Json OpenAiReply::envelope(const char* object, Json choices) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model_},
          {"system_fingerprint", build_info()},
          {"choices", std::move(choices)}};
}

Json OpenAiReply::usage_so_far() const {
  int64_t taken = 0;
  for (const Answers::Answer& answer : answers_.all()) taken += answer.taken;
  const int64_t prompt = answers_.prompt_tokens();
  return {{"prompt_tokens", prompt}, {"completion_tokens", taken}, {"total_tokens", prompt + taken}};
}

Json OpenAiReply::usage() const {
  const int64_t prompt = answers_.prompt_tokens(), generated = answers_.generated_tokens();
  return {{"prompt_tokens", prompt},
          {"completion_tokens", generated},
          {"total_tokens", prompt + generated},
          {"prompt_tokens_details", {{"cached_tokens", answers_.cached_tokens()}}}};
}

} // namespace ridge::server
