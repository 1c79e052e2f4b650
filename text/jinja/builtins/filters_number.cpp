#include "text/jinja/integers.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

#include <cmath>

namespace ridge::text::jinja {

namespace {

Value to_int(Runtime&, const Call& call) {
  const Value absent = call[0] ? *call[0] : Value(int64_t{0});
  if (call.self.is_undefined()) fail("{}", call.self.why_undefined());
  if (call.self.is_integer()) return call.self.big() ? call.self : Value(call.self.integer());
  std::optional<double> number;
  if (call.self.is_string()) {
    if (const auto value = parse_integer(call.self.string(), call.integer(1, 10))) return *value;
    number = parse_float(call.self.string());
  } else if (call.self.is_number()) {
    number = call.self.number();
  }
  if (!number || !std::isfinite(*number)) {
    if (number && call.self.is_number() && std::isinf(*number)) fail("cannot convert float infinity to integer");
    return absent;
  }
  return integer_of(*number);
}

Value to_float(Runtime&, const Call& call) {
  if (call.self.is_undefined()) fail("{}", call.self.why_undefined());
  if (call.self.is_number()) return call.self.number();
  if (call.self.is_string())
    if (const auto number = parse_float(call.self.string())) return *number;
  return call[0] ? *call[0] : Value(0.0);
}

Value absolute(Runtime&, const Call& call) {
  if (call.self.is_undefined()) fail("{}", call.self.why_undefined());
  if (!call.self.is_number()) fail("bad operand type for abs(): '{}'", call.self.type_name());
  return call.self.is_integer() ? absolute_of(call.self) : std::abs(call.self.number());
}

// To a multiple of 10^places, half to even, exact decimal.
double round_to_tens(double number, int places) {
  const std::string digits = fmt::format("{:.25e}", number);
  const int exponent = std::stoi(digits.substr(digits.find('e') + 1));
  if (exponent >= places) return std::strtod(fmt::format("{:.{}e}", number, exponent - places).c_str(), nullptr);
  const bool up = exponent == places - 1 && std::abs(number) > 5 * std::pow(10.0, exponent);
  return std::copysign(up ? std::pow(10.0, places) : 0.0, number);
}

Value round_number(Runtime& runtime, const Call& call) {
  const int64_t precision = call.integer(0, 0);
  const std::string method = call[1] ? runtime.str(*call[1]).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") fail("round: method must be common, ceil or floor");
  if (call.self.is_undefined()) fail("{}", call.self.why_undefined());
  if (!call.self.is_number()) fail("type {} doesn't define __round__ method", call.self.type_name());
  if (method == "common" && call.self.is_integer()) {
    if (precision >= 0) return call.self.is_bool() ? Value(call.self.integer()) : call.self;
    if (precision < -static_cast<int64_t>(kMaxIntegerDigits)) return int64_t{0};
    const Value unit = runtime.binary("**", Value(int64_t{10}), Value(-precision));
    const Value rest = runtime.binary("%", call.self, unit), down = runtime.binary("-", call.self, rest);
    const auto half = runtime.order(runtime.binary("*", rest, Value(int64_t{2})), unit);
    const Value multiple = runtime.binary("//", down, unit);
    const bool odd = runtime.binary("%", multiple, Value(int64_t{2})).truth();
    return half > 0 || (half == 0 && odd) ? runtime.binary("+", down, unit) : down;
  }
  const double number = call.self.number();
  if (method != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = number * scale;
    if (!std::isfinite(scaled) || scale == 0) fail("round: the result is out of range");
    return ((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0) / scale; // + 0.0: Python has no int -0
  }
  if (!std::isfinite(number) || precision > 300) return number;
  if (precision < -300) return std::copysign(0.0, number);
  if (precision < 0) return round_to_tens(number, static_cast<int>(-precision));
  return std::strtod(fmt::format("{:.{}f}", number, precision).c_str(), nullptr);
}

std::string bytes_with_unit(double bytes, bool binary) {
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return "1 Byte";
  if (bytes < base) return fmt::format("{:.0f} Bytes", std::trunc(bytes) + 0.0); // + 0.0: no minus sign before zero
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  long double unit = base; // a double cannot hold 10^24
  for (size_t i = 0;; ++i) {
    unit *= base;
    if (bytes < unit || i + 1 == kPrefixes.size())
      return fmt::format("{:.1f} {}{}", base * bytes / static_cast<double>(unit), binary && i == 0 ? 'K' : kPrefixes[i],
                         binary ? "iB" : "B");
  }
}

Value file_size(Runtime& runtime, const Call& call) {
  const Value& self = call.self;
  if (self.is_undefined()) fail("{}", self.why_undefined());
  const std::optional<double> number = self.is_number()   ? self.number()
                                       : self.is_string() ? parse_float(self.string())
                                                          : std::nullopt;
  if (!number || !std::isfinite(*number)) fail("filesizeformat: not a size: {}", runtime.repr(self).bytes());
  return runtime.text(TaintedText(bytes_with_unit(*number, call.truth(0, false))));
}
constexpr Builtin kNumberFilters[] = {
    {"int", "default? base?", to_int},
    {"float", "default?", to_float},
    {"abs", "", absolute},
    {"round", "precision? method?", round_number},
    {"filesizeformat", "binary?", file_size},
};

} // namespace

std::span<const Builtin> number_filters() { return kNumberFilters; }

} // namespace ridge::text::jinja
