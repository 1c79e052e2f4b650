// What Python's operators, subscripts, len(), str() and repr() do.
#include "text/jinja/runtime.h"

#include "text/jinja/text.h"

#include <algorithm>
#include <cmath>

namespace ridge::text::jinja {

namespace {

struct BoundMethod : Object {
  Value self;
  const Builtin* method;
  BoundMethod(Value self, const Builtin* method) : self(std::move(self)), method(method) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  Value call(Runtime& runtime, Arguments& arguments) override { return (*method)(runtime, self, arguments); }
};

// Python's repr of a value, bounded.
class Printer {
 public:
  Printer(Runtime& runtime) : runtime_(runtime) {}

  void repr(const Value& value) {
    if (out.size() > runtime_.max_value_bytes()) runtime_.allow(out.size());
    runtime_.spend();
    switch (value.kind()) {
    case Value::Kind::undefined: out += "Undefined"; return;
    case Value::Kind::none: out += "None"; return;
    case Value::Kind::boolean: out += value.integer() ? "True" : "False"; return;
    case Value::Kind::integer: out += std::to_string(value.integer()); return;
    case Value::Kind::floating: out += float_repr(value.number()); return;
    case Value::Kind::string:
      out += value.is_markup() ? "Markup(" : "";
      out += string_repr(value.text());
      out += value.is_markup() ? ")" : "";
      return;
    case Value::Kind::list: repr_list(*value.list()); return;
    case Value::Kind::dict: {
      const char* separator = "";
      out += '{';
      for (const auto& [key, item] : value.dict()->entries) {
        out += std::exchange(separator, ", ");
        repr(key);
        out += ": ";
        repr(item);
      }
      out += '}';
      return;
    }
    case Value::Kind::object: out += value.object()->print(runtime_); return;
    }
  }

  TaintedText out;

 private:
  void repr_items(const Values& items) {
    const char* separator = "";
    for (const Value& item : items) {
      out += std::exchange(separator, ", ");
      repr(item);
    }
  }

  void repr_list(const List& list) {
    switch (list.kind) {
    case List::Kind::list:
      out += '[';
      repr_items(list.items);
      out += ']';
      return;
    case List::Kind::tuple:
      out += '(';
      repr_items(list.items);
      out += list.items.size() == 1 ? ",)" : ")";
      return;
    case List::Kind::range: {
      const int64_t start = list.items.empty() ? 0 : list.items.front().integer();
      const int64_t step = list.items.size() < 2 ? 1 : list.items[1].integer() - start;
      const int64_t stop = start + step * static_cast<int64_t>(list.items.size());
      out +=
          step == 1 ? fmt::format("range({}, {})", start, stop) : fmt::format("range({}, {}, {})", start, stop, step);
      return;
    }
    case List::Kind::generator: out += "<generator object>"; return;
    default:
      out += fmt::format("{}([", Value(std::shared_ptr<const List>(&list, [](auto*) {})).type_name());
      repr_items(list.items);
      out += "])";
    }
  }

  Runtime& runtime_;
};

[[noreturn]] void overflow() { fail("integer overflow: the result does not fit 64 bits"); }

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fail("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t result = 1;
  while (true) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) overflow();
  }
}

Value integer_arithmetic(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) overflow();
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) overflow();
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) overflow();
  } else if (op == "**") {
    return integer_power(a, b);
  } else {
    if (b == 0) fail("{}", op == "/" ? "division by zero" : "integer division or modulo by zero");
    if (op == "/") return static_cast<double>(a) / static_cast<double>(b);
    if (b == -1) { // the one divisor that can overflow
      if (op == "%") return int64_t{0};
      if (__builtin_sub_overflow(int64_t{0}, a, &result)) overflow();
      return result;
    }
    const bool inexact = a % b != 0 && ((a < 0) != (b < 0)); // Python rounds down
    return op == "//" ? a / b - inexact : a % b + (inexact ? b : 0);
  }
  return result;
}

