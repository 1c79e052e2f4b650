// Python's integers: 64 bits or BigInteger, with Python's limit of digits.
#pragma once

#include "text/jinja/value.h"

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::text::jinja {

// Accept booleans and both sizes, except `digits_of`.

// + - * ** / // %. Throws Problem beyond kMaxIntegerDigits.
Value integer_arithmetic(std::string_view op, const Value& a, const Value& b);
std::partial_ordering compare_numbers(const Value& a, const Value& b); // exact; includes floats
std::string digits_of(const Value& integer, int base = 10);
double to_double(const Value& integer); // throws Problem on overflow
Value integer_of(double whole);         // truncates a finite number
Value absolute_of(const Value& integer);
size_t integer_work(const Value& integer); // cost of printing or multiplying: quadratic

// int(text, base); nullopt: ValueError.
std::optional<Value> parse_integer(std::string_view text, int64_t base);

} // namespace ridge::text::jinja
