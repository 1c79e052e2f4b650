// The window's server.
#include "app/window/window_server.h"

#include "core/error.h"
#include "server/server.h"
#include "support/http/socket.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ridge;
using api::Serving;
using tests::Socket;
namespace intent = api::intent;

namespace {

class WatchedServer {
 public:
  std::shared_ptr<const Serving> now() const {
    const std::scoped_lock lock(mutex_);
    return now_;
  }
  void until(const std::function<bool(const Serving&)>& condition,
             std::source_location at = std::source_location::current()) const {
    REQUIRE(tests::eventually([&] { return condition(*now()); }, at));
  }
  int start(const intent::StartServer& wanted) {
    server.start(wanted, "");
    until([](const Serving& s) { return s.state == Serving::State::on; });
    return std::stoi(now()->address.substr(now()->address.rfind(':') + 1));
  }

 private:
  static server::ModelSetup setup() {
    server::ModelSetup setup;
    setup.model.device = "cpu";
    setup.model.threads = 1;
    setup.model.context = 100'000; // an endless answer takes minutes
    setup.sampling.ignore_eos = true;
    return setup;
  }
  mutable std::mutex mutex_;
  std::shared_ptr<const Serving> now_ = std::make_shared<Serving>();

 public:
  app::WindowServer server{setup(), [this](std::shared_ptr<const Serving> serving) {
                             const std::scoped_lock lock(mutex_);
                             now_ = std::move(serving);
                           }};
};

const char* const kShort = R"({"prompt": "ridge is", "max_tokens": 4})";
const char* const kEndless = R"({"prompt": "ridge is", "stream": true})";

} // namespace

TEST_CASE("the window's server answers and shows its requests, and ends what it writes when it is switched off") {
  WatchedServer w;
  const int port = w.start({"127.0.0.1", 0, 2, ""});
  CHECK(w.now()->model == "guide");
  CHECK(w.now()->slots.size() == 2);
  CHECK(w.now()->weight_bytes > 1e6);
  CHECK(w.now()->cache_bytes > 0);
  CHECK(Socket(port).ask("POST /v1/completions", kShort).starts_with("HTTP/1.1 200"));
  w.until([](const Serving& s) { return s.requests == 1; });
  REQUIRE(w.now()->latest.size() == 1);
  CHECK(w.now()->latest[0].route == "/v1/completions");
  CHECK(w.now()->latest[0].ended);
  CHECK(w.now()->latest[0].problem == "");
  CHECK(w.now()->latest[0].answer_tokens == 4);

  Socket gone(port);
  REQUIRE(gone.request("POST /v1/completions", kEndless));
  w.until([](const Serving& s) { return s.latest.size() == 2 && s.latest[0].answer_tokens > 3; });
  CHECK(std::ranges::count(w.now()->slots, true, &Serving::Slot::busy) == 1);
  gone.abort();
  w.until([](const Serving& s) { return s.latest[0].ended; });
  CHECK(w.now()->latest[0].problem == "the client disconnected");

  Socket cut(port);
  REQUIRE(cut.request("POST /v1/completions", kEndless));
  REQUIRE(cut.wait_for_byte());
  w.server.stop();
  w.until([](const Serving& s) { return s.state == Serving::State::off; });
  CHECK(cut.rest().find("[DONE]") == std::string::npos);
  CHECK(w.now()->problem == "");
  CHECK(!Socket(port).is_open());
}

TEST_CASE("the window's server says why it cannot start, asks for its key, and starts again elsewhere") {
  WatchedServer w;
  const int port = w.start({"127.0.0.1", 0, 1, "secret"});
  CHECK(Socket(port).ask("POST /v1/completions", kShort).starts_with("HTTP/1.1 401"));
  WatchedServer other;
  other.server.start({"127.0.0.1", port, 1, ""}, "");
  other.until([](const Serving& s) { return !s.problem.empty(); });
  CHECK(other.now()->problem.find("cannot listen") != std::string::npos);
  CHECK(other.now()->state == Serving::State::off);
  other.server.start({"127.0.0.1", 0, 1, ""}, "no-such-file.gguf");
  other.until([](const Serving& s) { return s.problem.find("no-such-file.gguf") != std::string::npos; });

  w.server.start({"127.0.0.1", 0, 1, ""}, ""); // stops the first one
  w.until([&](const Serving& s) {
    return s.state == Serving::State::on && s.address != "http://127.0.0.1:" + std::to_string(port);
  });
  CHECK(!Socket(port).is_open());
  w.server.start({"127.0.0.1", 0, 1, ""}, ""); // stops while starting
}
