#include "text/calls/call_values.h"

#include "core/json/parse.h"
#include "core/strings/utf8.h"
#include "text/json/kept_number.h"
#include "text/white_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ridge::text {
namespace {

using Json = nlohmann::ordered_json;

class Reader {
 public:
  Reader(std::string_view text, bool gemma) : rest_(text), gemma_(gemma) {}

  bool failed() const { return failed_; }
  bool at_end() {
    skip_space();
    return rest_.empty();
  }

  Json value(int depth = 0) {
    if (depth > kMaxNesting) return fail();
    skip_space();
    if (take("{")) return object(depth);
    if (take("[")) return list("]", depth);
    if (!gemma_ && take("(")) return list(")", depth);
    if (gemma_ && take(kGemmaQuote)) return gemma_string();
    if (!gemma_ && (rest_.starts_with('"') || rest_.starts_with('\''))) return python_string();
    return word();
  }

  Json keyword_arguments() {
    Json result = Json::object();
    while (!at_end() && !failed_) {
      const std::string key(take_until("=", "=,(){}[]'\" \n"));
      if (key.empty() || !take("=")) return fail();
      result[key] = value();
      if (!at_end() && !take(",")) return fail();
    }
    return result;
  }

 private:
  Json fail() {
    failed_ = true;
    return nullptr;
  }
  void skip_space() { rest_ = trim_left(rest_); }
  bool take(std::string_view what) {
    skip_space();
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }
  // Fails if one of `refused` comes first.
  std::string_view take_until(std::string_view end, std::string_view refused) {
    skip_space();
    const size_t size = rest_.find_first_of(refused);
    if (size == std::string_view::npos || !rest_.substr(size).starts_with(end)) return {};
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }

  Json object(int depth) {
    Json result = Json::object();
    while (!failed_ && !take("}")) {
      std::string key;
      if (gemma_ && !rest_.starts_with(kGemmaQuote)) {
        key = take_until(":", ":,{}[]\n");
      } else {
        const Json text = value(depth + 1);
        if (!text.is_string()) return fail();
        key = text;
      }
      if (!take(":")) return fail();
      result[key] = value(depth + 1);
      if (!take(",") && !rest_.starts_with('}')) return fail();
    }
    return result;
  }

  Json list(std::string_view close, int depth) {
    Json result = Json::array();
    while (!failed_ && !take(close)) {
      result.push_back(value(depth + 1));
      if (!take(",") && !rest_.starts_with(close)) return fail();
    }
    return result;
  }

  Json gemma_string() {
    const size_t end = rest_.find(kGemmaQuote);
    if (end == std::string_view::npos) return fail();
    const std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + kGemmaQuote.size());
    return text;
  }

  Json python_string() {
    const char quote = rest_[0];
    std::string text;
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        rest_.remove_prefix(i + 1);
        return text;
      }
      if (rest_[i] != '\\' || i + 1 == rest_.size()) {
        text += rest_[i];
        continue;
      }
      append_escaped(text, i);
    }
    return fail();
  }

  // At a backslash; moves i to the escape's end.
  void append_escaped(std::string& text, size_t& i) {
    const char kind = rest_[++i];
    const std::string_view letters = "ntrbf", meant = "\n\t\r\b\f";
    if (const size_t which = letters.find(kind); which != std::string_view::npos) {
      text += meant[which];
    } else if (kind == 'u' || kind == 'x') {
      uint32_t code = hex(i + 1, kind == 'u' ? 4 : 2);
      i += kind == 'u' ? 4 : 2;
      const bool is_pair =
          code >= 0xD800 && code < 0xDC00 && rest_.substr(std::min(i + 1, rest_.size())).starts_with("\\u");
      if (is_pair) {
        const uint32_t low = hex(i + 3, 4);
        if (low >= 0xDC00 && low < 0xE000) {
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          i += 6;
        }
      }
      core::append_utf8(text, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    } else {
      if (kind != '\'' && kind != '"' && kind != '\\' && kind != '/') text += '\\';
      text += kind;
    }
  }

  uint32_t hex(size_t at, size_t digits) {
    uint32_t code = 0;
    for (size_t i = at; i < at + digits; ++i) {
      const char c = i < rest_.size() ? rest_[i] : 0;
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) failed_ = true;
      code = code * 16 + static_cast<uint32_t>(std::max(digit, 0));
    }
    return code;
  }

  Json word() {
    const size_t size = std::min(rest_.find_first_of(",:()[]{}'\" \t\r\n"), rest_.size());
    const std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    if (text == "True") return true;
    if (text == "False") return false;
    if (text == "None") return nullptr;
    Json number = parse_json(text);
    return number.is_discarded() ? fail() : number;
  }

  std::string_view rest_;
  const bool gemma_;
  bool failed_ = false;
};

