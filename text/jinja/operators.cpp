// Arithmetic and comparison.
#include "core/strings/find.h"
#include "text/jinja/integers.h"
#include "text/jinja/runtime.h"

#include <algorithm>
#include <cmath>

namespace ridge::text::jinja {

namespace {

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

bool Runtime::equal(const Value& a, const Value& b) {
  spend();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
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
      const Value* other = find_key(right, key);
      if (!other || !equal(value, *other)) return false;
    }
    return true;
  }
  default: return a.same_as(b);
  }
}

std::partial_ordering Runtime::order(const Value& a, const Value& b, std::string_view op) {
  spend();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_string() && b.is_string()) {
    scan(a.string().size());
    return a.string().compare(b.string()) <=> 0;
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
    return core::find(container.string(), item.string()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return find_key(*dict, item) != nullptr;
  if (const List* list = container.list()) {
    if (list->kind == List::Kind::generator) {
      while (const auto other = next(container))
        if (equal(item, *other)) return true;
      return false;
    }
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
    if (a.is_integer() && b.is_integer()) {
      Value result = integer_arithmetic(op, a, b);
      for (const Value* number : {&a, &b, static_cast<const Value*>(&result)})
        if (number->big()) scan(integer_work(*number));
      return result;
    }
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

} // namespace ridge::text::jinja
