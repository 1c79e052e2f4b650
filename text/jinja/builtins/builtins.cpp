#include "text/jinja/builtins.h"

#include "text/jinja/objects.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

#include <locale.h>

#include <algorithm>
#include <cmath>

namespace ridge::text::jinja {

int64_t Call::integer(size_t i, int64_t absent) const {
  if (!named[i]) return absent;
  if (named[i]->big()) fail("Python int too large to convert to C ssize_t");
  if (!named[i]->is_integral()) {
    if (named[i]->is_undefined()) fail("{}", named[i]->why_undefined());
    fail("'{}' object cannot be interpreted as an integer", named[i]->type_name());
  }
  return named[i]->integer();
}

const TaintedText& Call::text(size_t i) const {
  if (!named[i]->is_string()) fail("expected a string, got '{}'", named[i]->type_name());
  return named[i]->text();
}

std::string_view Call::string(size_t i) const { return text(i).bytes(); }

Value Builtin::operator()(Runtime& runtime, const Value& self, Arguments& arguments) const {
  struct Parameter {
    std::string_view name;
    bool is_optional;
  };
  std::vector<Parameter> wanted;
  bool catches_positional = false, catches_keywords = false;
  for (std::string_view rest = parameters; !rest.empty();) {
    const size_t space = rest.find(' ');
    std::string_view word = rest.substr(0, space);
    rest = space == rest.npos ? std::string_view() : rest.substr(space + 1);
    if (word == "*") {
      catches_positional = true;
    } else if (word == "**") {
      catches_keywords = true;
    } else {
      const bool is_optional = word.back() == '?';
      if (is_optional) word.remove_suffix(1);
      wanted.push_back({word, is_optional});
    }
  }

  Call call{self, std::vector<const Value*>(wanted.size(), nullptr), {}};
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < wanted.size())
      call.named[i] = &arguments.positional[i];
    else if (catches_positional)
      call.rest.positional.push_back(arguments.positional[i]);
    else
      fail("{}() takes at most {} argument(s) ({} given)", name, wanted.size(), arguments.positional.size());
  }
  for (const auto& [key, value] : arguments.keyword) {
    const auto found =
        std::find_if(wanted.begin(), wanted.end(), [&k = key](const Parameter& p) { return p.name == k; });
    if (found == wanted.end()) {
      if (!catches_keywords) fail("{}() got an unexpected keyword argument '{}'", name, key);
      call.rest.keyword.emplace_back(key, value);
      continue;
    }
    const Value*& place = call.named[static_cast<size_t>(found - wanted.begin())];
    if (place) fail("{}() got multiple values for argument '{}'", name, key);
    place = &value;
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!call.named[i] && !wanted[i].is_optional) fail("{}() is missing the argument '{}'", name, wanted[i].name);
  runtime.spend();
  return run(runtime, call);
}

