// Health, properties, slots and metrics.
#include "server/json/reply.h"
#include "server/routes.h"
#include "server/settings.h"
#include "text/fill/fill_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ridge::server {
namespace {

std::string token_or_nothing(const text::Tokenizer& tokenizer, int32_t id) {
  return id < 0 ? std::string() : std::string(tokenizer.token_text(id));
}

// By which llama.cpp's clients know that models are loaded by name.
Json router_properties() {
  return {{"role", "router"},          {"max_instances", 0}, // limited by memory, not by number
          {"models_autoload", true},   {"model_alias", "ridge"},
          {"model_path", "none"},      {"default_generation_settings", {{"params", Json::object()}, {"n_ctx", 0}}},
          {"build_info", build_info()}};
}

Json properties_of(const ModelService& service) {
  const engine::LoadedModel& model = service.model();
  Json properties = {{"model", service.name()},
                     {"role", "model"},
                     {"executor", model.executor->description()},
                     {"total_slots", model.executor->config().streams},
                     {"n_ctx", service.context()},
                     {"modalities", {{"vision", service.senses().pictures}, {"audio", service.senses().sounds}}},
                     {"model_alias", service.name()},
                     {"model_path", fmt::format("{}.gguf", service.name())}, // the folder stays private
                     {"bos_token", token_or_nothing(service.tokenizer(), service.tokenizer().bos())},
                     {"eos_token", token_or_nothing(service.tokenizer(), service.tokenizer().eos())},
                     {"build_info", build_info()},
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
  return properties;
}

} // namespace

void health(const Models&, const HttpRequest&, HttpResponse& response) { reply(response, {{"status", "ok"}}); }

void version(const Models&, const HttpRequest&, HttpResponse& response) {
  reply(response, {{"version", RIDGE_VERSION}});
}

void props(Models& models, const HttpRequest& request, HttpResponse& response) {
  const auto name = request.parameter("model");
  if (models.several() && (!name || name->empty())) return reply(response, router_properties());
  if (const auto load = request.parameter("autoload"); models.several() && (load == "false" || load == "0"))
    for (const Models::State& state : models.states())
      if (state.file.name == *name && !state.loaded) throw_invalid("model", "the model {} is not loaded", *name);
  const ModelService::Use use = models.use(std::optional<std::string>(name), false, request.is_there);
  reply(response, properties_of(use.service()));
}

void slots(Service& service, const HttpRequest& request, HttpResponse& response) {
  Json list = Json::array();
  const std::vector<int64_t> positions = service.scheduler().positions();
  if (request.parameter("fail_on_no_slot") && std::ranges::none_of(positions, [](int64_t at) { return at < 0; }))
    throw ApiError(503, "unavailable_error", "no slot available");
  for (const int64_t position : positions)
    list.push_back({{"id", list.size()},
                    {"n_ctx", service.context()},
                    {"speculative", service.scheduler().speculates()},
                    {"is_processing", position >= 0},
                    {"n_past", std::max<int64_t>(position, 0)}});
  for (const api::Sequences::Row& row : service.scheduler().sequences().rows)
    if (row.stream >= 0 && positions[row.stream] >= 0)
      list[row.stream].update(
          {{"id_task", row.number},
           {"n_prompt_tokens", row.evaluated_tokens},
           {"n_prompt_tokens_processed", std::min(row.evaluated_tokens, row.prompt_tokens)},
           {"n_prompt_tokens_cache", row.cached_tokens},
           {"next_token", Json::array({{{"has_next_token", true}, {"n_decoded", row.answer_tokens}}})}});
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
    add("model_waiting", "gauge", "Requests waiting for the model to load.",
        [](const Models::State& state) { return state.waiting; });
  }
  count("requests_running", "gauge", "Requests being evaluated.", &Counts::running);
  count("requests_waiting", "gauge", "Requests waiting for a stream.", &Counts::waiting);
  count("requests_total", "counter", "Completed requests.", &Counts::ended);
  count("preemptions_total", "counter", "Times that a request lost its stream to another one and was queued again.",
        &Counts::preemptions);
  count("requests_failed_total", "counter", "Requests whose answers ended with an error.", &RequestCounts::failed);
  count("ignored_fields_total", "counter", "Unknown request fields that were ignored.", &RequestCounts::ignored_fields);
  count("prompt_tokens_total", "counter", "Prompt tokens.", &Counts::prompt_tokens);
  count("cached_tokens_total", "counter", "Prompt tokens found in the cache.", &Counts::cached_tokens);
  count("prefix_cache_tokens_total", "counter", "Cached tokens that came from the prefix cache.",
        &Counts::stored_tokens);
  count("prefix_disk_tokens_total", "counter", "Prefix cache tokens that came from its folder.", &Counts::disk_tokens);
  count("prefix_cache_bytes", "gauge", "Memory used by the prefix cache.", &Counts::stored_bytes);
  count("generated_tokens_total", "counter", "Tokens generated for completed requests.", &Counts::generated_tokens);
  count("draft_tokens_total", "counter", "Draft tokens for completed requests.", &Counts::guesses_made);
  count("draft_tokens_accepted_total", "counter", "Draft tokens that were accepted.", &Counts::guesses_right);
  count("steps_total", "counter", "Forward passes of the model.", &Counts::steps);
  count("step_seconds_total", "counter", "Time of all forward passes.", &Counts::seconds);
  count("step_bytes_total", "counter", "Bytes moved by all forward passes, by the cost of their operations.",
        &Counts::bytes);
  count("schema_misses_total", "counter",
        "Tool calls and answers that violate parts of their schemas that grammars do not enforce.",
        &RequestCounts::schema_misses);
  response.content = text;
  response.content_type = "text/plain; version=0.0.4";
}

} // namespace ridge::server
