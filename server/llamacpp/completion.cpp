// POST /completion and /infill (llama.cpp).
#include "engine/prefixes/stream_cache.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "server/json/errors.h"
#include "server/json/reply.h"
#include "server/llamacpp/line_guard.h"
#include "server/openai.h"
#include "server/requests/fill.h"
#include "server/requests/request_fields.h"
#include "server/routes.h"
#include "server/settings.h"

#include <algorithm>
#include <memory>
#include <span>

namespace ridge::server {
namespace {

constexpr size_t kMaxPrompts = 2048;
constexpr size_t kMaxFiles = 1024;

bool is_text_or_token(const Json& json) { return json.is_string() || json.is_number(); }

std::vector<int32_t> prompt_of(const Service& service, const Json& given, const std::string& path, bool begins) {
  if (given.is_string()) return raw_tokens(service, given.get<std::string>(), true, begins);
  if (given.is_object()) {
    const Fields object(given, path);
    if (const Json* data = object.find("multimodal_data"); data && !data->empty())
      throw_invalid(object.path_of("multimodal_data"),
                    "{}: this route accepts only text; use /v1/chat/completions for images",
                    object.path_of("multimodal_data"));
    return prompt_of(service, object.required("prompt_string"), object.path_of("prompt_string"), begins);
  }
  if (!given.is_array() || given.empty() || !std::ranges::all_of(given, is_text_or_token))
    throw_invalid(path, "{}: expected a string, or a list of tokens and strings", path);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::vector<int32_t> part = given[i].is_string()
                                          ? raw_tokens(service, given[i].get<std::string>(), true, begins && i == 0)
                                          : token_ids(Json::array({given[i]}), fmt::format("{}[{}]", path, i));
    tokens.insert(tokens.end(), part.begin(), part.end());
  }
  return tokens;
}

bool is_list_of_prompts(const Json& given) {
  if (!given.is_array() || given.empty()) return false;
  return std::ranges::all_of(given, [](const Json& one) { return one.is_string(); }) ||
         std::ranges::any_of(given, [](const Json& one) { return one.is_array() || one.is_object(); });
}

std::vector<std::vector<int32_t>> prompts_of(const Service& service, const Fields& body) {
  const Json& given = body.required("prompt");
  if (!is_list_of_prompts(given)) return {prompt_of(service, given, "prompt", true)};
  if (given.size() > kMaxPrompts) throw_invalid("prompt", "prompt: a list of at most {}", kMaxPrompts);
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < given.size(); ++i)
    prompts.push_back(prompt_of(service, given[i], fmt::format("prompt[{}]", i), true));
  return prompts;
}

std::vector<text::FillFile> files_of(const Fields& body) {
  const Json* given = body.find("input_extra");
  if (!given) return {};
  if (!given->is_array() || given->size() > kMaxFiles)
    throw_invalid("input_extra", "input_extra: expected a list of at most {} objects", kMaxFiles);
  std::vector<text::FillFile> files;
  for (size_t i = 0; i < given->size(); ++i) {
    const Fields file((*given)[i], fmt::format("input_extra[{}]", i));
    file.required("text");
    files.push_back({file.text("filename").value_or("tmp"), *file.text("text")});
  }
  return files;
}

// A text beyond the context keeps only the parts near the gap.
std::vector<int32_t> infill_prompt(const Service& service, const Fields& body, int64_t most_generated) {
  const auto tokens = [&](const char* name, bool needed) {
    if (needed) body.required(name);
    const Json* given = body.find(name);
    if (!given || *given == "") return std::vector<int32_t>();
    if (given->is_string()) return service.tokenizer().encode(given->get_ref<const std::string&>());
    return prompt_of(service, *given, name, false);
  };
  const text::FillText text = {tokens("input_prefix", true), tokens("input_suffix", true), tokens("prompt", false),
                               files_of(body)};
  const int64_t context = service.context(), answer = most_generated < 0 ? context / 8 : most_generated;
  return fill_prompt(service, text, std::max<int64_t>(context - answer, context / 2));
}

struct Form {
  explicit Form(const Fields& body)
      : likely(body.integer("n_probs", 0, core::TokenChoice::kMax).value_or(0)),
        tokens(body.flag("return_tokens").value_or(false)), timings(body.flag("timings_per_token").value_or(false)),
        progress(body.flag("return_progress").value_or(false)),
        after_samplers(body.flag("post_sampling_probs").value_or(false)),
        least_indent(body.integer("n_indent", 0, INT32_MAX).value_or(0)),
        seconds(static_cast<double>(body.integer("t_max_predict_ms", -1, INT32_MAX).value_or(-1)) / 1e3),
        fields(body.texts("response_fields", 64)) {}

  int64_t likely;
  bool tokens, timings, progress, after_samplers;
  int64_t least_indent;
  double seconds; // time limit after the first line; <= 0: none
  std::vector<std::string> fields;
};

