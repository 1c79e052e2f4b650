// A server of a folder's models.
#pragma once

#include "server/server.h"
#include "support/http/client.h"
#include "support/http/patience.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <utility>

namespace ridge::tests {

inline server::ModelSetup one_thread(int64_t context) {
  server::ModelSetup setup;
  setup.model.device = "cpu";
  setup.model.threads = 1;
  setup.model.context = context;
  return setup;
}

class ModelsEndpoint {
 public:
  ModelsEndpoint(const std::string& folder, int64_t context, std::string model)
      : model_(std::move(model)),
        models(server::model_files(folder),
               {.setup = one_thread(context), .list = [folder] { return server::model_files(folder); }}, {},
               [](const auto&) {}),
        server(models, {.port = 0, .limits = patient()}), thread_([this] { server.run(); }) {}
  ~ModelsEndpoint() {
    server.stop();
    thread_.join();
  }

  server::Json post(const std::string& path, server::Json body, int status = 200) const {
    if (!body.contains("model")) body["model"] = model_;
    const HttpReply result = HttpClient(server.port()).post(path, body.dump());
    REQUIRE(result.whole);
    CHECK(result.status == status);
    return server::Json::parse(result.body);
  }
  std::string error(const std::string& path, const server::Json& body) const {
    return post(path, body, 400)["error"]["message"];
  }
  server::Json get(const std::string& path) const {
    const HttpReply result = HttpClient(server.port()).get(path);
    REQUIRE(result.whole);
    return server::Json::parse(result.body);
  }

 private:
  const std::string model_;

 public:
  server::Models models;
  server::Server server;

 private:
  std::thread thread_;
};

} // namespace ridge::tests
