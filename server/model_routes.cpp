// Lists models (OpenAI, Anthropic, Ollama).
#include "models/model.h"
#include "server/json/reply.h"
#include "server/routes.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <string>

namespace ridge::server {
namespace {

// The version that clients require for chats, tools, reasoning, and other APIs beside Ollama's.
constexpr const char* kOllamaVersion = "0.14.0";

std::string iso_time(int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

Json openai_model_of(const Models& models, const Models::State& state) {
  Json model = {{"id", state.file.name},
                {"object", "model"},
                {"created", models.modified(state)},
                {"owned_by", "ridge"},
                {"type", "model"},
                {"display_name", state.file.name},
                {"created_at", iso_time(models.modified(state))},
                {"capabilities", nullptr},
                {"max_input_tokens", nullptr},
                {"max_tokens", nullptr}};
  if (state.loaded) model["max_model_len"] = model["max_input_tokens"] = model["max_tokens"] = state.context;
  Json taken = {"text"};
  if (state.senses.pictures) taken.push_back("image");
  if (state.senses.sounds) taken.push_back("audio");
  model["architecture"] = {{"input_modalities", std::move(taken)}, {"output_modalities", Json(std::vector{"text"})}};
  if (state.loaded) model["meta"] = models.facts(state).meta;
  if (!state.file.aliases.empty()) model["aliases"] = state.file.aliases;
  if (models.several()) model["status"] = {{"value", state.loading ? "loading" : state.loaded ? "loaded" : "unloaded"}};
  return model;
}

Json ollama_model(const Models& models, const Models::State& state) {
  const FileFacts facts = models.facts(state);
  return {{"name", state.file.name},
          {"model", state.file.name},
          {"modified_at", iso_time(models.modified(state))},
          {"size", facts.bytes},
          {"digest", facts.digest},
          {"details", facts.details},
          {"capabilities", facts.capabilities}};
}

} // namespace

void openai_models(Models& models, const HttpRequest& request, HttpResponse& response) {
  if (const auto again = request.parameter("reload"); again && again != "0" && again != "false") models.reload();
  std::vector<Json> list;
  for (const Models::State& state : models.states()) list.push_back(openai_model_of(models, state));
  auto first = list.begin(), last = list.end();
  if (const auto after = request.parameter("after_id")) {
    first = std::ranges::find_if(list, [&](const Json& model) { return model["id"] == std::string(*after); });
    if (first != last) ++first;
  }
  if (const auto limit = request.parameter("limit")) {
    int64_t most = 0;
    std::from_chars(limit->data(), limit->data() + limit->size(), most);
    if (most < 1 || most > 1000) throw_invalid("limit", "limit: expected a whole number from 1 to 1000");
    last = first + std::min<int64_t>(most, last - first);
  }
  const Json data(std::vector<Json>(first, last));
  Json all = {{"object", "list"},
              {"data", data},
              {"has_more", last != list.end()},
              {"first_id", data.empty() ? Json() : data.front()["id"]},
              {"last_id", data.empty() ? Json() : data.back()["id"]}};
  // In the second form that llama.cpp has, with capabilities; reading the files of several models takes long.
  if (!models.several()) all["models"] = Json::array({ollama_model(models, models.states().front())});
  reply(response, all);
}

void openai_model(const Models& models, const HttpRequest& request, HttpResponse& response) {
  for (const Models::State& state : models.states())
    if (state.file.name == request.rest) return reply(response, openai_model_of(models, state));
  throw no_such_model(request.rest);
}

void llamacpp_load(Models& models, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  fields.required("model");
  models.use(fields.text("model"), false, request.is_there);
  reply(response, {{"success", true}});
}

void llamacpp_unload(Models& models, const HttpRequest& request, HttpResponse& response) {
  const Json body = parse_body(request.body);
  const Fields fields(body, "");
  fields.required("model");
  if (!models.several()) throw_invalid("model", "model: the server's only model cannot be unloaded");
  models.unload_when_unused(fields.text("model"));
  reply(response, {{"success", true}});
}

void ollama_root(const Models&, const HttpRequest&, HttpResponse& response) {
  response.content_type = "text/plain; charset=utf-8";
  response.content = "Ollama is running"; // by which clients detect Ollama's API
}

void ollama_tags(const Models& models, const HttpRequest&, HttpResponse& response) {
  Json list = Json::array();
  for (const Models::State& state : models.states()) list.push_back(ollama_model(models, state));
  reply(response, {{"models", std::move(list)}});
}

void ollama_ps(const Models& models, const HttpRequest&, HttpResponse& response) {
  constexpr int64_t kForever = int64_t{100} * 365 * 24 * 3600; // a distant date, as Ollama reports it
  Json list = Json::array();
  for (const Models::State& state : models.states()) {
    if (!state.loaded) continue;
    Json model = ollama_model(models, state);
    model["size"] = static_cast<int64_t>(state.bytes);
    model["size_vram"] = static_cast<int64_t>(state.bytes * state.gpu_share);
    model["context_length"] = state.context;
    const auto left = static_cast<int64_t>(state.unload_after - state.idle_seconds);
    model["expires_at"] = iso_time(std::time(nullptr) + (state.unload_after > 0 ? left : kForever));
    list.push_back(std::move(model));
  }
  reply(response, {{"models", std::move(list)}});
}

void ollama_version(const Models&, const HttpRequest&, HttpResponse& response) {
  reply(response, {{"version", kOllamaVersion}, {"ridge", RIDGE_VERSION}});
}

void ollama_show(ModelService& service, const HttpRequest&, HttpResponse& response) {
  const gguf::File& file = service.model().file;
  const core::Program& program = service.model().program;
  const std::string& family = program.architecture;
  const FileFacts facts = facts_of(file, program, service.senses());
  Json info = {{"general.architecture", family},
               {"general.parameter_count", models::parameter_count(file)},
               {family + ".context_length", service.context()}};
  const auto* texts = dynamic_cast<const Service*>(&service);
  const auto* embeddings = dynamic_cast<const EmbeddingService*>(&service);
  if (embeddings) info[family + ".embedding_length"] = embeddings->embedder().width();
  reply(response, {{"license", file.get_string("general.license", "")},
                   {"modelfile", fmt::format("FROM {}\n", service.name())},
                   {"parameters", ""},
                   {"template", texts ? texts->chat_template().source() : ""},
                   {"details", facts.details},
                   {"model_info", std::move(info)},
                   {"capabilities", facts.capabilities},
                   {"modified_at", iso_time(std::time(nullptr))}});
}

} // namespace ridge::server
