// Tables of a terminal, never wider than it. Elsewhere they are as wide as they want to be.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ridge::app {

struct TableColumn {
  std::string title;
  bool right = false; // numbers
  bool cuts = false;  // may lose the middle of its text
  int rank = 0;       // above 0: left out where there is no room, the highest rank first
  size_t width = 0;   // of its widest cell, where rows come one by one
};

class Table {
 public:
  // For a terminal of so many columns; 0: any width.
  Table(std::vector<TableColumn> columns, int terminal_columns);

  std::string title() const; // a line, with its end
  std::string row(const std::vector<std::string>& cells) const;

 private:
  size_t width() const;
  void fit(size_t columns);
  bool cut(size_t least, size_t columns);
  std::string line(const std::vector<std::string>& cells) const;

  std::vector<TableColumn> columns_;
  std::vector<bool> shown_;
};

// All rows at once, to stdout, with a dim title.
void print_table(std::vector<TableColumn> columns, const std::vector<std::vector<std::string>>& rows);

// `text` in so many columns, with "…" in place of its middle where it is longer.
std::string abbreviated(const std::string& text, size_t columns);

} // namespace ridge::app