class NativeReply {
 public:
  NativeReply(Service& service, const Fields& body, const char* route, bool infill)
      : NativeReply(service, body, route, generations_of(service, body, infill)) {}

  static void send(const std::shared_ptr<NativeReply>& reply, HttpResponse& response) {
    reply_later(response, reply->stream_ ? Stream::events : Stream::none, ErrorForm::openai,
                [reply](Client& client) { reply->run(client); });
  }

 private:
  struct Part { // unsent, or all without a stream
    explicit Part(int64_t least_indent) : guard(least_indent) {}
    LineGuard guard;
    std::string text;
    std::vector<int32_t> tokens;
    Json probabilities = Json::array();
    bool has_new_line = false;
  };

  NativeReply(Service& service, const Fields& body, const char* route, const std::vector<Generation>& generations)
      : service_(service), form_(body), stream_(body.flag("stream").value_or(false)),
        model_(body.text("model").value_or(service.name())),
        settings_(settings_json(generations[0].sampling, &service.tokenizer())), answers_(service, route, generations) {
    settings_["n_probs"] = form_.likely;
    settings_["stream"] = stream_;
    settings_["post_sampling_probs"] = form_.after_samplers;
    settings_["timings_per_token"] = form_.timings;
    for (const Generation& generation : generations) {
      prompts_.push_back(service.tokenizer().decode(generation.prompt, {.render_special = true}));
      parts_.emplace_back(form_.least_indent);
    }
  }

  static std::vector<Generation> generations_of(const Service& service, const Fields& body, bool infill) {
    Generation generation;
    generation.sampling = service.sampling();
    take_sampling(service, body, generation);
    hold(service, answer_form(body), generation);
    const Form form(body);
    generation.keep_choices = form.likely > 0;
    generation.choices_after_samplers = form.after_samplers;
    int64_t wanted = answers_wanted(body);
    if (const auto several = body.integer("n_cmpl", 1, 16)) wanted = *several;
    std::vector<std::vector<int32_t>> prompts;
    if (infill)
      prompts.push_back(infill_prompt(service, body, generation.sampling.max_tokens));
    else
      prompts = prompts_of(service, body);
    if (prompts.size() * static_cast<size_t>(wanted) > kMaxPrompts)
      throw_invalid("prompt", "{} answers to each of {} prompts exceed the limit of {}", wanted, prompts.size(),
                    kMaxPrompts);
    std::vector<Generation> all;
    for (std::vector<int32_t>& prompt : prompts) {
      engine::check_prompt(prompt, service.context(), service.model().program.vocab);
      generation.prompt = std::move(prompt);
      for (Generation& copy : copies(generation, wanted)) all.push_back(std::move(copy));
      generation.stream = -1; // of the first prompt
    }
    return all;
  }

  void run(Client& client) {
    if (stream_ && form_.progress) answers_.call_while_waiting([&] { return send_progress(client); });
    const bool whole = answers_.follow([&] { return client.is_there(); },
                                       [&](size_t i, const engine::Sequence::Token* token, const auto& piece) {
                                         if (token && stream_ && form_.progress && answers_.all()[i].taken == 1)
                                           send_progress(client, i);
                                         take(i, token, piece.content);
                                         if (!stream_) return;
                                         client.event(token ? partial(i) : final(i));
                                       });
    if (!whole || stream_) return;
    if (answers_.all().size() == 1) {
      client.line(final(0));
      return;
    }
    Json list = Json::array();
    for (size_t i = 0; i < answers_.all().size(); ++i) list.push_back(final(i));
    client.line(list);
  }

  void take(size_t i, const engine::Sequence::Token* token, const std::string& content) {
    Part& part = parts_[i];
    if (token) {
      timings_.count_token();
      if (stream_ || form_.tokens) part.tokens.push_back(token->id);
      if (form_.likely > 0) part.probabilities.push_back(probabilities(*token->choice));
    }
    std::string sure = part.guard.push(content);
    if (!token) sure += part.guard.finish();
    part.has_new_line |= sure.find('\n') != std::string::npos;
    part.text += sure;
    const bool late = form_.seconds > 0 && part.has_new_line && timings_.seconds_generating() > form_.seconds;
    if (token && (part.guard.ended() || late)) answers_.cut(i);
  }

  bool send_progress(Client& client) {
    for (size_t i = 0; i < answers_.all().size(); ++i) {
      const Answers::Answer& answer = answers_.all()[i];
      if (answer.taken == 0 && !answer.ended && !send_progress(client, i)) return false;
    }
    return true;
  }

  bool send_progress(Client& client, size_t i) {
    const Answers::Answer& answer = answers_.all()[i];
    const int64_t read = answer.sequence->progress().read;
    if (std::exchange(sent_progress_, read) == read) return true;
    Json event = partial(i);
    event["prompt_progress"] = progress_json(answer, timings_.seconds());
    return client.event(event);
  }

