#include "app/terminal/typed_pictures.h"

#include "core/strings/file_url.h"
#include "media/medium.h"

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace ridge::app {
namespace {

constexpr std::string_view kSpace = " \t\n";

struct Word {
  size_t end;
  std::string text;
};

// Parses a word like a shell. Nothing for an unterminated quote (an apostrophe).
std::optional<Word> read_word(std::string_view line, size_t begin) {
  Word word{begin, {}};
  char quote = 0;
  for (; word.end < line.size(); ++word.end) {
    const char c = line[word.end];
    if (!quote && kSpace.find(c) != kSpace.npos) break;
    if (c == quote) {
      quote = 0;
    } else if (!quote && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && word.end + 1 < line.size()) {
      word.text += line[++word.end];
    } else {
      word.text += c;
    }
  }
  if (quote) return std::nullopt;
  return word;
}

std::string absolute_path(const std::string& word) {
  if (word.starts_with(core::kFileUrl)) return core::path_of_file_url(word);
  const char* home = std::getenv("HOME");
  if (word.starts_with("~/") && home) return home + word.substr(1);
  return word.starts_with('/') ? word : "";
}

bool is_picture(const std::string& path) { return !path.empty() && media::is_medium_file(path); }

} // namespace

std::vector<TypedPicture> typed_pictures(std::string_view line) {
  const size_t first = line.find_first_not_of(kSpace);
  if (first == line.npos) return {};
  const size_t last = line.find_last_not_of(kSpace) + 1;
  const std::string whole = absolute_path(std::string(line.substr(first, last - first)));
  if (is_picture(whole)) return {{first, last, whole}};
  std::vector<TypedPicture> found;
  for (size_t at = first; at != line.npos; at = line.find_first_not_of(kSpace, at)) {
    std::optional<Word> word = read_word(line, at);
    size_t end = word ? word->end : std::min(line.find_first_of(kSpace, at), line.size());
    if (word) {
      std::string path = absolute_path(word->text);
      constexpr std::string_view kMarks = ".,;:!?)";
      if (!path.empty() && !is_picture(path) && kMarks.find(path.back()) != kMarks.npos &&
          line[end - 1] == path.back()) {
        path.pop_back();
        --end;
      }
      if (is_picture(path)) found.push_back({at, end, path});
    }
    at = word ? word->end : end;
  }
  return found;
}

std::string given_path(const std::string& text) {
  std::error_code none;
  if (std::filesystem::exists(text, none)) return text;
  const std::optional<Word> word = read_word(text, 0);
  if (!word || word->end != text.size()) return text;
  const std::string path = absolute_path(word->text);
  return path.empty() ? word->text : path;
}

} // namespace ridge::app