Value float_arithmetic(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") {
    if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
    const double result = std::pow(a, b);
    if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) fail("the result of ** is out of range");
    if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) fail("complex numbers are not supported");
    return result;
  }
  if (b == 0)
    fail("{}", op == "%" ? "float modulo" : op == "//" ? "float floor division by zero" : "float division by zero");
  if (op == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 ? (b < 0) != (rest < 0) : false) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  if (op == "%") return rest;
  double quotient = (a - std::fmod(a, b)) / b;
  if (const double plain = std::fmod(a, b); plain != 0 && (b < 0) != (plain < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

} // namespace

TaintedText Runtime::str(const Value& value, bool into_markup) {
  if (into_markup && !value.is_markup()) return str(value).map(escape_html);
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return {};
  Deeper deeper(*this);
  return repr(value);
}

TaintedText Runtime::repr(const Value& value) {
  Deeper deeper(*this);
  Printer printer(*this);
  printer.repr(value);
  return std::move(printer.out);
}

Value Runtime::soft_str(const Value& value) { return value.is_string() ? value : text(str(value)); }

Values Runtime::iterate(const Value& value) {
  if (value.is_undefined()) return {};
  if (const List* list = value.list()) {
    scan(list->items.size() * sizeof(Value));
    if (list->kind == List::Kind::generator && std::exchange(list->is_consumed, true)) return {};
    return list->items;
  }
  Values items;
  if (const Dict* dict = value.dict()) {
    scan(dict->entries.size() * sizeof(Value));
    for (const auto& [key, item] : dict->entries) items.push_back(key);
    return items;
  }
  if (value.is_string()) {
    const std::string_view bytes = value.string();
    allow(bytes.size() * sizeof(Value));
    spend(static_cast<int64_t>(bytes.size()));
    for (size_t at = 0; at < bytes.size(); at += decode_at(bytes, at).bytes)
      items.push_back(value.text().part(bytes.substr(at, decode_at(bytes, at).bytes)));
    return items;
  }
  fail("'{}' object is not iterable", value.type_name());
}

int64_t Runtime::length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_string()) {
    scan(value.string().size());
    return static_cast<int64_t>(code_point_count(value.string()));
  }
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  if (const List* list = value.list(); list && list->kind != List::Kind::generator)
    return static_cast<int64_t>(list->items.size());
  fail("object of type '{}' has no len()", value.type_name());
}

bool Runtime::equal(const Value& a, const Value& b) {
  spend();
  if (a.is_number() && b.is_number())
    return a.is_integral() && b.is_integral() ? a.integer() == b.integer() : a.number() == b.number();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
  case Value::Kind::none:
  case Value::Kind::undefined: return true;
  case Value::Kind::string: scan(a.string().size()); return a.string() == b.string();
  case Value::Kind::list: {
    const List &left = *a.list(), &right = *b.list();
    if (&left == &right) return true;
    if (left.kind != right.kind || left.kind == List::Kind::generator || left.kind == List::Kind::values) return false;
    if (left.items.size() != right.items.size()) return false;
    for (size_t i = 0; i < left.items.size(); ++i)
      if (!equal(left.items[i], right.items[i])) return false;
    return true;
  }
  case Value::Kind::dict: {
    const Dict &left = *a.dict(), &right = *b.dict();
    if (&left == &right) return true;
    if (left.entries.size() != right.entries.size()) return false;
    for (const auto& [key, value] : left.entries) {
      const Value* other = right.find(key);
      if (!other || !equal(value, *other)) return false;
    }
    return true;
  }
  default: return a.same_as(b);
  }
}