  Json partial(size_t i) {
    Part& part = parts_[i];
    const Answers::Answer& answer = answers_.all()[i];
    Json json = {{"index", i},
                 {"content", std::exchange(part.text, {})},
                 {"tokens", std::exchange(part.tokens, {})},
                 {"stop", false},
                 {"id_slot", answer.sequence->progress().stream},
                 {"tokens_predicted", answer.taken},
                 {"tokens_evaluated", answer.prompt_tokens}};
    if (form_.timings) json["timings"] = timings_.json(answers_);
    if (!part.probabilities.empty())
      json["completion_probabilities"] = std::exchange(part.probabilities, Json::array());
    return json;
  }

  Json final(size_t i) {
    Part& part = parts_[i];
    const Answers::Answer& answer = answers_.all()[i];
    const int64_t generated = answer.text.stopped() || answer.cut ? answer.taken : answer.sequence->generated_tokens();
    Json json = {{"index", i},
                 {"content", std::move(part.text)},
                 {"tokens", std::move(part.tokens)},
                 {"id_slot", answer.sequence->progress().stream},
                 {"stop", true},
                 {"model", model_},
                 {"tokens_predicted", generated},
                 {"tokens_evaluated", answer.prompt_tokens},
                 {"generation_settings", settings_},
                 {"prompt", prompts_[i]},
                 {"has_new_line", part.has_new_line},
                 {"truncated", is_truncated(answer)},
                 {"stop_type", stop_type(answer)},
                 {"stopping_word", answer.text.stop()},
                 {"tokens_cached", answer.prompt_tokens + std::max<int64_t>(0, generated - 1)}, // the last one is not
                 {"timings", timings_.json(answers_)}};
    if (std::ranges::all_of(answers_.all(), &Answers::Answer::ended)) json["timings"] = timings_json(answers_);
    if (!part.probabilities.empty()) json["completion_probabilities"] = std::move(part.probabilities);
    return form_.fields.empty() ? json : chosen_fields(json);
  }

  // By the context's end; a prompt is never shortened.
  bool is_truncated(const Answers::Answer& answer) const {
    return answer.ended && !answer.text.stopped() && !answer.cut &&
           answer.sequence->stop() == engine::StopReason::context_full;
  }

  static const char* stop_type(const Answers::Answer& answer) {
    if (answer.text.stopped()) return "word";
    return answer.is_cut() ? "limit" : "eos";
  }

  Json chosen_fields(const Json& whole) const {
    Json chosen = Json::object();
    for (const std::string& path : form_.fields) {
      const Json* at = &whole;
      for (size_t from = 0; at && from <= path.size();) {
        const size_t end = std::min(path.find('/', from), path.size());
        const auto member = at->is_object() ? at->find(path.substr(from, end - from)) : at->end();
        at = at->is_object() && member != at->end() ? &*member : nullptr;
        from = end + 1;
      }
      if (at) chosen[path] = *at;
    }
    return chosen;
  }

  Json probabilities(const core::TokenChoice& choice) const {
    const auto entry = [&](int32_t token, float log_probability) {
      const std::string_view piece = service_.tokenizer().piece(token);
      Json json = {{"id", token},
                   {"token", token_text(service_, token)},
                   {"bytes", std::vector<uint8_t>(piece.begin(), piece.end())}};
      if (form_.after_samplers)
        json["prob"] = std::exp(log_probability);
      else
        json["logprob"] = written_logprob(log_probability);
      return json;
    };
    Json chosen = entry(choice.token, choice.log_probability), top = Json::array();
    for (const core::TokenChoice::Likely& one : std::span(choice.top).first(static_cast<size_t>(form_.likely)))
      if (one.token >= 0) top.push_back(entry(one.token, one.log_probability));
    chosen[form_.after_samplers ? "top_probs" : "top_logprobs"] = std::move(top);
    return chosen;
  }

  const Service& service_;
  const Form form_;
  const bool stream_;
  const std::string model_;
  Json settings_;
  std::vector<std::string> prompts_;
  std::vector<Part> parts_;
  int64_t sent_progress_ = -1;
  RunningTimings timings_;
  Answers answers_;
};

void answer(Service& service, const HttpRequest& request, HttpResponse& response, const char* route, bool infill) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  check_fields(service, fields, infill ? Api::infill : Api::native);
  try {
    NativeReply::send(std::make_shared<NativeReply>(service, fields, route, infill), response);
  } catch (const engine::PromptTooLong& error) {
    ApiError own = to_api_error(error);
    own.type = "exceed_context_size_error"; // by which llama.cpp's clients know it
    throw own;
  }
}

} // namespace

void llamacpp_completion(Service& service, const HttpRequest& request, HttpResponse& response) {
  answer(service, request, response, "/completion", false);
}

void llamacpp_infill(Service& service, const HttpRequest& request, HttpResponse& response) {
  answer(service, request, response, "/infill", true);
}

} // namespace ridge::server
