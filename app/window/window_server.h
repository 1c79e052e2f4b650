// The endpoint behind the window's switch: the server of `ridge serve` for one model, with an executor of its own
// beside the conversation's.
#pragma once

#include "core/view/snapshot.h"
#include "server/models/served_model.h"

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ridge::app {

class WindowServer {
 public:
  // `show` gets the state whenever it has changed, from any thread. `setup`: of all models but for the file and how
  // many requests are evaluated together.
  using Show = std::function<void(std::shared_ptr<const core::Serving>)>;
  WindowServer(server::ModelSetup setup, Show show) : setup_(std::move(setup)), show_(std::move(show)) {}
  ~WindowServer(); // ends running answers

  // Both return at once. A server that is on ends first, and with it its running answers. path: of the model; empty:
  // the guide. encoder: of pictures; empty: it takes none. What goes wrong becomes Serving::problem.
  void start(const core::intent::StartServer& wanted, const std::string& path, const std::string& encoder = {});
  void stop();

 private:
  struct Served {
    core::intent::StartServer wanted;
    std::string path, encoder;
  };
  void run(const std::stop_token& stop, const Served& served);
  void serve(const std::stop_token& stop, const Served& served);

  const server::ModelSetup setup_;
  const Show show_;
  std::mutex mutex_;
  std::jthread thread_;
};

} // namespace ridge::app
