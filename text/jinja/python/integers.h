// Python's integers, which have any size: those of 64 bits are Values of their own, larger ones hold a BigInteger.
// Their length is bounded as Python bounds the numbers that it prints.
#pragma once

#include "text/jinja/value.h"

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::text::jinja {

// All but `digits_of` take integers of either size, and booleans.

// op: + - * ** / // %. Throws Problem where the result has more than kMaxIntegerDigits.
Value integer_arithmetic(std::string_view op, const Value& a, const Value& b);
std::partial_ordering compare_numbers(const Value& a, const Value& b); // exactly, of floats too
std::string digits_of(const Value& integer, int base = 10);            // behind "-" where it is negative
double to_double(const Value& integer);                                // throws Problem beyond the largest double
Value integer_of(double whole);                                        // of a finite number, without its fraction
Value absolute_of(const Value& integer);
size_t integer_work(const Value& integer); // what printing or multiplying it counts for: quadratic in its length

// As int(text, base) reads it; nothing where Python raises ValueError.
std::optional<Value> parse_integer(std::string_view text, int64_t base);

} // namespace ridge::text::jinja
