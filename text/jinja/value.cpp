#include "text/jinja/value.h"

#include "core/json/parse.h"
#include "text/jinja/integers.h"
#include "text/jinja/limits.h"
#include "text/jinja/text.h"
#include "text/json/kept_number.h"

#include <algorithm>
#include <cmath>

namespace ridge::text::jinja {

Value Value::undefined(std::string why) {
  Value value;
  value.data_ = std::make_shared<const std::string>(std::move(why));
  return value;
}

double Value::number() const { return kind() == Kind::floating ? std::get<double>(data_) : to_double(*this); }

bool Value::truth() const {
  switch (kind()) {
  case Kind::undefined:
  case Kind::none: return false;
  case Kind::boolean:
  case Kind::integer: return integer() != 0;
  case Kind::floating: return number() != 0;
  case Kind::string: return !string().empty();
  case Kind::list: return list()->kind == List::Kind::generator || !list()->items.empty();
  case Kind::dict: return !dict()->entries.empty();
  case Kind::object:
  case Kind::big_integer: return true;
  }
  return false;
}

std::string_view Value::type_name() const {
  switch (kind()) {
  case Kind::undefined: return "Undefined";
  case Kind::none: return "NoneType";
  case Kind::boolean: return "bool";
  case Kind::integer:
  case Kind::big_integer: return "int";
  case Kind::floating: return "float";
  case Kind::string: return is_markup() ? "Markup" : "str";
  case Kind::dict: return "dict";
  case Kind::object: return object()->type_name();
  case Kind::list: break;
  }
  constexpr std::string_view kNames[] = {"list",        "tuple",      "range",    "dict_keys",
                                         "dict_values", "dict_items", "generator"};
  return kNames[static_cast<size_t>(list()->kind)];
}

bool Value::same_as(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
  case Kind::none: return true;
  case Kind::boolean:
  case Kind::integer: return integer() == other.integer();
  case Kind::string: return string() == other.string();
  default: return data_ == other.data_;
  }
}

namespace {

// Equal keys have equal encodings: 1, 1.0, True.
void encode_key(const Value& key, std::string& out) {
  switch (key.kind()) {
  case Value::Kind::string: out += 's' + std::to_string(key.string().size()) + ':' + key.string(); return;
  case Value::Kind::none: out += 'n'; return;
  case Value::Kind::undefined: out += 'u'; return;
  case Value::Kind::boolean:
  case Value::Kind::integer:
  case Value::Kind::big_integer: out += 'i' + digits_of(key) + ';'; return;
  case Value::Kind::floating: {
    const double number = key.number();
    if (std::isfinite(number) && number == std::floor(number))
      out += 'i' + digits_of(integer_of(number)) + ';';
    else
      out += 'f' + float_repr(number) + ';';
    return;
  }
  case Value::Kind::object: out += fmt::format("o{};", static_cast<const void*>(key.object().get())); return;
  case Value::Kind::list:
    if (const List::Kind kind = key.list()->kind; kind == List::Kind::tuple || kind == List::Kind::range) {
      out += kind == List::Kind::tuple ? '(' : 'r';
      for (const Value& item : key.list()->items) encode_key(item, out);
      out += ')';
      return;
    }
    if (key.list()->kind == List::Kind::values || key.list()->kind == List::Kind::generator) {
      out += fmt::format("l{};", static_cast<const void*>(key.list()));
      return;
    }
    [[fallthrough]];
  case Value::Kind::dict: fail("unhashable type: '{}'", key.type_name());
  }
}

int depth_of(const Value& value) {
  if (const List* list = value.list()) return list->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  return 0;
}

int one_deeper(int depth) {
  if (depth >= kMaxValueDepth) fail("lists and dicts nest deeper than {}", kMaxValueDepth);
  return depth + 1;
}

} // namespace

const Value* Dict::find(const Value& key) const {
  std::string code;
  encode_key(key, code);
  const auto found = index_.find(code);
  return found == index_.end() ? nullptr : &entries[found->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = index_.find(fmt::format("s{}:{}", key.size(), key));
  return found == index_.end() ? nullptr : &entries[found->second].second;
}

void Dict::set(const Value& key, const Value& value) {
  std::string code;
  encode_key(key, code);
  const auto [place, is_new] = index_.emplace(std::move(code), entries.size());
  if (is_new)
    entries.emplace_back(key, value);
  else
    entries[place->second].second = value;
}

Value make_list(Values items, List::Kind kind) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return std::make_shared<const List>(List{kind, one_deeper(depth), std::move(items)});
}

Value make_dict(Dict dict) {
  int depth = 0;
  for (const auto& [key, value] : dict.entries) depth = std::max({depth, depth_of(key), depth_of(value)});
  dict.depth = one_deeper(depth);
  return std::make_shared<const Dict>(std::move(dict));
}

