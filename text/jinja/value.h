// Python-like values. All but namespaces are immutable, so values form no cycles and copies share storage. Lists and
// dicts know their depth; its limit makes recursive walks safe on the native stack.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "text/jinja/tainted_text.h"

namespace ridge::text::jinja {

// The catcher of a Problem adds the position.
struct Problem {
  std::string message;
  bool is_refusal = false; // from raise_exception
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Problem{fmt::format(format, std::forward<Args>(args)...)};
}

class Value;
class Runtime;
struct List;
struct Dict;
struct Object;
struct BigInteger;

struct Text {
  TaintedText text;
  bool is_markup = false; // from `safe` or `escape`; concatenation escapes plain text
};

class Value {
 public:
  enum class Kind { undefined, none, boolean, integer, floating, string, list, dict, object, big_integer };

  Value() : data_(std::monostate{}) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(TaintedText text, bool is_markup = false)
      : data_(std::make_shared<const Text>(Text{std::move(text), is_markup})) {}
  Value(std::string own) : Value(TaintedText(std::move(own))) {}
  Value(std::string_view own) : Value(std::string(own)) {}
  Value(const char* own) : Value(std::string(own)) {}
  Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}
  Value(std::shared_ptr<const BigInteger> integer) : data_(std::move(integer)) {}

  static Value data(std::string bytes) { return TaintedText(std::move(bytes), true); }
  // `why`: the error when the value is used.
  static Value undefined(std::string why);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::undefined; }
  bool is_none() const { return kind() == Kind::none; }
  bool is_string() const { return kind() == Kind::string; }
  bool is_dict() const { return kind() == Kind::dict; }
  bool is_bool() const { return kind() == Kind::boolean; }
  bool is_integral() const { return kind() == Kind::integer || is_bool(); }
  bool is_integer() const { return is_integral() || kind() == Kind::big_integer; }
  bool is_number() const { return is_integer() || kind() == Kind::floating; }

  int64_t integer() const { return is_bool() ? std::get<bool>(data_) : std::get<int64_t>(data_); }
  double number() const;
  const BigInteger* big() const {
    const auto* pointer = std::get_if<std::shared_ptr<const BigInteger>>(&data_);
    return pointer ? pointer->get() : nullptr;
  }
  const TaintedText& text() const { return std::get<std::shared_ptr<const Text>>(data_)->text; }
  const std::string& string() const { return text().bytes(); }
  bool is_markup() const { return is_string() && std::get<std::shared_ptr<const Text>>(data_)->is_markup; }
  const List* list() const {
    const auto* pointer = std::get_if<std::shared_ptr<const List>>(&data_);
    return pointer ? pointer->get() : nullptr;
  }
  const Dict* dict() const {
    const auto* pointer = std::get_if<std::shared_ptr<const Dict>>(&data_);
    return pointer ? pointer->get() : nullptr;
  }
  std::shared_ptr<Object> object() const {
    const auto* pointer = std::get_if<std::shared_ptr<Object>>(&data_);
    return pointer ? *pointer : nullptr;
  }
  const std::string& why_undefined() const { return *std::get<Missing>(data_); }

  bool truth() const;
  std::string_view type_name() const;
  bool same_as(const Value& other) const;

 private:
  using Missing = std::shared_ptr<const std::string>;
  std::variant<Missing, std::monostate, bool, int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<Object>, std::shared_ptr<const BigInteger>>
      data_;
};

using Values = std::vector<Value>;

// Views have no index; generators have neither index nor length, are truthy and yield once. A failed item raises its
// error when requested, as in Jinja2.
struct List {
  enum class Kind { list, tuple, range, keys, values, items, generator };
  Kind kind;
  int depth;
  Values items;
  mutable size_t consumed = 0;
  mutable std::shared_ptr<const Problem> failure{}; // raised after the items

  bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple || kind == Kind::range; }
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;

  const Value* find(const Value& key) const; // nullptr: absent; throws Problem if unhashable
  const Value* find(std::string_view key) const;
  void set(const Value& key, const Value& value);

 private:
  std::map<std::string, size_t, std::less<>> index_; // not a hash map: hostile keys could collide
};

struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

// Keywords may come from dict keys (**), so they count as data.
inline Value keyword_text(const std::string& name) { return Value::data(name); }

struct Object {
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual TaintedText print(Runtime&) { return TaintedText(fmt::format("<{}>", type_name())); }
  virtual bool is_callable() const { return true; }
  virtual Value call(Runtime&, Arguments&) { fail("'{}' object is not callable", type_name()); }
  virtual std::optional<Value> attribute(Runtime&, std::string_view) { return std::nullopt; }
  virtual void release() {}
};

// Throw Problem if too deep.
Value make_list(Values items, List::Kind kind = List::Kind::list);
Value make_dict(Dict dict);

Value from_json(const nlohmann::ordered_json& json, IsData is_data);

// Parameters and errors of json.dumps.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<TaintedText> indent;
  TaintedText item_separator{", "};
  TaintedText key_separator{": "};
};
TaintedText to_json(const Value& value, const JsonStyle& style, size_t max_bytes);

} // namespace ridge::text::jinja
