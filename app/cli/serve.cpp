// ridge serve: HTTP endpoint for OpenAI, Anthropic and Ollama clients.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/config/merge.h"
#include "app/help/help_page.h"
#include "app/models/encoders.h"
#include "app/models/model_names.h"
#include "app/terminal/stop_signals.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/descriptors.h"
#include "core/files/read_file.h"
#include "core/strings/printable.h"
#include "core/units.h"
#include "engine/loading/ranks.h"
#include "engine/options.h"
#include "engine/pictures/picture_reader.h"
#include "engine/speculation/speculation.h"
#include "hub/http/curl.h"
#include "hub/http/fetch.h"
#include "hub/names.h"
#include "server/server.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <malloc.h>
#include <mutex>
#include <optional>
#include <ranges>
#include <thread>
#include <unistd.h>

namespace ridge::app {
namespace {

// By default glibc keeps up to 64 MiB of freed memory in each of 8 arenas per core.
void give_memory_back() {
  mallopt(M_ARENA_MAX, 8);
  mallopt(M_MMAP_THRESHOLD, 256 << 10); // larger blocks return to the system when freed
  mallopt(M_TRIM_THRESHOLD, 256 << 10);
}

constexpr int64_t kOtherDescriptors = 128;

int64_t descriptors_for_connections() { return core::raise_descriptor_limit() - kOtherDescriptors; }

struct ServeCommand {
  const CommandLine* line = nullptr;
  server::ModelSetup setup;
  server::Settings settings;
  std::vector<std::string> files, aliases, pinned;
  std::string folder, key_file, memory;
  std::string most_body = "32MiB";
  double idle_seconds = 0;
  bool image_urls = false, no_page = false, looks_beside = false;

  void run() {
    give_memory_back();
    write_stderr_in_background();  // unread logs must not delay requests
    std::signal(SIGPIPE, SIG_IGN); // a closed log must not end the process
    static StopSignals signals;    // before any thread starts; this thread handles them
    check_setup();
    if (several() && !setup.model.draft_model.empty())
      throw Error("--draft-model works with a single model only: it must share the model's vocabulary", Error::kUsage);
    if (several() && !setup.model.adapters.empty())
      throw Error("--lora works with a single model only; for several, set lora in each model's section of the "
                  "configuration file",
                  Error::kUsage);
    looks_beside = setup.model.mmproj.empty();
    if (setup.model.mmproj == kNoEncoder) setup.model.mmproj.clear();
    if (!setup.model.mmproj.empty() && several())
      throw Error("--mmproj works with a single model only: it must match the model", Error::kUsage);
    if (several()) engine::need_one_process("serve", "they split a single model, not several (-m, --models-dir)");
    if (image_urls) {
      hub::curl::library(); // throws if it is missing
      setup.fetch_picture = [](const std::string& url, double seconds) {
        constexpr int64_t kMaxBytes = int64_t{16} << 20; // each request thread may fetch a picture
        return hub::fetch_public(url, {.bytes = kMaxBytes, .seconds = seconds});
      };
    }
    if (!key_file.empty()) settings.key = read_key();
    if (settings.access.cors.find_first_of("\r\n") != std::string::npos)
      throw_error("--cors: expected an origin on one line");
    settings.page = !no_page;
    take_limits();
    const auto log = [](const std::string& line) { note(line); };
    std::vector<server::ModelFile> all = model_files();
    const bool one_with_encoder = !several() && !all[0].mmproj.empty();
    const std::unique_ptr<server::ServedModel> only =
        several() || one_with_encoder ? nullptr : open_only(all[0].name, log);
    const std::unique_ptr<server::Models> models =
        only ? std::make_unique<server::Models>(only->service()) : list(std::move(all), log);
    if (one_with_encoder) open_loaded(*models, {}, log);
    for (const std::string& name : pinned) open_loaded(*models, name, log);
    server::Server server(*models, settings);
    fmt::print("{}\n", server.address());
    log(fmt::format("at most {} connections", settings.limits.connections));
    flush_stdout();
    signals.call_at_stop([&server] {
      note("finishing running requests; press Ctrl-C again to stop immediately");
      server.stop();
    });
    std::string lost; // why this process ends: a supervisor restarts all ranks
    engine::when_rank_lost([&](const std::string& why) {
      note(fmt::format("{}: answering running requests with this error", why));
      lost = why;
      server.stop();
    });
    server.run();
    engine::when_rank_lost(nullptr);
    models->drain();
    signals.end();
    if (!lost.empty()) throw Error(lost);
  }