std::partial_ordering Runtime::order(const Value& a, const Value& b, std::string_view op) {
  spend();
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() <=> b.integer();
    return a.number() <=> b.number();
  }
  if (a.is_string() && b.is_string()) {
    scan(a.string().size());
    return a.string().compare(b.string()) <=> 0; // UTF-8 sorts as its code points do
  }
  const List *left = a.list(), *right = b.list();
  if (left && right && left->kind == right->kind &&
      (left->kind == List::Kind::list || left->kind == List::Kind::tuple)) {
    const size_t common = std::min(left->items.size(), right->items.size());
    for (size_t i = 0; i < common; ++i)
      if (!equal(left->items[i], right->items[i])) return order(left->items[i], right->items[i], op);
    return left->items.size() <=> right->items.size();
  }
  if (a.is_undefined() || b.is_undefined()) fail("{}", (a.is_undefined() ? a : b).why_undefined());
  fail("'{}' not supported between instances of '{}' and '{}'", op, a.type_name(), b.type_name());
}

bool Runtime::contains(const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (container.is_string()) {
    if (!item.is_string()) fail("'in <string>' requires string as left operand, not {}", item.type_name());
    scan(container.string().size());
    return container.string().find(item.string()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item) != nullptr;
  if (container.list()) {
    for (const Value& other : iterate(container))
      if (equal(item, other)) return true;
    return false;
  }
  fail("argument of type '{}' is not iterable", container.type_name());
}

Value Runtime::binary(std::string_view op, const Value& a, const Value& b) {
  if (op == "%" && a.is_string()) {
    scan(a.string().size());
    return format_percent(*this, a, b);
  }
  if (a.is_undefined() || b.is_undefined()) fail("{}", (a.is_undefined() ? a : b).why_undefined());
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return integer_arithmetic(op, a.integer(), b.integer());
    return float_arithmetic(op, a.number(), b.number());
  }
  const List *left = a.list(), *right = b.list();
  if (op == "+") {
    if (a.is_string() && b.is_string()) {
      const bool is_markup = a.is_markup() || b.is_markup();
      allow(a.string().size() + b.string().size());
      TaintedText both = str(a, is_markup);
      both += str(b, is_markup);
      return text(std::move(both), is_markup);
    }
    if (left && right && left->kind == right->kind &&
        (left->kind == List::Kind::list || left->kind == List::Kind::tuple)) {
      Values items = left->items;
      items.insert(items.end(), right->items.begin(), right->items.end());
      return list(std::move(items), left->kind);
    }
  }
  if (op == "*" && (a.is_integral() || b.is_integral())) {
    const Value& repeated = a.is_integral() ? b : a;
    const auto count = static_cast<size_t>(std::max<int64_t>(0, (a.is_integral() ? a : b).integer()));
    const auto checked = [&](size_t bytes) {
      size_t total;
      allow(__builtin_mul_overflow(bytes, count, &total) ? SIZE_MAX : total);
      return total;
    };
    if (repeated.is_string()) {
      checked(repeated.text().held_bytes());
      TaintedText out;
      out.reserve(checked(repeated.string().size()));
      if (!repeated.string().empty())
        for (size_t i = 0; i < count; ++i) out += repeated.text();
      return text(std::move(out), repeated.is_markup());
    }
    if (const List* items = repeated.list();
        items && (items->kind == List::Kind::list || items->kind == List::Kind::tuple)) {
      Values out;
      out.reserve(checked(items->items.size() * sizeof(Value)) / sizeof(Value));
      if (!items->items.empty())
        for (size_t i = 0; i < count; ++i) out.insert(out.end(), items->items.begin(), items->items.end());
      return list(std::move(out), items->kind);
    }
  }
  fail("unsupported operand types for {}: '{}' and '{}'", op, a.type_name(), b.type_name());
}

