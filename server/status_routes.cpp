// What the server and its model are and do: health, models, properties, streams, counters.
#include "server/api_error.h"
#include "server/reply.h"
#include "server/routes.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <string>

namespace ridge::server {

void health(const Models&, const HttpRequest&, HttpResponse& response) { reply(response, {{"status", "ok"}}); }

namespace {

Json openai_model_of(const Models& models, const Models::State& state) {
  Json model = {{"id", state.file.name}, {"object", "model"}, {"created", models.started()}, {"owned_by", "ridge"}};
  if (state.loaded) model["max_model_len"] = state.context;
  if (models.several()) model["status"] = state.loading ? "loading" : state.loaded ? "loaded" : "unloaded";
  return model;
}

Json ollama_model(const Models::State& state) {
  Json details = {{"format", "gguf"}};
  if (state.loaded) details["family"] = state.architecture;
  return {{"name", state.file.name}, {"model", state.file.name}, {"details", std::move(details)}};
}

} // namespace

void openai_models(const Models& models, const HttpRequest&, HttpResponse& response) {
  Json list = Json::array();
  for (const Models::State& state : models.states()) list.push_back(openai_model_of(models, state));
  reply(response, {{"object", "list"}, {"data", std::move(list)}});
}

void openai_model(const Models& models, const HttpRequest& request, HttpResponse& response) {
  const std::string& name = request.rest;
  for (const Models::State& state : models.states())
    if (state.file.name == name) return reply(response, openai_model_of(models, state));
  throw ApiError(404, "invalid_request_error",
                 fmt::format("there is no model {}; /v1/models lists those that there are", name), "model");
}

void ollama_tags(const Models& models, const HttpRequest&, HttpResponse& response) {
  Json list = Json::array();
  for (const Models::State& state : models.states()) {
    list.push_back(ollama_model(state));
    list.back()["capabilities"] = models.capabilities(state);
    std::error_code error; // the guide has no file
    if (const auto size = std::filesystem::file_size(state.file.path, error); !error) list.back()["size"] = size;
  }
  reply(response, {{"models", std::move(list)}});
}

void ollama_ps(const Models& models, const HttpRequest&, HttpResponse& response) {
  Json list = Json::array();
  for (const Models::State& state : models.states()) {
    if (!state.loaded) continue;
    Json model = ollama_model(state);
    model["size"] = static_cast<int64_t>(state.bytes);
    model["size_vram"] = static_cast<int64_t>(state.bytes * state.gpu_share);
    model["context_length"] = state.context;
    if (models.unload_after() > 0) {
      const auto left = std::chrono::seconds(static_cast<int64_t>(models.unload_after() - state.idle_seconds));
      const auto time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() + left);
      model["expires_at"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time));
    }
    list.push_back(std::move(model));
  }
  reply(response, {{"models", std::move(list)}});
}

void ollama_version(const Models&, const HttpRequest&, HttpResponse& response) {
  reply(response, {{"version", RIDGE_VERSION}});
}

void props(ModelService& service, const HttpRequest&, HttpResponse& response) {
  const engine::LoadedModel& model = service.model();
  Json properties = {{"model", service.name()},
                     {"executor", model.executor->description()},
                     {"total_slots", model.executor->config().streams},
                     {"n_ctx", service.context()}};
  if (const auto* texts = dynamic_cast<const Service*>(&service)) {
    properties["speculative"] = texts->scheduler().speculates();
    properties["chat_template"] = texts->chat_template().source();
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
                    {"n_past", std::max<int64_t>(position, 0)}});
  reply(response, list);
}

// In the text format of Prometheus; of several models with a label.
void metrics(const Models& models, const HttpRequest&, HttpResponse& response) {
  const std::vector<Models::State> states = models.states();
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, const auto& value_of) {
    text += fmt::format("# HELP ridge_{0} {1}\n# TYPE ridge_{0} {2}\n", name, help, type);
    for (const Models::State& state : states) {
      std::string label;
      if (models.several())
        label = fmt::format("{{model={}}}", Client::to_text(state.file.name)); // quoted as JSON text is
      text += fmt::format("ridge_{}{} {:.15g}\n", name, label, static_cast<double>(value_of(state)));
    }
  };
  const auto count = [&](const char* name, const char* type, const char* help,
                         auto engine::Scheduler::Counts::*member) {
    add(name, type, help, [member](const Models::State& state) { return state.counts.*member; });
  };
  using Counts = engine::Scheduler::Counts;
  if (models.several())
    add("model_loaded", "gauge", "Whether the model is loaded.",
        [](const Models::State& state) { return state.loaded; });
  count("requests_running", "gauge", "Requests being evaluated.", &Counts::running);
  count("requests_waiting", "gauge", "Requests that wait for a stream.", &Counts::waiting);
  count("requests_total", "counter", "Requests that have ended.", &Counts::ended);
  count("preemptions_total", "counter", "Times that a request lost its stream to another one and waited again.",
        &Counts::preemptions);
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
  add("schema_misses_total", "counter", "Calls and answers that broke what grammars leave out of their schemas.",
      [](const Models::State& state) { return state.schema_misses; });
  response.content = text;
  response.content_type = "text/plain; version=0.0.4";
}

} // namespace ridge::server
