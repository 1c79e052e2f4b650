// A server with the guide.
#pragma once

#include "engine/options.h"
#include "server/models/service.h"
#include "server/server.h"
#include "support/history_model.h"
#include "support/http/client.h"
#include "support/http/patience.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace ridge::tests {

using server::Json;

inline engine::LoadedModel open_exact(const std::string& path, int64_t streams, int64_t outputs = 0) {
  engine::LoadedModel model = engine::open_model(path);
  core::ExecutorConfig config = engine::executor_config({}, model.program.trained_context);
  config.streams = streams;
  config.max_outputs = std::max(streams, outputs);
  config.exact = true; // answers must not depend on the batch
  engine::start_executor(model, config, "cpu");
  return model;
}

inline engine::LoadedModel open_guide(int64_t streams, int64_t outputs = 0) { return open_exact("", streams, outputs); }

struct Endpoint {
  explicit Endpoint(int64_t streams = 4, const std::string& key = {})
      : Endpoint([streams] { return open_guide(streams); }, key) {}
  // The executor refers to its Program: the model must not move.
  explicit Endpoint(const std::function<engine::LoadedModel()>& open, const std::string& key = {},
                    std::unique_ptr<engine::Speculator> speculator = nullptr,
                    const engine::PrefixSettings& prefixes = {}, const std::string& cors = {},
                    const server::HttpLimits& limits = patient())
      : model(open()), chat_template(engine::choose_template({}, model.file, [](const std::string&) {})),
        service(
            model, chat_template, Json::object(), {}, "guide", [](const std::string&) {}, std::move(speculator),
            prefixes),
        server(service, {.port = 0, .key = key, .access = {{}, cors}, .limits = limits}),
        thread([this] { server.run(); }) {}
  ~Endpoint() {
    server.stop();
    thread.join();
  }

  HttpClient client() const { return HttpClient(server.port()); }
  Json post(const std::string& path, const Json& body, int status = 200) const {
    return post_text(path, body.dump(), status);
  }
  Json post_text(const std::string& path, const std::string& body, int status) const {
    const HttpReply reply = client().post(path, body);
    REQUIRE(reply.whole);
    CHECK(reply.status == status);
    return Json::parse(reply.body);
  }
  std::string get(const std::string& path) const {
    const HttpReply reply = client().get(path);
    REQUIRE(reply.whole);
    return reply.body;
  }

  engine::LoadedModel model;
  text::ChatTemplate chat_template;
  server::Service service;
  server::Server server;
  std::thread thread;
};

inline Json chat_body(const std::string& question, int64_t max_tokens = 40) {
  return {{"messages", Json::array({{{"role", "user"}, {"content", question}}})},
          {"max_tokens", max_tokens},
          {"temperature", 0}};
}

} // namespace ridge::tests
