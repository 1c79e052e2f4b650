// Filters, tests, functions and methods.
#pragma once

#include "text/jinja/value.h"

#include <span>

namespace ridge::text::jinja {

// Bound arguments; missing optional ones are null.
class Call {
 public:
  const Value& self;

  const Value* operator[](size_t i) const { return named[i]; }
  bool has(size_t i) const { return named[i] != nullptr && !named[i]->is_none(); }
  bool truth(size_t i, bool absent) const { return named[i] ? named[i]->truth() : absent; }
  int64_t integer(size_t i, int64_t absent) const;
  std::string_view string(size_t i) const;
  const TaintedText& text(size_t i) const;

  std::vector<const Value*> named;
  Arguments rest; // arguments of `*` and `**`
};

// `parameters`: space-separated; `name?` is optional, `*` and `**` as in Python. A null `run`: a mutating method,
// refused in the sandbox.
struct Builtin {
  std::string_view name;
  std::string_view parameters;
  Value (*run)(Runtime&, const Call&);

  Value operator()(Runtime& runtime, const Value& self, Arguments& arguments) const;
};

const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
const Builtin* find_method(const Value& self, std::string_view name);

std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> text_methods();

// A markup format escapes its arguments and returns markup.
Value format_percent(Runtime& runtime, const Value& format, const Value& arguments);
Value format_braces(Runtime& runtime, const Value& format, const Arguments& arguments);

} // namespace ridge::text::jinja
