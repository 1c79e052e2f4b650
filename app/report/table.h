// Tables that fit the terminal; elsewhere of any width.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ridge::app {

struct TableColumn {
  std::string title;
  bool right = false;
  bool cuts = false;
  int rank = 0; // columns of the highest rank are dropped first; 0: never
  size_t width = 0;
};

class Table {
 public:
  // 0: any width.
  Table(std::vector<TableColumn> columns, int terminal_columns);

  std::string title() const;
  std::string row(const std::vector<std::string>& cells) const;

 private:
  size_t width() const;
  void fit(size_t columns);
  bool cut(size_t least, size_t columns);
  std::string line(const std::vector<std::string>& cells) const;

  std::vector<TableColumn> columns_;
  std::vector<bool> shown_;
};

void print_table(std::vector<TableColumn> columns, const std::vector<std::vector<std::string>>& rows);

// Replaces the middle by "…" if the text is too long.
std::string abbreviated(const std::string& text, size_t columns);

} // namespace ridge::app
