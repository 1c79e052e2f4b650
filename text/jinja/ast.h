// The parsed template. Nodes know their offset and height; the height is limited, which bounds recursion.
#pragma once

#include "text/jinja/value.h"

namespace ridge::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Argument {
  enum class Kind { positional, keyword, unpacked_list, unpacked_dict };
  Kind kind;
  std::string name;
  ExpressionPtr value;
};

struct Expression {
  enum class Kind {
    constant,
    name,
    list,
    tuple,
    dict,      // parts: key, value, key, value, …
    attribute, // parts[0].text
    item,      // parts[0][parts[1]]
    slice,     // parts[0][parts[1]:parts[2]:parts[3]], may be null
    call,      // parts[0](arguments)
    filter,    // parts[0] | text(arguments); null: body of a {% filter %} block
    test,      // parts[0] is text(arguments)
    negative,
    positive,
    logical_not,
    logical_and,
    logical_or,
    binary,              // parts[0] text parts[1]
    concat,              // joined by ~
    compare,             // parts[0] operators[0] parts[1] operators[1] parts[2] …
    conditional,         // parts[1] if parts[0] else parts[2]; parts[2] may be null
    namespace_attribute, // assignment to text.value
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
  ExpressionPtr default_value;
};

// Special names used in a macro's body; without them, surplus arguments are errors.
struct SpecialNames {
  bool varargs = false, kwargs = false, caller = false;
};

struct Statement {
  enum class Kind {
    data,
    print,
    set,
    set_block, // target = body, filtered by `expression` if set
    condition, // branches; the last may have a null condition
    loop,      // for target in expression if condition: body, else: otherwise
    macro,     // text(parameters): body
    call,      // {% call(parameters) expression %} body
    filter,    // body, filtered by `expression`
    with,
    evaluate, // {% do expression %}
    scope,    // {% generation %}: body
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
  SpecialNames special_names;
};

} // namespace ridge::text::jinja
