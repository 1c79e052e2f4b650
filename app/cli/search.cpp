// ridge search: models of the hub.
#include "app/cli/choose_model.h"
#include "app/cli/cli.h"
#include "app/models/first_models.h"
#include "app/report/report.h"
#include "app/terminal/terminal.h"
#include "core/error.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace ridge::app {
namespace {

void print_json(const std::vector<FoundModels>& all) {
  const engine::Room room = engine::free_room();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const FoundModels& found : all) {
    nlohmann::ordered_json models = nlohmann::ordered_json::array();
    for (const hub::OfferedModel& model : found.models)
      models.push_back({{"model", model.reference},
                        {"type", model.type},
                        {"size_bytes", model.bytes},
                        {"runs_on", words_for(runs_on(model.bytes, room))}});
    list.push_back({{"repository", found.repository.name},
                    {"downloads", found.repository.downloads},
                    {"gated", found.repository.gated},
                    {"models", models}});
  }
  print_report("search", {{"found", list}});
}

} // namespace

void add_search_command(CLI::App& app, std::vector<std::string>& next) {
  struct Options {
    std::vector<std::string> words;
    int limit = 8;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("search", "search Hugging Face for models and show which files fit this machine");
  command->add_option("words", options->words, "words of the model's name: qwen3 4b")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("WORDS")
      ->required();
  command->add_option("-n,--limit", options->limit, "number of repositories to show")
      ->check(CLI::Range(1, 50))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--json", options->json, "print JSON");
  command->footer("Lists repositories with GGUF files, the most downloaded first, with the size of each type. In a "
                  "terminal,\nenter a number to download a model and chat with it. The type marked * is the default; "
                  "2:Q8_0 chooses another.");
  command->callback([options, &next] {
    const std::string words = fmt::format("{}", fmt::join(options->words, " "));
    const std::vector<FoundModels> found = search_hub(words, options->limit);
    if (options->json) return print_json(found);
    if (found.empty()) return note("no matching repository with GGUF files");
    next = choose_found_model(found);
  });
}

} // namespace ridge::app
