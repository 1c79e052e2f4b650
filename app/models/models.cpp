// ridge models: the models that lie on this machine, or with --architectures those that run.
#include "app/cli/cli.h"
#include "app/report/report.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "core/strings/units.h"
#include "hub/local_models.h"
#include "models/architecture.h"
#include "models/model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace ridge::app {
namespace {

void print_architectures() {
  size_t width = 0;
  for (const models::Architecture& row : models::architecture_table()) width = std::max(width, row.name.size());
  for (const models::Architecture& row : models::architecture_table())
    fmt::print("{:<{}}  {} ({})\n", row.name, width, row.models, row.layers);
}

struct Row {
  hub::LocalModel model;
  std::string architecture, type, problem; // problem: why it cannot be opened
  int64_t parameters = 0, context = 0;     // context: tokens that it was trained for
};

Row read_row(hub::LocalModel model) {
  Row row{std::move(model)};
  try {
    if (!row.model.whole) throw_error("parts are missing");
    const gguf::File file = gguf::File::open(row.model.path);
    row.architecture = core::printable(file.get_string("general.architecture", "?"));
    row.type = models::file_type_label(file);
    row.parameters = models::parameter_count(file);
    row.context = file.get_int(std::string(file.get_string("general.architecture", "")) + ".context_length", 0);
  } catch (const Error& error) {
    row.problem = error.what();
  }
  return row;
}

// Columns as wide as their widest cell; the first row is the heading.
void print_columns(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right) {
  std::vector<size_t> widths(right.size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += right[i] ? fmt::format("{:>{}}  ", row[i], widths[i]) : fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", &row == &rows[0] ? dim(line) : line);
  }
}

struct ModelsCommand {
  bool architectures = false, markdown = false, json = false;

  void run() const {
    if (markdown) return fmt::print("{}", models::architectures_as_markdown());
    if (architectures) return print_architectures();
    std::vector<Row> rows;
    for (hub::LocalModel& model : hub::local_models(hub::places())) rows.push_back(read_row(std::move(model)));
    if (json) return print_json(rows);
    if (rows.empty())
      return note("no models here: neither Hugging Face's cache nor the folders of LM Studio, llama.cpp and Ollama nor "
                  "~/models has any");
    std::vector<std::vector<std::string>> table = {{"NAME", "SIZE", "ARCHITECTURE", "TYPE", "CONTEXT", "FROM"}};
    for (const Row& row : rows)
      table.push_back({row.model.name, core::human_bytes(static_cast<double>(row.model.bytes)), row.architecture,
                       row.type, row.context > 0 ? fmt::format("{}", row.context) : "",
                       fmt::format("{}: {}", hub::name_of(row.model.source), row.model.origin)});
    print_columns(table, {false, true, false, false, true, false});
    for (const Row& row : rows)
      if (!row.problem.empty()) note(fmt::format("{}: {}", row.model.name, row.problem));
  }

  static void print_json(const std::vector<Row>& rows) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Row& row : rows)
      list.push_back({{"name", row.model.name},
                      {"source", hub::name_of(row.model.source)},
                      {"origin", row.model.origin},
                      {"path", row.model.path},
                      {"size_bytes", row.model.bytes},
                      {"architecture", row.architecture},
                      {"type", row.type},
                      {"parameters", row.parameters},
                      {"trained_context_tokens", row.context},
                      {"problem", row.problem}});
    print_report("models", {{"models", list}});
  }
};

} // namespace

void add_models_command(CLI::App& app) {
  auto options = std::make_shared<ModelsCommand>();
  CLI::App* command = app.add_subcommand("models", "list the models on this machine, or the architectures that run");
  command->add_flag("--json", options->json, "machine-readable");
  command->add_flag("--architectures", options->architectures,
                    "list the architectures that run, and models known by them");
  command->add_flag("--markdown", options->markdown, "these as a Markdown table, as docs/models.md has it");
  command->footer("Looks into Hugging Face's cache (HF_HUB_CACHE, HF_HOME), the folders of LM Studio, llama.cpp\n"
                  "(LLAMA_CACHE) and Ollama (OLLAMA_MODELS), what `ridge pull` got, and ~/models.");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