size_t find_end(std::string_view text, bool gemma) {
  int depth = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (gemma && text.substr(i).starts_with(kGemmaQuote)) {
      i = text.find(kGemmaQuote, i + kGemmaQuote.size());
      if (i == std::string_view::npos) return i;
      i += kGemmaQuote.size() - 1;
    } else if (!gemma && (c == '"' || c == '\'')) {
      for (++i; i < text.size() && text[i] != c; ++i) i += text[i] == '\\';
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if ((c == ')' || c == ']' || c == '}') && --depth == 0) {
      return i;
    }
  }
  return std::string_view::npos;
}

std::string gemma_value(const Json& value) {
  if (value.is_string()) return fmt::format("{}{}{}", kGemmaQuote, value.get<std::string>(), kGemmaQuote);
  if (value.is_object()) return write_gemma_arguments(value);
  if (!value.is_array()) return compact_json(value);
  std::vector<std::string> items;
  for (const Json& item : value) items.push_back(gemma_value(item));
  return fmt::format("[{}]", fmt::join(items, ","));
}

} // namespace

std::optional<Json> read_python_value(std::string_view text) {
  Reader reader(text, false);
  Json value = reader.value();
  if (!reader.at_end() || reader.failed()) return std::nullopt;
  return value;
}

std::optional<Json> read_python_arguments(std::string_view text) {
  Reader reader(text, false);
  Json value = reader.keyword_arguments();
  if (reader.failed()) return std::nullopt;
  return value;
}

std::optional<Json> read_gemma_arguments(std::string_view text) {
  Reader reader(text, true);
  Json value = reader.value();
  if (!reader.at_end() || reader.failed() || !value.is_object()) return std::nullopt;
  return value;
}

std::string write_python_arguments(const Json& value) {
  std::vector<std::string> pairs;
  for (const auto& [key, one] : value.items())
    pairs.push_back(key + "=" +
                    (one.is_boolean() ? one ? "True" : "False"
                     : one.is_null()  ? "None"
                                      : compact_json(one)));
  return fmt::format("{}", fmt::join(pairs, ", "));
}

std::string write_gemma_arguments(const Json& value) {
  std::vector<std::string> pairs;
  for (const auto& [key, one] : value.items()) pairs.push_back(key + ":" + gemma_value(one));
  return fmt::format("{{{}}}", fmt::join(pairs, ","));
}

size_t find_python_end(std::string_view text) { return find_end(text, false); }
size_t find_gemma_end(std::string_view text) { return find_end(text, true); }

std::string escape_json(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
    case '"': out += "\\\""; break;
    case '\\': out += "\\\\"; break;
    case '\n': out += "\\n"; break;
    case '\t': out += "\\t"; break;
    case '\r': out += "\\r"; break;
    default:
      if (static_cast<unsigned char>(c) < 0x20)
        out += fmt::format("\\u{:04x}", static_cast<int>(c));
      else
        out += c;
    }
  }
  return out;
}

Json parse_json(std::string_view text) {
  return core::find_json(text, {.depth = kMaxNesting, .exact_numbers = true}).value_or(Json(Json::value_t::discarded));
}

std::string compact_json(const Json& value) { return json_text(value); }

} // namespace ridge::text
