// A parsed template. Every node knows its place in the source (errors name it) and its height (limited, so that
// walking and destroying the tree needs a bounded stack).
#pragma once

#include "text/jinja/value.h"

namespace ridge::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Argument {
  enum class Kind { positional, keyword, unpacked_list, unpacked_dict };
  Kind kind;
  std::string name; // of a keyword
  ExpressionPtr value;
};

struct Expression {
  enum class Kind {
    constant,            // value
    name,                // text
    list,                // parts
    tuple,               // parts
    dict,                // parts: key, value, key, value, …
    attribute,           // parts[0].text
    item,                // parts[0][parts[1]]
    slice,               // parts[0][parts[1]:parts[2]:parts[3]], absent ones null
    call,                // parts[0](arguments)
    filter,              // parts[0] | text(arguments); parts[0] is null for the body of a {% filter %} block
    test,                // parts[0] is text(arguments)
    negative,            // -parts[0]
    positive,            // +parts[0]
    logical_not,         // not parts[0]
    logical_and,         // parts[0] and parts[1]
    logical_or,          // parts[0] or parts[1]
    binary,              // parts[0] text parts[1]
    concat,              // parts joined by ~
    compare,             // parts[0] operators[0] parts[1] operators[1] parts[2] …
    conditional,         // parts[1] if parts[0] else parts[2]; parts[2] may be null
    namespace_attribute, // assignment target text.value
  };
  Kind kind;
  size_t offset;
  int height = 1;
  std::string text;
  Value value;
  std::vector<ExpressionPtr> parts;
  std::vector<Argument> arguments;
  std::vector<std::string> operators;
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Parameter {
  std::string name;
  ExpressionPtr default_value; // may be null
};

// The special names that a macro's body uses for arguments that no parameter takes. Without them, such arguments are
// errors.
struct SpecialNames {
  bool varargs = false, kwargs = false, caller = false;
};

struct Statement {
  enum class Kind {
    data,      // text
    print,     // expression
    set,       // target = expression
    set_block, // target = body, through the filters of `expression` where there are any
    condition, // branches; the last may have a null condition
    loop,      // for target in expression if condition: body, else: otherwise
    macro,     // text(parameters): body
    call,      // {% call(parameters) expression %} body
    filter,    // body through the filters of `expression`
    with,      // assignments around body
    evaluate,  // {% do expression %}
    scope,     // {% generation %}: body, nothing else
    break_loop,
    continue_loop,
  };
  Kind kind;
  size_t offset;
  int height = 1;
  std::string text;
  ExpressionPtr target, expression, condition;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> assignments;
  std::vector<Parameter> parameters;
  Block body, otherwise;
  bool is_recursive = false;
  SpecialNames special_names; // of a macro or call
};

} // namespace ridge::text::jinja
