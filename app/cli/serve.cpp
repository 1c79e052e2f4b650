// ridge serve: an HTTP endpoint for OpenAI's, Anthropic's and Ollama's clients.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/model_names.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "core/strings/units.h"
#include "engine/options.h"
#include "engine/ranks/ranks.h"
#include "engine/speculation/speculation.h"
#include "server/server.h"

#include <fmt/format.h>

#include <csignal>
#include <mutex>
#include <optional>
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
  void stop(server::Server& server, server::Models& models) {
    std::thread([this, &server, &models] {
      int signal = 0;
      sigwait(&signals_, &signal);
      note("finishing the requests that run; once more to leave at once");
      server.stop();
      // The server also waits for clients that have sent half of a request, as long as they may take. We do not.
      for (int quiet = 0; quiet < kQuietGlances;) {
        if (sigtimedwait(&signals_, nullptr, &kGlance) > 0) _exit(kInterrupted);
        const std::scoped_lock lock(mutex_);
        if (over_) return;
        quiet = models.idle() ? quiet + 1 : 0;
      }
      const std::scoped_lock lock(mutex_);
      if (over_) return;
      pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr); // nobody waits for the second one any more
      models.drain();                                   // prompts go to the disk
      _exit(0);
    }).detach();
  }
  // The server has stopped by itself; it and its models may go.
  void end() {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }

 private:
  static constexpr timespec kGlance = {0, 20'000'000}; // 20 ms
  static constexpr int kQuietGlances = 10;             // one after the other in which nothing is answered
  static constexpr int kInterrupted = 130;             // as a shell reports a program that Ctrl-C ended
  sigset_t signals_;
  std::mutex mutex_;
  bool over_ = false;
};

struct ServeCommand {
  server::ModelSetup setup;
  server::Settings settings;
  std::vector<std::string> files;
  std::string folder, key_file, memory;
  double idle_seconds = 0;

  void run() {
    static StopSignals signals; // before any thread starts; the waiting thread keeps it
    core::validate(setup.sampling.params);
    engine::check_speculation(setup.model);
    if (several() && !setup.model.draft_model.empty())
      throw Error("--draft-model is for one model: it shares the vocabulary of no other", Error::kUsage);
    if (several()) engine::need_one_process("serve", "they share out one model, not several (-m, --models-dir)");
    engine::check_prefixes(setup.prefixes);
    if (!key_file.empty()) settings.key = read_key();
    if (settings.cors.find_first_of("\r\n") != std::string::npos) throw_error("--cors: an origin is one line");
    std::mutex mutex;
    const auto log = [&mutex](const std::string& line) {
      const std::scoped_lock lock(mutex);
      note(line);
    };
    const std::unique_ptr<server::ServedModel> only = several() ? nullptr : open_only(log);
    const std::unique_ptr<server::Models> models = only ? std::make_unique<server::Models>(only->service()) : list(log);
    server::Server server(*models, settings);
    fmt::print("http://{}:{}\n", settings.host, server.port());
    std::fflush(stdout);
    signals.stop(server, *models);
    server.run();
    models->drain();
    signals.end();
  }

  bool several() const { return files.size() > 1 || !folder.empty(); }

  std::unique_ptr<server::ServedModel> open_only(const engine::Notice& log) const {
    if (!memory.empty() || idle_seconds > 0)
      throw Error("--memory and --idle-unload are for several models: --models-dir, or more than one -m",
                  Error::kUsage);
    const std::string path = files.empty() ? "" : files[0];
    auto model = std::make_unique<server::ServedModel>(server::open_served(path, setup.model, load_on_terminal()),
                                                       setup, path.empty() ? "guide" : server::model_name(path),
                                                       load_on_terminal(), log);
    const server::ModelService& service = model->service();
    log(fmt::format("{} on {}; {} requests at once with {} tokens each", service.name(),
                    service.model().executor->description(), service.model().executor->config().streams,
                    service.context()));
    return model;
  }

  std::unique_ptr<server::Models> list(const engine::Notice& log) const {
    std::vector<server::ModelFile> all;
    for (const std::string& file : files) all.push_back({server::model_name(file), file});
    if (!folder.empty())
      for (server::ModelFile& file : server::model_files(folder)) all.push_back(std::move(file));
    server::Models::Settings of_all = {setup, 0, idle_seconds};
    if (!memory.empty()) of_all.memory_bytes = static_cast<double>(core::parse_bytes(memory, "--memory"));
    log(fmt::format("{} models, each loaded when a request names it; {} requests at once", all.size(), setup.parallel));
    return std::make_unique<server::Models>(std::move(all), std::move(of_all), engine::LoadSteps{.note = log}, log);
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
  add_model_options(*command, options->setup.model, true);
  command->remove_option(command->get_option("--model"));
  command
      ->add_option("-m,--model,model", options->files,
                   "GGUF file (of a split model: any part) or name; of several, each is loaded when a request names "
                   "it; default: "
                   "the built-in guide")
      ->type_name(kModelType);
  command->add_option("--models-dir", options->folder, "serve the GGUF files of a folder, each when a request names it")
      ->type_name("FOLDER");
  command
      ->add_option(
          "--memory", options->memory,
          "of several models, what those that are loaded may take together, such as 24GiB; default: what is free")
      ->type_name("SIZE");
  command
      ->add_option("--idle-unload", options->idle_seconds,
                   "of several models, unload one that no request used for so long; default: never")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("SECONDS");
  command->add_option("--host", options->settings.host, "address to listen on; 0.0.0.0: all networks")
      ->capture_default_str()
      ->type_name("NAME");
  command->add_option("--port", options->settings.port, "port to listen on; 0: a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--api-key-file", options->key_file, "requests must carry the key that is in this file")
      ->type_name("FILE");
  command->add_option("--cors", options->settings.cors, "pages of this origin may read answers; *: those of any")
      ->type_name("ORIGIN");
  command
      ->add_option("--parallel", options->setup.parallel,
                   "requests evaluated together, each with a context of its own (-np)")
      ->check(CLI::Range(1, 256))
      ->capture_default_str()
      ->type_name("N");
  add_prefix_cache_option(*command, options->setup.prefixes);
  command
      ->add_option("--cache-dir", options->setup.prefixes.folder,
                   "keep what the prefix cache holds in a folder, too, and find it again at the next start")
      ->type_name("FOLDER");
  command->add_option("--cache-dir-size", options->setup.prefixes.folder_size, "what may lie there; the oldest goes")
      ->capture_default_str()
      ->type_name("SIZE");
  add_speculation_options(*command, options->setup.model);
  add_template_options(*command, options->setup.chat_template);
  add_sampling_options(*command, options->setup.sampling);
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
