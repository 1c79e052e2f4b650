#include "text/jinja/integers.h"

#include "text/jinja/limits.h"
#include "text/jinja/text.h"

#include <boost/multiprecision/cpp_int.hpp>

#include <algorithm>
#include <cmath>

namespace ridge::text::jinja {

using Number = boost::multiprecision::cpp_int;

struct BigInteger {
  Number number;
};

namespace {

size_t bits_of(const Number& number) { return number == 0 ? 0 : boost::multiprecision::msb(abs(number)) + 1; }

void check_bits(size_t bits) {
  constexpr size_t kMaxBits = kMaxIntegerDigits * 33220 / 10000; // log2(10)
  if (bits > kMaxBits) fail("integer overflow: the result has more than {} digits", kMaxIntegerDigits);
}

Number number_of(const Value& value) { return value.is_integral() ? Number(value.integer()) : value.big()->number; }

Value value_of(Number number) {
  if (number >= INT64_MIN && number <= INT64_MAX) return number.convert_to<int64_t>();
  check_bits(bits_of(number));
  return std::make_shared<const BigInteger>(BigInteger{std::move(number)});
}

// Correctly rounded.
double quotient(const Number& a, const Number& b) {
  const Number n = abs(a), d = abs(b);
  if (n == 0) return b < 0 ? -0.0 : 0.0;
  const int shift = 63 + static_cast<int>(bits_of(d)) - static_cast<int>(bits_of(n));
  Number scaled, rest;
  divide_qr(shift > 0 ? Number(n << shift) : n, shift < 0 ? Number(d << -shift) : d, scaled, rest);
  const uint64_t top = scaled.convert_to<uint64_t>() | (rest != 0 ? 1 : 0); // sticky bit, below a double's precision
  const double result = std::ldexp(static_cast<double>(top), -shift);
  if (std::isinf(result)) fail("int too large to convert to float");
  return (a < 0) != (b < 0) ? -result : result;
}

Value power(const Value& a, const Value& b) {
  if (compare_numbers(b, Value(int64_t{0})) < 0) {
    if (!a.truth()) fail("0.0 cannot be raised to a negative power");
    return std::pow(to_double(a), to_double(b));
  }
  const Number base = number_of(a);
  if (base == 0 || base == 1 || base == -1) {
    const bool odd = (number_of(b) & 1) != 0;
    return !b.truth() ? int64_t{1} : base == 0 ? int64_t{0} : base == -1 && odd ? int64_t{-1} : int64_t{1};
  }
  if (!b.is_integral() || b.integer() > INT32_MAX) check_bits(SIZE_MAX);
  const auto exponent = static_cast<unsigned>(b.integer());
  check_bits((bits_of(base) - 1) * exponent);
  return value_of(boost::multiprecision::pow(base, exponent));
}

// Floor division.
std::pair<Number, Number> divide(const Number& a, const Number& b) {
  Number whole, rest;
  divide_qr(a, b, whole, rest);
  if (rest != 0 && (rest < 0) != (b < 0)) {
    whole -= 1;
    rest += b;
  }
  return {whole, rest};
}

std::partial_ordering order(int sign) {
  return sign < 0   ? std::partial_ordering::less
         : sign > 0 ? std::partial_ordering::greater
                    : std::partial_ordering::equivalent;
}

std::partial_ordering compare_mixed(const Value& integer, double other) {
  if (std::isnan(other)) return std::partial_ordering::unordered;
  if (std::isinf(other)) return order(other > 0 ? -1 : 1);
  const double whole = std::trunc(other);
  const int sign = number_of(integer).compare(Number(whole));
  return order(sign != 0 ? sign : other > whole ? -1 : other < whole ? 1 : 0);
}

} // namespace

Value integer_arithmetic(std::string_view op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    int64_t result = 0;
    const int64_t x = a.integer(), y = b.integer();
    if (op == "+" && !__builtin_add_overflow(x, y, &result)) return result;
    if (op == "-" && !__builtin_sub_overflow(x, y, &result)) return result;
    if (op == "*" && !__builtin_mul_overflow(x, y, &result)) return result;
    if ((op == "//" || op == "%") && y > 0) {
      const bool inexact = x % y != 0 && x < 0;
      return op == "//" ? x / y - inexact : x % y + (inexact ? y : 0);
    }
  }
  if (op == "**") return power(a, b);
  const Number x = number_of(a), y = number_of(b);
  if (op == "+") return value_of(x + y);
  if (op == "-") return value_of(x - y);
  if (op == "*") return value_of(x * y);
  if (y == 0) fail("{}", op == "/" ? "division by zero" : "integer division or modulo by zero");
  if (op == "/") return quotient(x, y);
  auto [whole, rest] = divide(x, y);
  return value_of(op == "//" ? std::move(whole) : std::move(rest));
}

