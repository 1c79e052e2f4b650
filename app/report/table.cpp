#include "app/report/table.h"

#include "app/terminal/terminal.h"
#include "core/strings/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace ridge::app {
namespace {

constexpr size_t kBetween = 2;
constexpr size_t kReadable = 24, kMinWidth = 10; // width of cut text: before columns are dropped, and after

std::string first_characters(std::string_view text, size_t count) {
  const std::string_view whole = text;
  while (count-- > 0 && !text.empty()) core::take_character(text);
  return std::string(whole.substr(0, whole.size() - text.size()));
}

std::string last_characters(std::string_view text, size_t count) {
  for (size_t skipped = core::utf8_length(text) - count; skipped > 0; --skipped) core::take_character(text);
  return std::string(text);
}

} // namespace

std::string abbreviated(const std::string& text, size_t columns) {
  const size_t length = core::utf8_length(text);
  if (length <= columns || columns == 0) return text;
  const size_t behind = (columns - 1) / 2;
  return first_characters(text, columns - 1 - behind) + "…" + last_characters(text, behind);
}

Table::Table(std::vector<TableColumn> columns, int terminal_columns)
    : columns_(std::move(columns)), shown_(columns_.size(), true) {
  for (TableColumn& column : columns_) column.width = std::max(column.width, core::utf8_length(column.title));
  if (terminal_columns > 0) fit(static_cast<size_t>(terminal_columns));
}

size_t Table::width() const {
  size_t sum = 0;
  for (size_t i = 0; i < columns_.size(); ++i)
    if (shown_[i]) sum += columns_[i].width + (sum > 0 ? kBetween : 0);
  return sum;
}

// Returns true if the table fits.
bool Table::cut(size_t least, size_t columns) {
  for (size_t i = 0; i < columns_.size() && width() > columns; ++i)
    if (shown_[i] && columns_[i].cuts && columns_[i].width > least)
      columns_[i].width -= std::min(columns_[i].width - least, width() - columns);
  return width() <= columns;
}

void Table::fit(size_t columns) {
  if (cut(kReadable, columns)) return;
  while (width() > columns) {
    size_t last = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i)
      if (shown_[i] && columns_[i].rank > 0 && (last == columns_.size() || columns_[i].rank >= columns_[last].rank))
        last = i;
    if (last == columns_.size()) break;
    shown_[last] = false;
  }
  cut(kMinWidth, columns);
}

std::string Table::line(const std::vector<std::string>& cells) const {
  std::string text;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!shown_[i]) continue;
    const TableColumn& column = columns_[i];
    const std::string cell = i < cells.size() ? column.cuts ? abbreviated(cells[i], column.width) : cells[i] : "";
    const std::string space(column.width - std::min(column.width, core::utf8_length(cell)), ' ');
    text += column.right ? space + cell : cell + space;
    text.append(kBetween, ' ');
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string Table::title() const {
  std::vector<std::string> titles;
  for (const TableColumn& column : columns_) titles.push_back(column.title);
  return dim(line(titles)) + "\n";
}

std::string Table::row(const std::vector<std::string>& cells) const { return line(cells) + "\n"; }

void print_table(std::vector<TableColumn> columns, const std::vector<std::vector<std::string>>& rows) {
  for (const auto& row : rows)
    for (size_t i = 0; i < columns.size() && i < row.size(); ++i)
      columns[i].width = std::max(columns[i].width, core::utf8_length(row[i]));
  const Table table(std::move(columns), terminal_columns());
  fmt::print("{}", table.title());
  for (const auto& row : rows) fmt::print("{}", table.row(row));
}

} // namespace ridge::app