  void check_setup() const {
    core::validate(setup.sampling.params);
    engine::check_speculation(setup.model);
    engine::check_prefixes(setup.prefixes);
  }

  // Applies the model's section of the configuration file.
  void take_own_setup(server::ModelFile& file) const;

  // NAME=MODEL; for a single model also NAME alone.
  void take_names(std::vector<server::ModelFile>& all) const {
    const auto find = [&](const std::string& name, const char* flag) -> server::ModelFile& {
      const auto at = std::ranges::find(all, name, &server::ModelFile::name);
      if (at == all.end())
        throw Error(fmt::format("{} {}: unknown model; available: {}", flag, core::printable(name, 100),
                                fmt::join(all | std::views::transform(&server::ModelFile::name), ", ")),
                    Error::kUsage);
      return *at;
    };
    for (const std::string& alias : aliases) {
      const size_t equals = alias.find('=');
      if (alias.empty() || equals == 0) throw Error("--alias: expected NAME=MODEL", Error::kUsage);
      if (equals != std::string::npos)
        find(alias.substr(equals + 1), "--alias").aliases.push_back(alias.substr(0, equals));
      else if (all.size() == 1)
        all[0].name = alias;
      else
        throw Error(fmt::format("--alias {0}: say which of the models: {0}=MODEL", core::printable(alias, 100)),
                    Error::kUsage);
    }
    for (const std::string& name : pinned) find(name, "--pin").pinned = true;
  }

  void take_limits() {
    server::HttpLimits& limits = settings.limits;
    limits.body_bytes = static_cast<int64_t>(core::parse_bytes(most_body, "--max-body"));
    limits.waiting_bytes = std::max(limits.waiting_bytes, 2 * limits.body_bytes);
    limits.connections = std::min(limits.connections, std::max<int64_t>(descriptors_for_connections(), 16));
    limits.connections_per_address = std::min(limits.connections_per_address, limits.connections);
  }

  bool several() const { return files.size() > 1 || !folder.empty(); }

  std::unique_ptr<server::ServedModel> open_only(const std::string& name, const engine::Notice& log) const {
    check_only();
    const std::string path = files.empty() ? "" : files[0];
    auto model = std::make_unique<server::ServedModel>(server::open_served(path, setup.model, load_on_terminal()),
                                                       setup, name, load_on_terminal(), log);
    say_opened(model->service(), log);
    return model;
  }

  static void open_loaded(server::Models& models, const std::optional<std::string>& name, const engine::Notice& log) {
    try {
      say_opened(models.use(name).service(), log);
    } catch (const server::ApiError& error) {
      throw Error(error.what());
    }
  }

  void check_only() const {
    if (!memory.empty() || idle_seconds > 0 || !pinned.empty())
      throw Error("--memory, --idle-unload and --pin need several models: --models-dir, or more than one -m",
                  Error::kUsage);
  }

  static void say_opened(const server::ModelService& service, const engine::Notice& log) {
    log(fmt::format("{} on {}; {} parallel requests with {} tokens each", service.name(),
                    service.model().executor->description(), service.model().executor->config().streams,
                    service.context()));
  }

  std::vector<server::ModelFile> model_files() const {
    std::vector<server::ModelFile> all;
    for (const std::string& file : files) all.push_back({server::model_name(file), file});
    if (files.empty() && folder.empty()) all.push_back({"guide", ""});
    const auto is_model = [](const std::string& name) { return !hub::is_projector_file(name); };
    if (!folder.empty())
      for (server::ModelFile& file : server::model_files(folder, is_model)) all.push_back(std::move(file));
    for (server::ModelFile& file : all) {
      if (looks_beside) file.mmproj = encoder_beside(file.path);
      if (several()) take_own_setup(file);
    }
    take_names(all);
    return all;
  }

