// The tables of filters, tests, functions and methods: one row each, with its parameters as Python spells them.
#pragma once

#include "text/jinja/value.h"

#include <span>

namespace ridge::text::jinja {

// The arguments of a built-in, bound to its parameters. Absent optional arguments are null.
class Call {
 public:
  const Value& self; // what a filter, test or method is applied to

  const Value* operator[](size_t i) const { return named[i]; }
  bool has(size_t i) const { return named[i] != nullptr && !named[i]->is_none(); }
  bool truth(size_t i, bool absent) const { return named[i] ? named[i]->truth() : absent; }
  int64_t integer(size_t i, int64_t absent) const;
  std::string_view string(size_t i) const; // must be there and be a string
  const TaintedText& text(size_t i) const; // must be there and be a string

  std::vector<const Value*> named;
  Arguments rest; // the arguments that `*` and `**` take
};

// `parameters`: names with spaces between; `name?` is optional; `*` catches further positional arguments, `**`
// keywords. A null `run` marks a method that changes its object, which the sandbox refuses.
struct Builtin {
  std::string_view name;
  std::string_view parameters;
  Value (*run)(Runtime&, const Call&);

  Value operator()(Runtime& runtime, const Value& self, Arguments& arguments) const;
};

// Each returns nullptr where there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
const Builtin* find_method(const Value& self, std::string_view name);

// The tables' parts.
std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> text_methods();

// printf-style formatting (text % arguments) and str.format. A format that is markup escapes its arguments, and the
// result is markup.
Value format_percent(Runtime& runtime, const Value& format, const Value& arguments);
Value format_braces(Runtime& runtime, const Value& format, const Arguments& arguments);

} // namespace ridge::text::jinja
