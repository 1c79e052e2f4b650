#include "app/terminal/completions.h"

#include "core/strings/printable.h"
#include "core/strings/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace ridge::app {
namespace {

constexpr size_t kMaxEntries = 10000;
constexpr size_t kMaxShown = 100;

std::string with_home(const std::string& folder) {
  const char* home = std::getenv("HOME");
  return folder.starts_with("~/") && home ? home + folder.substr(1) : folder;
}

std::string without_escapes(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) plain += text[i] == '\\' && i + 1 < text.size() ? text[++i] : text[i];
  return plain;
}

std::string with_escapes(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == ' ' || c == '\\' || c == '\'' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

} // namespace

Completions completions_of(std::string_view line, size_t begin, std::span<const std::string> words) {
  Completions found{begin, {}};
  const std::string_view typed = line.substr(std::min(begin, line.size()));
  for (const std::string& word : words)
    if (word.starts_with(typed)) found.words.push_back(word);
  return found;
}

Completions path_completions(std::string_view line, size_t begin, bool escape) {
  Completions found{begin, {}};
  const std::string_view written = line.substr(std::min(begin, line.size()));
  const std::string typed = escape ? without_escapes(written) : std::string(written);
  const size_t slash = typed.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : typed.substr(0, slash + 1);
  const std::string start = typed.substr(folder.size());
  std::error_code none;
  size_t looked_at = 0;
  for (std::filesystem::directory_iterator entry(folder.empty() ? "." : with_home(folder), none), end;
       !none && entry != end && looked_at < kMaxEntries; entry.increment(none), ++looked_at) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with(start) || (name[0] == '.' && !start.starts_with('.'))) continue;
    if (core::printable(name, name.size() + 1) != name) continue;
    if (std::error_code unknown; entry->is_directory(unknown)) name += '/';
    found.words.push_back(escape ? with_escapes(folder + name) : folder + name);
  }
  std::ranges::sort(found.words);
  return found;
}

std::string common_start(std::span<const std::string> words) {
  if (words.empty()) return {};
  std::string common = words[0];
  for (const std::string& word : words) {
    size_t same = 0;
    while (same < common.size() && same < word.size() && common[same] == word[same]) ++same;
    common.resize(same);
  }
  return common.substr(0, core::utf8_valid_prefix(common));
}

std::string in_columns(std::span<const std::string> words, int columns) {
  const std::span<const std::string> shown = words.first(std::min(words.size(), kMaxShown));
  size_t width = 0;
  for (const std::string& word : shown) width = std::max(width, core::utf8_length(word) + 2);
  const size_t across = std::max<size_t>(1, static_cast<size_t>(std::max(columns, 1)) / std::max<size_t>(width, 1));
  const size_t down = (shown.size() + across - 1) / across;
  std::string text;
  for (size_t row = 0; row < down; ++row) {
    for (size_t i = row; i < shown.size(); i += down) {
      text += shown[i];
      if (i + down < shown.size()) text.append(width - core::utf8_length(shown[i]), ' ');
    }
    text += '\n';
  }
  if (shown.size() < words.size()) text += fmt::format("… and {} more\n", words.size() - shown.size());
  return text;
}

} // namespace ridge::app
