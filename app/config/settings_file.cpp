#include "app/config/settings_file.h"

#include "core/error.h"
#include "core/files/read_file.h"
#include "core/files/xdg.h"
#include "core/strings/printable.h"
#include "core/strings/utf8.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace ridge::app {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr std::string_view kNone = "none", kFlag = "--config";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

class SettingsReader {
 public:
  SettingsReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  std::vector<Setting> read() {
    for (size_t at = 0; at < text_.size();) {
      const size_t end = std::min(text_.find('\n', at), text_.size());
      ++line_;
      read_line(trimmed(text_.substr(at, end - at)));
      at = end + 1;
    }
    return std::move(settings_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw_error("{}:{}: {}", path_, line_, fmt::format(format, std::forward<Args>(args)...));
  }

  void read_line(std::string_view line) {
    if (line.empty() || line[0] == '#' || line[0] == ';') return;
    if (line[0] == '[') return read_section(line);
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos)
      fail("expected NAME = VALUE or [SECTION], found \"{}\"", core::printable(line, 60));
    Setting setting = section_;
    setting.name = trimmed(line.substr(0, equals));
    if (setting.name.starts_with("--")) setting.name.erase(0, 2);
    if (setting.name.empty() || setting.name.find_first_of(" \t\"'-") == 0)
      fail("\"{}\" is not an option name", core::printable(setting.name, 60));
    setting.value = value_of(trimmed(line.substr(equals + 1)));
    setting.line = line_;
    settings_.push_back(std::move(setting));
  }

  void read_section(std::string_view line) {
    const size_t close = line.rfind(']');
    const std::string_view behind = close == std::string_view::npos ? "" : trimmed(line.substr(close + 1));
    if (close == std::string_view::npos || (!behind.empty() && behind[0] != '#' && behind[0] != ';'))
      fail("expected [COMMAND] or [model \"NAME\"], found \"{}\"", core::printable(line, 60));
    const std::string_view inner = trimmed(line.substr(1, close - 1));
    constexpr std::string_view kModel = "model";
    if (inner.starts_with(kModel) && inner.size() > kModel.size() && (inner[5] == ' ' || inner[5] == '"')) {
      section_ = {Setting::Scope::model, value_of(trimmed(inner.substr(kModel.size())))};
      if (section_.section.empty()) fail("[model \"NAME\"]: the name is empty");
      return;
    }
    if (inner.empty() || inner.find_first_of(" \t\"") != std::string_view::npos)
      fail("expected [COMMAND] or [model \"NAME\"], found \"{}\"", core::printable(line, 60));
    section_ = {Setting::Scope::command, std::string(inner)};
  }

  // A value ends at a comment after a space, or is quoted with \n, \t, \" and \\.
  std::string value_of(std::string_view text) const {
    if (!text.starts_with('"')) {
      for (size_t at = 0; at + 1 < text.size(); ++at)
        if ((text[at] == ' ' || text[at] == '\t') && (text[at + 1] == '#' || text[at + 1] == ';'))
          return std::string(trimmed(text.substr(0, at)));
      return std::string(text.starts_with('#') || text.starts_with(';') ? "" : text);
    }
    std::string value;
    size_t at = 1;
    for (; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] != '\\') {
        value += text[at];
        continue;
      }
      constexpr std::string_view kEscaped = "nt\"\\", kMeant = "\n\t\"\\";
      const size_t which = ++at < text.size() ? kEscaped.find(text[at]) : std::string_view::npos;
      if (which == std::string_view::npos) fail("in quotes, \\ must be followed by n, t, \" or \\");
      value += kMeant[which];
    }
    if (at >= text.size()) fail("the closing quote is missing");
    const std::string_view behind = trimmed(text.substr(at + 1));
    if (!behind.empty() && behind[0] != '#' && behind[0] != ';')
      fail("unexpected \"{}\" after the closing quote", core::printable(behind, 60));
    return value;
  }

  const std::string_view text_;
  const std::string& path_;
  size_t line_ = 0;
  Setting section_;
  std::vector<Setting> settings_;
};

} // namespace

std::string Setting::place() const {
  if (scope == Scope::general) return fmt::format("line {}", line);
  if (scope == Scope::command) return fmt::format("line {}, [{}]", line, section);
  return fmt::format("line {}, [model \"{}\"]", line, section);
}

SettingsFile parse_settings(std::string_view text, const std::string& path) {
  if (!core::is_utf8(text) || text.find('\0') != std::string_view::npos)
    throw_error("{}: expected text in UTF-8", path);
  return {path, SettingsReader(text, path).read()};
}

SettingsFile read_settings(std::vector<std::string>& args) {
  std::string path;
  bool asked = false;
  for (size_t i = 0; i < args.size();) {
    const bool joined = args[i].starts_with(std::string(kFlag) + "=");
    if (args[i] == "--") break;
    if (args[i] != kFlag && !joined) {
      ++i;
      continue;
    }
    if (!joined && i + 1 == args.size()) throw Error("--config: expected a file, or none", Error::kUsage);
    path = joined ? args[i].substr(kFlag.size() + 1) : args[i + 1];
    asked = true;
    const auto first = args.begin() + static_cast<std::ptrdiff_t>(i);
    args.erase(first, first + (joined ? 1 : 2));
  }
  if (const char* named = std::getenv("RIDGE_CONFIG"); !asked && named && *named) path = named, asked = true;
  if (path == kNone) return {};
  if (!asked) {
    const std::string folder = core::config_folder();
    std::error_code ignored;
    if (folder.empty() || !std::filesystem::exists(folder + "/config.ini", ignored)) return {};
    path = folder + "/config.ini";
  }
  return parse_settings(core::read_text_file(path, kMaxBytes), path);
}

} // namespace ridge::app
