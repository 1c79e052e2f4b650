// ridge serve: an HTTP endpoint for OpenAI's, Anthropic's and Ollama's clients.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "engine/machine.h"
#include "engine/options.h"
#include "engine/sampling_defaults.h"
#include "models/model.h"
#include "server/server.h"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace ridge::app {
namespace {

// SIGINT and SIGTERM stop the server, which lets its requests end; a second one leaves at once. All threads that start
// while one of these lives leave the two signals to it.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  // From now on they stop this server; run once, to the end of the process.
  void stop(server::Server& server) const {
    std::thread([this, &server] {
      int signal = 0;
      sigwait(&signals_, &signal);
      note("finishing the requests that run; once more to leave at once");
      server.stop();
      sigwait(&signals_, &signal);
      _exit(kInterrupted);
    }).detach();
  }

 private:
  static constexpr int kInterrupted = 130; // as a shell reports a program that Ctrl-C ended
  sigset_t signals_;
};

struct ServeCommand {
  core::ModelOptions model;
  core::SamplingOptions sampling;
  core::TemplateOptions chat_template;
  server::Settings settings;
  std::string key_file;
  int64_t parallel = 4;

  void run() {
    static const StopSignals signals; // before any thread starts; the waiting thread keeps it
    core::validate(sampling.params);
    if (!key_file.empty()) settings.key = read_key();
    engine::LoadedModel loaded = engine::open_model(model.model, load_on_terminal());
    engine::take_model_defaults(sampling, loaded.file, note);
    const text::ChatTemplate chosen = engine::choose_template(chat_template, loaded.file, note);
    const engine::Json variables = engine::template_variables(chat_template, chosen, note);
    core::ExecutorConfig config = engine::executor_config(model, loaded.program.trained_context);
    config.streams = config.max_outputs = parallel;
    config.max_batch = std::max(config.max_batch, parallel);
    engine::start_executor(loaded, config, model.device, model.gpu_layers, load_on_terminal());

    std::mutex mutex;
    const auto log = [&mutex](const std::string& line) {
      const std::scoped_lock lock(mutex);
      note(line);
    };
    server::Service service(loaded, chosen, variables, sampling, name(), log);
    server::Server server(service, settings);
    log(fmt::format("{} on {}; {} requests at once with {} tokens each", service.name(), loaded.executor->description(),
                    parallel, service.context()));
    fmt::print("http://{}:{}\n", settings.host, server.port());
    std::fflush(stdout);
    signals.stop(server);
    server.run();
    service.scheduler().drain();
  }

  std::string name() const {
    return model.model.empty() ? "guide" : std::filesystem::path(model.model).stem().string();
  }

  std::string read_key() const {
    std::string key = core::read_text_file(key_file);
    key.erase(key.find_last_not_of(" \t\r\n") + 1);
    if (key.empty() || key.find('\n') != std::string::npos)
      throw_error("--api-key-file: {}: expected one line with the key", key_file);
    return key;
  }
};

} // namespace

void add_serve_command(CLI::App& app) {
  auto options = std::make_shared<ServeCommand>();
  CLI::App* command = app.add_subcommand("serve", "an HTTP endpoint for OpenAI's, Anthropic's and Ollama's clients");
  add_model_options(*command, options->model, true);
  command->add_option("--host", options->settings.host, "address to listen on; 0.0.0.0: all networks")
      ->capture_default_str()
      ->type_name("NAME");
  command->add_option("--port", options->settings.port, "port to listen on; 0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--api-key-file", options->key_file, "requests must carry the key that is in this file")
      ->type_name("FILE");
  command
      ->add_option("--parallel", options->parallel, "requests evaluated together, each with a context of its own (-np)")
      ->check(CLI::Range(1, 256))
      ->capture_default_str()
      ->type_name("N");
  add_template_options(*command, options->chat_template);
  add_sampling_options(*command, options->sampling);
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