Value Runtime::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) fail("{}", object.why_undefined());
  if (const Builtin* method = find_method(object, name)) {
    if (!method->run)
      return Value::undefined(
          fmt::format("access to attribute '{}' of '{}' object is unsafe", name, object.type_name()));
    std::shared_ptr<Object> bound = std::make_shared<BoundMethod>(object, method);
    return bound;
  }
  if (const auto pointer = object.object())
    if (std::optional<Value> value = pointer->attribute(*this, name)) return std::move(*value);
  if (const Dict* dict = object.dict())
    if (const Value* value = dict->find(std::string_view(name))) return *value;
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", object.type_name(), name));
}

Value Runtime::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail("{}", object.why_undefined());
  const List* list = object.list();
  if (key.is_integral() && ((list && list->is_sequence()) || object.is_string())) {
    const int64_t size = length(object);
    const int64_t index = key.integer() < 0 ? key.integer() + size : key.integer();
    if (index < 0 || index >= size)
      return Value::undefined(fmt::format("{} object has no element {}", object.type_name(), key.integer()));
    if (list) return list->items[static_cast<size_t>(index)];
    return slice(object, Value(index), Value(index + 1), Value());
  }
  if (const Dict* dict = object.dict();
      dict && !(key.list() && key.list()->kind != List::Kind::tuple) && !key.is_dict())
    if (const Value* value = dict->find(key)) return *value;
  if (key.is_string()) return attribute(object, key.string());
  return Value::undefined(fmt::format("{} object has no element {}", object.type_name(), repr(key).bytes()));
}

Value Runtime::path(const Value& object, const Value& attribute) {
  if (attribute.is_none()) return object;
  if (!attribute.is_string()) return item(object, attribute);
  Value value = object;
  for (const std::string_view part : split(attribute.string(), ".", -1, false)) {
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == part.npos && part.size() < 18;
    value = item(value, is_number ? Value(*parse_integer(part, 10)) : Value(part));
  }
  return value;
}

Value Runtime::slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) fail("{}", object.why_undefined());
  const List* items = object.list();
  if (!(items && items->is_sequence()) && !object.is_string()) fail("'{}' object cannot be sliced", object.type_name());
  for (const Value* bound : {&start, &stop, &step})
    if (!bound->is_none() && !bound->is_integral()) {
      if (bound->is_undefined()) fail("{}", bound->why_undefined());
      fail("slice indices must be integers or None");
    }
  const int64_t size = length(object);
  const int64_t stride = step.is_none() ? 1 : step.integer();
  if (stride == 0) fail("slice step cannot be zero");
  const auto bound = [&](const Value& value, int64_t absent) {
    if (value.is_none()) return absent;
    const int64_t index = value.integer() < 0 ? value.integer() + size : value.integer();
    return std::clamp(index, stride > 0 ? int64_t{0} : int64_t{-1}, stride > 0 ? size : size - 1);
  };
  const int64_t first = bound(start, stride > 0 ? 0 : size - 1);
  const int64_t end = bound(stop, stride > 0 ? size : -1);
  std::vector<size_t> picked;
  if (object.is_string() && stride == 1) {
    const std::string_view bytes = object.string();
    if (first >= end) return text({}, object.is_markup());
    size_t from = 0, to;
    int64_t count = 0;
    while (count < first) from += decode_at(bytes, from).bytes, ++count;
    for (to = from; count < end; ++count) to += decode_at(bytes, to).bytes;
    return text(object.text().part(bytes.substr(from, to - from)), object.is_markup());
  }
  for (int64_t i = first; stride > 0 ? i < end : i > end;) {
    picked.push_back(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  spend(static_cast<int64_t>(picked.size()));
  if (items) {
    Values out;
    out.reserve(picked.size());
    for (const size_t i : picked) out.push_back(items->items[i]);
    return list(std::move(out), items->kind);
  }
  const std::vector<size_t> offsets = code_point_offsets(object.string());
  TaintedText out;
  for (const size_t i : picked) out.append(object.text(), offsets[i], offsets[i + 1] - offsets[i]);
  return text(std::move(out), object.is_markup());
}

} // namespace ridge::text::jinja
