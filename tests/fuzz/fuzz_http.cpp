// Bytes to a server's socket; connections must end.
#include "engine/options.h"
#include "server/models/service.h"
#include "server/server.h"
#include "support/history_model.h"
#include "support/http/socket.h"

#include <cstdint>
#include <string_view>
#include <thread>

using namespace ridge;

namespace {

const engine::Notice kSilent = [](const std::string&) {};

server::HttpLimits short_limits() {
  using Seconds = server::HttpLimits::Seconds;
  return {.head_bytes = 2048,
          .headers = 20,
          .body_bytes = 1 << 16,
          .head_time = Seconds(0.2),
          .body_time = Seconds(0.2),
          .write_time = Seconds(0.5),
          .idle_time = Seconds(0.2)};
}

struct Endpoint {
  engine::LoadedModel model = tests::open_history({.streams = 2, .context = 128});
  text::ChatTemplate chat_template = engine::choose_template({}, model.file, kSilent);
  server::Service service{model, chat_template, server::Json::object(), {}, "guide", kSilent};
  server::Server server{service, {.port = 0, .limits = short_limits()}};
  std::thread thread{[this] { server.run(); }};
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Endpoint& endpoint = *new Endpoint; // never destroyed
  tests::Socket socket(endpoint.server.port());
  while (!socket.is_open()) socket = tests::Socket(endpoint.server.port()); // all in TIME_WAIT
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t part = size == 0 ? 0 : data[0] % size; // in two pieces
  socket.send(bytes.substr(0, part));
  socket.send(bytes.substr(part));
  socket.end_of_sending();
  socket.rest();
  return 0;
}
