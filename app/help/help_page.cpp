#include "app/help/help_page.h"

#include "app/help/command_tree.h"
#include "app/terminal/markdown/word_wrap.h"
#include "app/terminal/terminal.h"
#include "core/strings/utf8.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace ridge::app {
namespace {

constexpr int kUsualColumns = 100, kMinColumns = 40, kMaxColumns = 120; // longer lines are hard to read
constexpr const char* kNoGroup = "Options";

using Row = std::pair<std::string, std::string>;

int page_columns() {
  const int columns = terminal_columns();
  return columns == 0 ? kUsualColumns : std::clamp(columns, kMinColumns, kMaxColumns);
}

std::string rows_text(const std::vector<Row>& rows, int columns) {
  constexpr size_t kWidest = 26;
  size_t width = 0;
  for (const Row& row : rows)
    if (const size_t length = core::utf8_length(row.first); length <= kWidest) width = std::max(width, length);
  const size_t indent = width + 4;
  std::string text;
  for (const auto& [name, what] : rows) {
    const size_t length = core::utf8_length(name);
    const std::string space = length <= width ? std::string(width - length + 2, ' ') : "\n" + std::string(indent, ' ');
    text += fmt::format("  {}{}{}\n", name, space, wrapped(what, columns, static_cast<int>(indent)));
  }
  return text;
}

Row help_row(const OptionWords& option) {
  std::string name = fmt::format("{}", fmt::join(option.names, ", "));
  if (!option.value.empty()) name += (name.empty() ? "" : " ") + option.value;
  return {name,
          option.help + (option.default_value.empty() ? "" : fmt::format(" (default: {})", option.default_value))};
}

std::string options_text(const CLI::App& app, int columns) {
  std::vector<std::pair<std::string, std::vector<Row>>> groups = {
      {kNoGroup, {}}, {kServerGroup, {}}, {kSamplingGroup, {}}, {kMemoryGroup, {}}, {kAdvancedGroup, {}}};
  std::optional<Row> help;
  for (const OptionWords& option : options_of(app)) {
    const auto group = std::ranges::find(groups, option.group, &std::pair<std::string, std::vector<Row>>::first);
    std::vector<Row>& rows = (group == groups.end() ? groups[0] : *group).second;
    if (std::ranges::count(option.names, "--help"))
      help = help_row(option);
    else
      rows.push_back(help_row(option));
  }
  if (help) groups[0].second.push_back(*help);
  const bool grouped =
      std::ranges::any_of(groups.begin() + 1, groups.end(), [](const auto& g) { return !g.second.empty(); });
  std::string text;
  for (const auto& [name, rows] : groups)
    if (!rows.empty())
      text += fmt::format("\n{}\n{}", bold(grouped && name == kNoGroup ? "Common" : name), rows_text(rows, columns));
  return text;
}

std::string commands_text(const CLI::App& app, int columns) {
  std::vector<std::pair<std::string, std::vector<Row>>> groups;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const auto at = std::ranges::find(groups, command->get_group(), &std::pair<std::string, std::vector<Row>>::first);
    auto& group = at == groups.end() ? groups.emplace_back(command->get_group(), std::vector<Row>{}) : *at;
    group.second.emplace_back(command->get_name(), command->get_description());
  }
  std::string text;
  for (const auto& [name, rows] : groups) text += fmt::format("\n{}\n{}", bold(name), rows_text(rows, columns));
  return text;
}

// " [MODEL] TEXT…"
std::string usage(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = words_of(*option).value + (option->get_items_expected_max() > 1 ? "…" : "");
    text += option->get_required() || name.starts_with('[') ? " " + name : fmt::format(" [{}]", name);
  }
  return text;
}

} // namespace

std::string HelpPage::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const {
  const int columns = page_columns();
  const std::string commands = commands_text(*app, columns);
  std::string text = fmt::format("{}{} [OPTIONS]\n{}\n", name, commands.empty() ? usage(*app) : " COMMAND",
                                 wrapped(app->get_description(), columns, 0));
  text += commands + options_text(*app, columns);
  if (const std::string footer = app->get_footer(); !footer.empty())
    text += fmt::format("\n{}\n", wrapped(footer, columns, 0));
  return text;
}

} // namespace ridge::app
