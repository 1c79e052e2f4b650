// Health, properties, slots and metrics.
#include "server/llamacpp/settings.h"
#include "server/reply.h"
#include "server/routes.h"
#include "text/fill/fill_tokens.h"

#include <fmt/format.h>

#include <string>

namespace ridge::server {
namespace {

std::string token_or_nothing(const text::Tokenizer& tokenizer, int32_t id) {
  return id < 0 ? std::string() : std::string(tokenizer.token_text(id));
}

} // namespace

void health(const Models&, const HttpRequest&, HttpResponse& response) { reply(response, {{"status", "ok"}}); }

void version(const Models&, const HttpRequest&, HttpResponse& response) {
  reply(response, {{"version", RIDGE_VERSION}});
}

void props(ModelService& service, const HttpRequest&, HttpResponse& response) {
  const engine::LoadedModel& model = service.model();
  Json properties = {{"model", service.name()},
                     {"executor", model.executor->description()},
                     {"total_slots", model.executor->config().streams},
                     {"n_ctx", service.context()},
                     {"modalities", {{"vision", service.senses().pictures}, {"audio", service.senses().sounds}}},
                     {"model_alias", service.name()},
                     {"model_path", fmt::format("{}.gguf", service.name())}, // the folder stays private
                     {"bos_token", token_or_nothing(service.tokenizer(), service.tokenizer().bos())},
                     {"eos_token", token_or_nothing(service.tokenizer(), service.tokenizer().eos())},
                     {"build_info", fmt::format("ridge {}", RIDGE_VERSION)},
                     {"is_sleeping", false},
                     {"endpoint_slots", true},
                     {"endpoint_props", false},
                     {"endpoint_metrics", true}};
  if (const auto* texts = dynamic_cast<const Service*>(&service)) {
    properties["speculative"] = texts->scheduler().speculates();
    properties["chat_template"] = texts->chat_template().source();
    properties["fills_in"] = text::find_fill_tokens(service.tokenizer()).complete();
    properties["default_generation_settings"] = {{"id", 0},
                                                 {"n_ctx", service.context()},
                                                 {"speculative", texts->scheduler().speculates()},
                                                 {"is_processing", false},
                                                 {"params", settings_json(texts->sampling())}};
  }
  reply(response, properties);
}

void slots(Service& service, const HttpRequest&, HttpResponse& response) {
  Json list = Json::array();
  for (const int64_t position : service.scheduler().positions())
    list.push_back({{"id", list.size()},
                    {"n_ctx", service.context()},
                    {"speculative", service.scheduler().speculates()},
                    {"is_processing", position >= 0},
                    {"params", settings_json(service.sampling())},
                    {"n_past", std::max<int64_t>(position, 0)}});
  reply(response, list);
}

// In Prometheus' text format, with labels for several models.
void metrics(const Models& models, const HttpRequest&, HttpResponse& response) {
  const std::vector<Models::State> states = models.states();
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, const auto& value_of) {
    text += fmt::format("# HELP ridge_{0} {1}\n# TYPE ridge_{0} {2}\n", name, help, type);
    for (const Models::State& state : states) {
      std::string label;
      if (models.several()) label = fmt::format("{{model={}}}", Client::to_text(state.file.name));
      text += fmt::format("ridge_{}{} {:.15g}\n", name, label, static_cast<double>(value_of(state)));
    }
  };
  const auto count = [&](const char* name, const char* type, const char* help, auto member) {
    add(name, type, help, [member](const Models::State& state) { return state.counts.*member; });
  };
  using Counts = engine::Scheduler::Counts;
  if (models.several()) {
    add("model_loaded", "gauge", "Whether the model is loaded.",
        [](const Models::State& state) { return state.loaded; });
    add("model_waiting", "gauge", "Requests in the model's queue until it is loaded.",
        [](const Models::State& state) { return state.waiting; });
  }
  count("requests_running", "gauge", "Requests being evaluated.", &Counts::running);
  count("requests_waiting", "gauge", "Requests that wait for a stream.", &Counts::waiting);
  count("requests_total", "counter", "Requests that have ended.", &Counts::ended);
  count("preemptions_total", "counter", "Times that a request lost its stream to another one and waited again.",
        &Counts::preemptions);
  count("requests_failed_total", "counter", "Requests whose answers ended with an error.", &RequestCounts::failed);
  count("ignored_fields_total", "counter", "Fields of requests that no API has, which were ignored.",
        &RequestCounts::ignored_fields);
  count("prompt_tokens_total", "counter", "Tokens of prompts.", &Counts::prompt_tokens);
  count("cached_tokens_total", "counter", "Tokens of prompts that were in the cache.", &Counts::cached_tokens);
  count("prefix_cache_tokens_total", "counter", "Of the cached tokens, those that came from the prefix cache.",
        &Counts::stored_tokens);
  count("prefix_disk_tokens_total", "counter", "Of these, those that came from the prefix cache's folder.",
        &Counts::disk_tokens);
  count("prefix_cache_bytes", "gauge", "Memory that the prefix cache holds.", &Counts::stored_bytes);
  count("generated_tokens_total", "counter", "Tokens generated by requests that have ended.",
        &Counts::generated_tokens);
  count("draft_tokens_total", "counter", "Tokens guessed ahead for requests that have ended.", &Counts::guesses_made);
  count("draft_tokens_accepted_total", "counter", "Of these, tokens that were right.", &Counts::guesses_right);
  count("steps_total", "counter", "Steps of the model.", &Counts::steps);
  count("step_seconds_total", "counter", "Time of all steps.", &Counts::seconds);
  count("step_bytes_total", "counter", "Bytes that all steps moved, by the cost of their operations.", &Counts::bytes);
  count("schema_misses_total", "counter", "Calls and answers that broke what grammars leave out of their schemas.",
        &RequestCounts::schema_misses);
  response.content = text;
  response.content_type = "text/plain; version=0.0.4";
}

} // namespace ridge::server
