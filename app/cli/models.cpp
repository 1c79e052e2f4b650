// ridge models: local models, or architectures.
#include "app/cli/cli.h"
#include "app/models/encoders.h"
#include "app/models/model_row.h"
#include "app/report/report.h"
#include "app/report/table.h"
#include "app/terminal/terminal.h"
#include "core/units.h"
#include "engine/pictures/picture_reader.h"
#include "models/architecture.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace ridge::app {
namespace {

void print_architectures() {
  size_t width = 0;
  for (const models::Architecture& row : models::architecture_table()) width = std::max(width, row.name.size());
  for (const models::Architecture& row : models::architecture_table())
    print_row(row.name, static_cast<int>(width) + 2, fmt::format("{} ({})", row.models, row.layers));
}

struct ModelsCommand {
  bool architectures = false, markdown = false, json = false;

  void run() const {
    if (markdown) return fmt::print("{}", models::architectures_as_markdown());
    if (architectures) return print_architectures();
    std::vector<api::ModelRow> rows;
    std::vector<std::string> encoders;
    const engine::Room room = engine::free_room();
    for (const hub::LocalModel& model : hub::local_models(hub::places())) {
      add_file_facts(rows.emplace_back(row_of(model)), {}, room);
      encoders.push_back(encoder_of(rows.back()));
    }
    if (json) return print_json(rows, encoders);
    if (rows.empty())
      return note("no models found in Hugging Face's cache, the folders of LM Studio, llama.cpp and Ollama, or "
                  "~/models; `ridge pull` suggests some that fit, `ridge search` finds others");
    std::vector<std::vector<std::string>> table;
    for (size_t i = 0; i < rows.size(); ++i) {
      const api::ModelRow& row = rows[i];
      table.push_back({row.name, core::human_bytes(static_cast<double>(row.bytes)), row.architecture, row.type,
                       row.trained_context > 0 ? fmt::format("{}", row.trained_context) : "", fits(row),
                       taken(encoders[i]), row.from});
    }
    print_table({{"NAME", false, true},
                 {"SIZE", true},
                 {"ARCHITECTURE", false, false, 2},
                 {"TYPE", false, false, 1},
                 {"CONTEXT", true, false, 3},
                 {"FITS HERE", false},
                 {"TAKES", false, false, 4},
                 {"FROM", false, true, 5}},
                table);
    for (const api::ModelRow& row : rows)
      if (!row.problem.empty()) note(fmt::format("{}: {}", row.name, row.problem));
  }

  static std::string taken(const std::string& encoder) {
    if (encoder.empty()) return "";
    const engine::Senses senses = engine::senses_of(encoder);
    return senses.pictures && senses.sounds ? "images, audio" : senses.sounds ? "audio" : "images";
  }

  static std::string fits(const api::ModelRow& row) {
    if (row.trained_context == 0) return "";
    return row.context == 0 ? "no" : row.context >= row.trained_context ? "yes" : fmt::format("to -c {}", row.context);
  }

  static std::string encoder_of(const api::ModelRow& row) {
    if (row.trained_context == 0) return "";
    try {
      return find_encoder(row.path);
    } catch (const std::exception&) {
      return "";
    }
  }

  static void print_json(const std::vector<api::ModelRow>& rows, const std::vector<std::string>& encoders) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (size_t i = 0; i < rows.size(); ++i) {
      const api::ModelRow& row = rows[i];
      const engine::Senses senses = encoders[i].empty() ? engine::Senses() : engine::senses_of(encoders[i]);
      list.push_back({{"name", row.name},
                      {"source", row.from},
                      {"path", row.path},
                      {"size_bytes", row.bytes},
                      {"architecture", row.architecture},
                      {"type", row.type},
                      {"parameters", row.parameters},
                      {"trained_context_tokens", row.trained_context},
                      {"context_tokens", row.context},
                      {"pictures", senses.pictures},
                      {"sounds", senses.sounds},
                      {"mmproj", encoders[i]},
                      {"problem", row.problem}});
    }
    print_report("models", {{"models", list}});
  }
};

} // namespace

void add_models_command(CLI::App& app) {
  auto options = std::make_shared<ModelsCommand>();
  CLI::App* command = app.add_subcommand("models", "list the models on this machine, or the supported architectures");
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--architectures", options->architectures, "list the supported architectures and known models");
  command->add_flag("--markdown", options->markdown, "print them as a Markdown table, as in docs/models.md");
  command->footer("Searches Hugging Face's cache (HF_HUB_CACHE, HF_HOME), the folders of LM Studio, "
                  "llama.cpp\n(LLAMA_CACHE) and Ollama (OLLAMA_MODELS), downloads of `ridge pull`, and ~/models.");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