namespace {

// A number beyond double, for printing only.
struct WrittenNumber final : Object {
  std::string text;
  explicit WrittenNumber(std::string text) : text(std::move(text)) {}
  std::string_view type_name() const override { return "float"; }
  TaintedText print(Runtime&) override { return TaintedText(text); }
  bool is_callable() const override { return false; }
};

Value as_written(std::string number) {
  return Value(std::shared_ptr<Object>(std::make_shared<WrittenNumber>(std::move(number))));
}

Value from_json_at(const nlohmann::ordered_json& json, int depth, std::vector<std::string_view>& path, IsData is_data) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > kMaxValueDepth) fail("the JSON given to the template nests deeper than {}", kMaxValueDepth);
  switch (json.type()) {
  case Type::boolean: return json.get<bool>();
  case Type::number_integer: return json.get<int64_t>();
  case Type::number_unsigned: {
    const uint64_t number = json.get<uint64_t>();
    return number <= INT64_MAX ? Value(static_cast<int64_t>(number)) : *parse_integer(std::to_string(number), 10);
  }
  case Type::number_float: return json.get<double>();
  case Type::string: {
    const auto& text = json.get_ref<const std::string&>();
    return TaintedText(text, !is_data || is_data(path, text));
  }
  case Type::array: {
    Values items;
    items.reserve(json.size());
    for (const auto& item : json) items.push_back(from_json_at(item, depth + 1, path, is_data));
    return make_list(std::move(items));
  }
  case Type::object: {
    Dict dict;
    for (const auto& [key, value] : json.items()) {
      path.push_back(key);
      dict.set(Value::data(key), from_json_at(value, depth + 1, path, is_data));
      path.pop_back();
    }
    return make_dict(std::move(dict));
  }
  case Type::binary: {
    const std::string number = written_number(json);
    if (const auto integer = parse_integer(number, 10)) return *integer;
    return as_written(number);
  }
  default: return {};
  }
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, size_t max_bytes) : style_(style), max_bytes_(max_bytes) {}

  void write(const Value& value, int level) {
    if (out.size() > max_bytes_) fail("tojson: the text is longer than {} bytes", max_bytes_);
    switch (value.kind()) {
    case Value::Kind::none: out += "null"; return;
    case Value::Kind::boolean: out += value.integer() ? "true" : "false"; return;
    case Value::Kind::integer:
    case Value::Kind::big_integer: out += digits_of(value); return;
    case Value::Kind::floating: out += json_float(value.number()); return;
    case Value::Kind::string: write_string(value.text()); return;
    case Value::Kind::dict: write_dict(*value.dict(), level); return;
    case Value::Kind::list:
      if (value.list()->kind == List::Kind::list || value.list()->kind == List::Kind::tuple) {
        write_list(value.list()->items, level);
        return;
      }
      fail_to_write(value);
    case Value::Kind::object:
      if (const auto* number = dynamic_cast<const WrittenNumber*>(value.object().get())) {
        out += number->text;
        return;
      }
      [[fallthrough]];
    default: fail_to_write(value);
    }
  }

  TaintedText out;

 private:
  [[noreturn]] static void fail_to_write(const Value& value) {
    fail("Object of type {} is not JSON serializable", value.type_name());
  }
  static std::string json_float(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return float_repr(number);
  }

  void write_string(const TaintedText& text) {
    out += '"';
    out += text.map([this](std::string_view bytes) { return escaped(bytes); });
    out += '"';
  }

  std::string escaped(std::string_view text) const {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const CodePoint point = decode_at(text, at);
      switch (point.value) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (point.value < 0x20 || (style_.ensure_ascii && point.value >= 0x7f && point.value < 0x10000))
          out += point.value == 0x7f ? "\x7f" : fmt::format("\\u{:04x}", static_cast<uint32_t>(point.value));
        else if (style_.ensure_ascii && point.value >= 0x10000)
          out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((point.value - 0x10000) >> 10),
                             0xdc00 + ((point.value - 0x10000) & 0x3ff));
        else
          out += text.substr(at, point.bytes);
      }
      at += point.bytes;
    }
    return out;
  }

  void new_line(int level) {
    if (!style_.indent) return;
    out += '\n';
    for (int i = 0; i < level; ++i) out += *style_.indent;
  }

  void write_list(const Values& items, int level) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      new_line(level + 1);
      write(items[i], level + 1);
    }
    new_line(level);
    out += ']';
  }

  static TaintedText key_text(const Value& key) {
    switch (key.kind()) {
    case Value::Kind::string: return key.text();
    case Value::Kind::none: return TaintedText("null");
    case Value::Kind::boolean: return TaintedText(key.integer() ? "true" : "false");
    case Value::Kind::integer:
    case Value::Kind::big_integer: return TaintedText(digits_of(key));
    case Value::Kind::floating: return TaintedText(json_float(key.number()));
    default: fail("keys must be str, int, float, bool or None, not {}", key.type_name());
    }
  }

  void write_dict(const Dict& dict, int level) {
    std::vector<std::pair<TaintedText, const Value*>> entries;
    for (const auto& [key, value] : dict.entries) {
      if (style_.sort_keys && key.kind() != dict.entries[0].first.kind())
        fail("tojson: cannot sort keys of mixed types");
      entries.emplace_back(key_text(key), &value);
    }
    if (style_.sort_keys) {
      std::vector<size_t> order(entries.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        const Value &left = dict.entries[a].first, &right = dict.entries[b].first;
        return left.is_number() ? compare_numbers(left, right) < 0
                                : entries[a].first.bytes() < entries[b].first.bytes();
      });
      std::vector<std::pair<TaintedText, const Value*>> sorted;
      for (const size_t i : order) sorted.push_back(entries[i]);
      entries = std::move(sorted);
    }
    if (entries.empty()) {
      out += "{}";
      return;
    }
    out += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      new_line(level + 1);
      write_string(entries[i].first);
      out += style_.key_separator;
      write(*entries[i].second, level + 1);
    }
    new_line(level);
    out += '}';
  }

  const JsonStyle& style_;
  size_t max_bytes_;
};

} // namespace

Value from_json(const nlohmann::ordered_json& json, IsData is_data) {
  std::vector<std::string_view> path;
  return from_json_at(json, 0, path, is_data);
}

TaintedText to_json(const Value& value, const JsonStyle& style, size_t max_bytes) {
  JsonWriter writer(style, max_bytes);
  writer.write(value, 0);
  return std::move(writer.out);
}

} // namespace ridge::text::jinja
