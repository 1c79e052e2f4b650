// ridge models: the architectures that run, and the models that people know by them.
#include "app/cli/cli.h"
#include "models/architecture.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::app {
namespace {

void print_rows() {
  size_t width = 0;
  for (const models::Architecture& row : models::architecture_table()) width = std::max(width, row.name.size());
  for (const models::Architecture& row : models::architecture_table())
    fmt::print("{:<{}}  {} ({})\n", row.name, width, row.models, row.layers);
}

} // namespace

void add_models_command(CLI::App& app) {
  auto markdown = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("models", "list the architectures that run, and models known by them");
  command->add_flag("--markdown", *markdown, "as a Markdown table, as docs/models.md has it");
  command->callback([markdown] { *markdown ? fmt::print("{}", models::architectures_as_markdown()) : print_rows(); });
}

} // namespace ridge::app