std::partial_ordering compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.integer() <=> b.integer();
  if (!a.is_integer() && !b.is_integer()) return a.number() <=> b.number();
  if (!b.is_integer()) return compare_mixed(a, b.number());
  if (!a.is_integer()) return 0 <=> compare_mixed(b, a.number());
  return order(number_of(a).compare(number_of(b)));
}

std::string digits_of(const Value& integer, int base) {
  if (base == 10) return integer.is_integral() ? std::to_string(integer.integer()) : number_of(integer).str();
  const Number number = number_of(integer);
  std::string digits;
  const int step = base == 16 ? 4 : base == 8 ? 3 : 1;
  for (Number rest = abs(number); rest != 0; rest >>= step)
    digits += "0123456789abcdef"[(rest & (base - 1)).convert_to<int>()];
  if (digits.empty()) digits = "0";
  if (number < 0) digits += '-';
  return {digits.rbegin(), digits.rend()};
}

double to_double(const Value& integer) {
  return integer.is_integral() ? static_cast<double>(integer.integer()) : quotient(number_of(integer), 1);
}

Value integer_of(double whole) { return value_of(Number(std::trunc(whole))); }

Value absolute_of(const Value& integer) { return value_of(abs(number_of(integer))); }

size_t integer_work(const Value& integer) {
  const size_t bytes =
      integer.is_integral() ? 8 : integer.big()->number.backend().size() * sizeof(boost::multiprecision::limb_type);
  return bytes * bytes / 16;
}

namespace {

int digit_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isdigit(byte) ? c - '0' : std::isalpha(byte) ? (c | 0x20) - 'a' + 10 : 99;
}

} // namespace

std::optional<Value> parse_integer(std::string_view text, int64_t base) {
  text = strip(text, true, true);
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (base != 0 && (base < 2 || base > 36)) fail("int() base must be >= 2 and <= 36, or 0");
  if (text.size() > 1 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int64_t prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix != 0 && (base == 0 || base == prefix)) {
      text.remove_prefix(text.size() > 2 && text[2] == '_' ? 3 : 2);
      base = prefix;
    } else if (base == 0 && text.find_first_not_of("0_") != text.npos) {
      return std::nullopt;
    }
  }
  if (base == 0) base = 10;
  const auto digits = without_underscores(text);
  if (!digits || digits->empty() || std::ranges::any_of(*digits, [&](char c) { return digit_of(c) >= base; }))
    return std::nullopt;
  const size_t zeros = std::min(digits->find_first_not_of('0'), digits->size() - 1);
  if (digits->size() - zeros > kMaxIntegerDigits)
    fail("integer overflow: {} digits, at most {} are read", digits->size() - zeros, kMaxIntegerDigits);
  Number number = 0;
  for (const char c : std::string_view(*digits).substr(zeros)) {
    number *= base;
    number += digit_of(c);
  }
  return value_of(negative ? Number(-number) : number);
}

} // namespace ridge::text::jinja