  // Reports unusable encoders, except in a folder of models.
  std::string encoder_beside(const std::string& path) const {
    try {
      std::string found = find_encoder(path);
      if (!found.empty()) {
        const engine::Senses senses = engine::senses_of(found);
        const char* given = senses.pictures && senses.sounds ? "images and audio" : senses.sounds ? "audio" : "images";
        note(fmt::format("{} supports {} with {}; the first request with one reloads the model",
                         server::model_name(path), given, core::printable(found, 300)));
      }
      return found;
    } catch (const Error& error) {
      if (!several()) note(fmt::format("{} takes no images or audio: {}", server::model_name(path), error.what()));
      return {};
    }
  }

  std::unique_ptr<server::Models> list(std::vector<server::ModelFile> all, const engine::Notice& log) const {
    server::Models::Settings of_all = {setup, 0, idle_seconds, !several()};
    if (several()) {
      of_all.list = [this] { return model_files(); };
      if (!memory.empty()) of_all.memory_bytes = static_cast<double>(core::parse_bytes(memory, "--memory"));
      log(fmt::format("{} models, each loaded on first request; {} parallel requests", all.size(), setup.parallel));
    } else {
      check_only();
    }
    return std::make_unique<server::Models>(std::move(all), std::move(of_all), engine::LoadSteps{.note = log}, log);
  }

