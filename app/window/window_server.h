// The server of `ridge serve` for one model, with a separate executor.
#pragma once

#include "api/snapshot.h"
#include "server/models/served_model.h"

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ridge::app {

class WindowServer {
 public:
  // `show` gets each new state, from any thread. `setup` applies to every model, except for the file and the number of
  // batched requests.
  using Show = std::function<void(std::shared_ptr<const api::Serving>)>;
  WindowServer(server::ModelSetup setup, Show show) : setup_(std::move(setup)), show_(std::move(show)) {}
  ~WindowServer();

  // Both return at once and stop a running server with its answers. path: the model, empty: the guide. encoder: empty:
  // none. Failures go to Serving::problem.
  void start(const api::intent::StartServer& wanted, const std::string& path, const std::string& encoder = {},
             const std::vector<api::AdapterOption>& adapters = {});
  void stop();

 private:
  struct Served {
    api::intent::StartServer wanted;
    std::string path, encoder;
    std::vector<api::AdapterOption> adapters;
  };
  void run(const std::stop_token& stop, const Served& served);
  void serve(const std::stop_token& stop, const Served& served);

  const server::ModelSetup setup_;
  const Show show_;
  std::mutex mutex_;
  std::jthread thread_;
};

} // namespace ridge::app