namespace {

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Builtin& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

// ---- tests

Value ordered(Runtime& runtime, const Call& call, std::string_view op) {
  const auto order = runtime.order(call.self, *call[0], op);
  return op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
}

Value remainder_is(Runtime& runtime, const Call& call, const Value& divisor, int64_t wanted) {
  return runtime.equal(runtime.binary("%", call.self, divisor), Value(wanted));
}

template <typename Has, typename Lacks>
bool has_case(std::string_view text, Has has, Lacks lacks) {
  bool any = false;
  for (size_t at = 0; at < text.size(); at += decode_at(text, at).bytes) {
    const char32_t c = decode_at(text, at).value;
    if (lacks(c)) return false;
    any |= has(c);
  }
  return any;
}

bool names(const Value& value, const Builtin* (*find)(std::string_view)) {
  Dict().find(value); // throws for unhashable values
  return value.is_string() && find(value.string());
}

bool is_iterable(const Value& v) { return v.is_undefined() || v.is_string() || v.is_dict() || v.list(); }

constexpr Builtin kTests[] = {
    {"defined", "", [](Runtime&, const Call& c) -> Value { return !c.self.is_undefined(); }},
    {"undefined", "", [](Runtime&, const Call& c) -> Value { return c.self.is_undefined(); }},
    {"none", "", [](Runtime&, const Call& c) -> Value { return c.self.is_none(); }},
    {"boolean", "", [](Runtime&, const Call& c) -> Value { return c.self.is_bool(); }},
    {"true", "", [](Runtime&, const Call& c) -> Value { return c.self.is_bool() && c.self.truth(); }},
    {"false", "", [](Runtime&, const Call& c) -> Value { return c.self.is_bool() && !c.self.truth(); }},
    {"integer", "", [](Runtime&, const Call& c) -> Value { return c.self.is_integer() && !c.self.is_bool(); }},
    {"float", "", [](Runtime&, const Call& c) -> Value { return c.self.kind() == Value::Kind::floating; }},
    {"number", "", [](Runtime&, const Call& c) -> Value { return c.self.is_number(); }},
    {"string", "", [](Runtime&, const Call& c) -> Value { return c.self.is_string(); }},
    {"mapping", "", [](Runtime&, const Call& c) -> Value { return c.self.is_dict(); }},
    {"sequence", "",
     [](Runtime&, const Call& c) -> Value {
       return c.self.list() ? c.self.list()->is_sequence() : is_iterable(c.self);
     }},
    {"iterable", "", [](Runtime&, const Call& c) -> Value { return is_iterable(c.self); }},
    {"callable", "",
     [](Runtime&, const Call& c) -> Value {
       return c.self.is_undefined() || (c.self.object() && c.self.object()->is_callable());
     }},
    {"escaped", "", [](Runtime&, const Call& c) -> Value { return c.self.is_markup(); }},
    {"odd", "", [](Runtime& r, const Call& c) { return remainder_is(r, c, Value(int64_t{2}), 1); }},
    {"even", "", [](Runtime& r, const Call& c) { return remainder_is(r, c, Value(int64_t{2}), 0); }},
    {"divisibleby", "num", [](Runtime& r, const Call& c) { return remainder_is(r, c, *c[0], 0); }},
    {"lower", "",
     [](Runtime& r, const Call& c) -> Value { return has_case(r.str(c.self).bytes(), is_lower, is_upper); }},
    {"upper", "",
     [](Runtime& r, const Call& c) -> Value { return has_case(r.str(c.self).bytes(), is_upper, is_lower); }},
    {"filter", "", [](Runtime&, const Call& c) -> Value { return names(c.self, find_filter); }},
    {"test", "", [](Runtime&, const Call& c) -> Value { return names(c.self, find_test); }},
    {"sameas", "other", [](Runtime&, const Call& c) -> Value { return c.self.same_as(*c[0]); }},
    {"in", "seq", [](Runtime& r, const Call& c) -> Value { return r.contains(*c[0], c.self); }},
    {"==", "other", [](Runtime& r, const Call& c) -> Value { return r.equal(c.self, *c[0]); }},
    {"eq", "other", [](Runtime& r, const Call& c) -> Value { return r.equal(c.self, *c[0]); }},
    {"equalto", "other", [](Runtime& r, const Call& c) -> Value { return r.equal(c.self, *c[0]); }},
    {"!=", "other", [](Runtime& r, const Call& c) -> Value { return !r.equal(c.self, *c[0]); }},
    {"ne", "other", [](Runtime& r, const Call& c) -> Value { return !r.equal(c.self, *c[0]); }},
    {">", "other", [](Runtime& r, const Call& c) { return ordered(r, c, ">"); }},
    {"gt", "other", [](Runtime& r, const Call& c) { return ordered(r, c, ">"); }},
    {"greaterthan", "other", [](Runtime& r, const Call& c) { return ordered(r, c, ">"); }},
    {">=", "other", [](Runtime& r, const Call& c) { return ordered(r, c, ">="); }},
    {"ge", "other", [](Runtime& r, const Call& c) { return ordered(r, c, ">="); }},
    {"<", "other", [](Runtime& r, const Call& c) { return ordered(r, c, "<"); }},
    {"lt", "other", [](Runtime& r, const Call& c) { return ordered(r, c, "<"); }},
    {"lessthan", "other", [](Runtime& r, const Call& c) { return ordered(r, c, "<"); }},
    {"<=", "other", [](Runtime& r, const Call& c) { return ordered(r, c, "<="); }},
    {"le", "other", [](Runtime& r, const Call& c) { return ordered(r, c, "<="); }},
};

// ---- functions

Value range(Runtime& runtime, const Call& call) {
  const int64_t first = call.integer(0, 0);
  const int64_t start = call[1] ? first : 0;
  const int64_t stop = call[1] ? call.integer(1, 0) : first;
  const int64_t step = call.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  const __int128 distance = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? step : -static_cast<__int128>(step);
  const __int128 count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > kMaxRange) fail("range too big: at most {} numbers", kMaxRange);
  Values items;
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) items.push_back(Value(start + i * step));
  return runtime.list(std::move(items), List::Kind::range);
}