  std::string read_key() const {
    std::string key = core::read_text_file(key_file);
    key.erase(key.find_last_not_of(" \t\r\n") + 1);
    if (key.empty() || key.find('\n') != std::string::npos)
      throw_error("--api-key-file: {}: expected the key on a single line", key_file);
    return key;
  }
};

void add_limits(CLI::App& command, ServeCommand& options) {
  server::HttpLimits& limits = options.settings.limits;
  using Seconds = server::HttpLimits::Seconds;
  const auto seconds = [&](const char* name, Seconds& value, const char* help) {
    command
        .add_option_function<double>(
            name, [&value](double given) { value = Seconds(given); }, help)
        ->check(CLI::Range(0.1, 1e6))
        ->default_str(fmt::format("{:g}", value.count()))
        ->type_name("SECONDS");
  };
  const auto count = [&](const char* name, int64_t& value, const char* help) {
    command.add_option(name, value, help)->check(CLI::Range(1, 1 << 20))->capture_default_str()->type_name("N");
  };
  count("--max-connections", limits.connections, "maximum connections; beyond it, the longest idle one is closed");
  count("--max-connections-per-address", limits.connections_per_address,
        "maximum connections per client address; behind a proxy, all clients share the proxy's");
  command.add_option("--max-body", options.most_body, "maximum size of a request")
      ->capture_default_str()
      ->type_name("SIZE");
  count("--max-header-bytes", limits.head_bytes, "maximum size of a request's first line and headers");
  count("--max-headers", limits.headers, "maximum number of headers in a request");
  seconds("--header-timeout", limits.head_time, "time for a request's headers, from first to last byte");
  seconds("--body-timeout", limits.body_time, "time for a request's body, from first to last byte");
  seconds("--write-timeout", limits.write_time, "time that a client may stop reading its answer");
  seconds("--keep-alive", limits.idle_time, "time that a connection may stay idle");
}

void add_server_options(CLI::App& command, ServeCommand& options) {
  command.add_flag("--image-urls", options.image_urls,
                   "let requests refer to images by http:// and https:// addresses; the server fetches them from the "
                   "public internet only");
  command
      .add_option("--models-dir", options.folder,
                  "serve the GGUF files of this folder and its subfolders; each is loaded on request")
      ->type_name("FOLDER");
  command
      .add_option("--memory", options.memory,
                  "with several models: memory for all loaded models together, such as 24GiB (default: what is free)")
      ->type_name("SIZE");
  command
      .add_option("--idle-unload", options.idle_seconds,
                  "with several models: unload a model after this time without requests (default: never)")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("SECONDS");
  command
      .add_option("--pin", options.pinned,
                  "with several models: names, separated by commas, of models loaded at start and never unloaded")
      ->type_name("NAME")
      ->delimiter(',');
  command.add_option("--alias", options.aliases, "another name for a model: NAME=MODEL (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
  command.add_option("--host", options.settings.host, "address to listen on; 0.0.0.0: all networks")
      ->capture_default_str()
      ->type_name("NAME");
  command.add_option("--port", options.settings.port, "port to listen on; 0: any free port")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->type_name("N");
  command.add_option("--api-key-file", options.key_file, "file with the API key that requests must carry")
      ->type_name("FILE");
  command.add_option("--cors", options.settings.access.cors, "web origin whose pages may read answers; *: any")
      ->type_name("ORIGIN");
  command
      .add_option("--allow-host", options.settings.access.hosts,
                  "without a key: further host names by which requests may reach the server; *: any")
      ->type_name("NAME")
      ->delimiter(',');
  command.add_flag(
      "--no-ui", options.no_page,
      "do not serve the chat page to browsers that open the server's address; answer with Ollama's status line");
}

CLI::App* add_options(CLI::App& app, ServeCommand& options) {
  CLI::App* command = app.add_subcommand("serve", "serve an HTTP endpoint for OpenAI, Anthropic and Ollama clients");
  add_model_options(*command, options.setup.model, true);
  command->remove_option(command->get_option("--model"));
  command
      ->add_option("-m,--model,model", options.files,
                   "GGUF file (any part of a split model) or name; with several, each is loaded when a request names "
                   "it (default: the built-in guide)")
      ->type_name(kModelType);
  command
      ->add_option("--mmproj", options.setup.model.mmproj,
                   "GGUF file with the model's image or audio encoder, or none (default: a matching mmproj*.gguf next "
                   "to the model)")
      ->type_name("FILE");
  {
    const OptionGroup group(*command, kServerGroup);
    add_server_options(*command, options);
    add_limits(*command, options);
  }
  command->add_option("--parallel", options.setup.parallel, "parallel requests, each with its own context (-np)")
      ->check(CLI::Range(1, 256))
      ->capture_default_str()
      ->type_name("N");
  add_prefix_cache_option(*command, options.setup.prefixes);
  command
      ->add_option("--cache-dir", options.setup.prefixes.folder,
                   "also store the prefix cache in this folder and reuse it after a restart")
      ->type_name("FOLDER");
  command
      ->add_option("--cache-dir-size", options.setup.prefixes.folder_size,
                   "maximum size of that folder; the oldest entries are deleted first")
      ->capture_default_str()
      ->type_name("SIZE");
  command
      ->add_option("--slot-save-path", options.setup.slot_folder,
                   "let clients save a stream's cache to this folder and restore it with POST /slots/N")
      ->type_name("FOLDER");
  add_speculation_options(*command, options.setup.model);
  add_batch_invariant_option(*command, options.setup.model.batch_invariant);
  add_template_options(*command, options.setup.chat_template);
  add_sampling_options(*command, options.setup.sampling);
  return command;
}

void ServeCommand::take_own_setup(server::ModelFile& file) const {
  const std::vector<std::string> names = {file.name, file.path};
  if (!has_section(line->file, names)) return;
  ServeCommand own;
  CLI::App app;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  CLI::App* const command = add_options(app, own);
  const std::vector<Setting> holding = settings_for_one(*command, line->args, line->file, names);
  for (const Setting& setting : holding)
    if (setting.scope == Setting::Scope::model && command->get_option("--" + setting.name)->get_group() == kServerGroup)
      throw Error(fmt::format("{}:{}: {} applies to the whole server, not to a single model", line->file.path,
                              setting.line, setting.name),
                  Error::kUsage);
  std::vector<std::string> args = with_settings(line->args, holding);
  std::ranges::reverse(args); // CLI11 expects reverse order
  try {
    app.parse(std::move(args));
    resolve_models(*command);
    own.check_setup();
  } catch (const std::exception& error) {
    throw Error(fmt::format("{}: {}{}", file.name, error.what(), origin_of(error.what(), holding, line->file)),
                Error::kUsage);
  }
  api::ModelOptions& model = own.setup.model;
  if (!model.mmproj.empty()) file.mmproj = model.mmproj == kNoEncoder ? "" : model.mmproj;
  model.mmproj.clear();
  own.setup.fetch_picture = setup.fetch_picture;
  file.setup = std::make_shared<server::ModelSetup>(own.setup);
}

} // namespace

void add_serve_command(CLI::App& app, const CommandLine& line) {
  auto options = std::make_shared<ServeCommand>();
  options->line = &line;
  add_options(app, *options)->callback([options] { options->run(); });
}

} // namespace ridge::app