Dict dict_of(Runtime& runtime, const Call& call) {
  Dict dict;
  if (call[0]) {
    if (const Dict* from = call[0]->dict()) {
      for (const auto& [key, value] : from->entries) runtime.set_key(dict, key, value);
    } else {
      for (const Value& pair : runtime.iterate(*call[0])) {
        const Values parts = runtime.iterate(pair);
        if (parts.size() != 2) fail("dictionary update sequence element has length {}; 2 is required", parts.size());
        runtime.set_key(dict, parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : call.rest.keyword) dict.set(keyword_text(name), value);
  return dict;
}

Value make_namespace(Runtime& runtime, const Call& call) {
  auto space = std::make_shared<Namespace>();
  for (const auto& [key, value] : dict_of(runtime, call).entries) {
    if (!key.is_string()) fail("namespace(): names must be strings");
    space->set(key.string(), value);
  }
  return runtime.keep(std::move(space));
}

struct Cycler : Object {
  Values items;
  size_t at = 0;
  explicit Cycler(Values items) : items(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  bool is_callable() const override { return false; }
  void release() override { items.clear(); }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
    if (items.empty()) return std::nullopt;
    if (name == "current") return items[at];
    if (name != "next" && name != "reset") return std::nullopt;
    // The runtime owns the cycler, so `this` stays valid.
    return runtime.keep(std::make_shared<Function>([this, is_next = name == "next"](Runtime&, Arguments&) -> Value {
      if (items.empty()) return {};
      if (!is_next) return at = 0, Value();
      const Value item = items[at];
      at = (at + 1) % items.size();
      return item;
    }));
  }
};

struct Joiner : Object {
  TaintedText separator;
  bool is_used = false;
  explicit Joiner(TaintedText separator) : separator(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  Value call(Runtime&, Arguments&) override { return std::exchange(is_used, true) ? Value(separator) : Value(""); }
};

Value strftime_now(Runtime& runtime, const Call& call) {
  static const locale_t kPlain = newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string format(call.string(0));
  std::string out(format.size() * 4 + 4096, '\0');
  out.resize(strftime_l(out.data(), out.size(), format.c_str(), &runtime.now(), kPlain));
  return runtime.text(TaintedText(std::move(out), call.text(0).has_data()));
}

constexpr Builtin kFunctions[] = {
    {"range", "start stop? step?", range},
    {"dict", "from? **", [](Runtime& r, const Call& c) { return r.dict(dict_of(r, c)); }},
    {"namespace", "from? **", make_namespace},
    {"cycler", "*",
     [](Runtime& r, const Call& c) {
       if (c.rest.positional.empty()) fail("at least one item has to be provided");
       return r.keep(std::make_shared<Cycler>(c.rest.positional));
     }},
    {"joiner", "sep?",
     [](Runtime& r, const Call& c) {
       return r.keep(std::make_shared<Joiner>(c[0] ? r.str(*c[0]) : TaintedText(", ")));
     }},
    {"raise_exception", "message",
     [](Runtime& r, const Call& c) -> Value {
       throw Problem{r.str(*c[0]).bytes(), true};
     }},
    {"strftime_now", "format", strftime_now},
};

} // namespace

const Builtin* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), number_filters(), sequence_filters()})
    if (const Builtin* filter = find_in(table, name)) return filter;
  return nullptr;
}
const Builtin* find_test(std::string_view name) { return find_in(kTests, name); }
const Builtin* find_function(std::string_view name) { return find_in(kFunctions, name); }

} // namespace ridge::text::jinja
