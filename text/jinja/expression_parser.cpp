#include "text/jinja/expression_parser.h"

namespace ridge::text::jinja {

ExpressionPtr ExpressionParser::expression(bool with_condition) {
  Nested nested(*this);
  const size_t offset = current().offset;
  const size_t unknown_before = unknown_names_.size();
  ExpressionPtr left = logical_or();
  while (with_condition && skip_name("if")) {
    ExpressionPtr test = logical_or();
    ExpressionPtr otherwise = skip_name("else") ? expression() : nullptr;
    left = make(Kind::conditional, offset, std::move(test), std::move(left), std::move(otherwise));
    unknown_names_.resize(unknown_before); // may never be evaluated
  }
  return left;
}

ExpressionPtr ExpressionParser::logical_or() {
  ExpressionPtr left = logical_and();
  while (is_name("or")) {
    const size_t offset = advance().offset;
    left = make(Kind::logical_or, offset, std::move(left), logical_and());
  }
  return left;
}

ExpressionPtr ExpressionParser::logical_and() {
  ExpressionPtr left = logical_not();
  while (is_name("and")) {
    const size_t offset = advance().offset;
    left = make(Kind::logical_and, offset, std::move(left), logical_not());
  }
  return left;
}

ExpressionPtr ExpressionParser::logical_not() {
  if (!is_name("not")) return compare();
  Nested nested(*this);
  const size_t offset = advance().offset;
  return make(Kind::logical_not, offset, logical_not());
}

ExpressionPtr ExpressionParser::compare() {
  ExpressionPtr left = sum();
  ExpressionPtr node;
  while (true) {
    std::string op;
    if (current().kind == Token::Kind::symbol && among({"==", "!=", "<", "<=", ">", ">="}, current().text))
      op = current().text;
    else if (is_name("in"))
      op = "in";
    else if (is_name("not") && ahead().kind == Token::Kind::name && ahead().text == "in")
      op = "not in";
    else
      break;
    const size_t offset = advance().offset;
    if (op == "not in") advance();
    if (!node) node = make(Kind::compare, offset, std::move(left));
    node->operators.push_back(op);
    add(*node, sum());
  }
  return node ? std::move(node) : std::move(left);
}

ExpressionPtr ExpressionParser::binary(Names symbols, ExpressionPtr (ExpressionParser::*next)()) {
  ExpressionPtr left = (this->*next)();
  while (current().kind == Token::Kind::symbol && among(symbols, current().text)) {
    const Token& token = advance();
    left = make(Kind::binary, token.offset, std::move(left), (this->*next)());
    left->text = token.text;
  }
  return left;
}

ExpressionPtr ExpressionParser::concat() {
  ExpressionPtr left = product();
  if (!is_symbol("~")) return left;
  ExpressionPtr node = make(Kind::concat, current().offset, std::move(left));
  while (skip_symbol("~")) add(*node, product());
  return node;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  ExpressionPtr node;
  if (is_symbol("-") || is_symbol("+")) {
    Nested nested(*this);
    const Token& token = advance();
    node = make(token.text == "-" ? Kind::negative : Kind::positive, token.offset, unary(false));
  } else {
    node = primary(false);
  }
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::primary(bool with_namespace) {
  const Token& token = current();
  switch (token.kind) {
  case Token::Kind::name: {
    advance();
    if (token.text == "true" || token.text == "True") return constant(token.offset, true);
    if (token.text == "false" || token.text == "False") return constant(token.offset, false);
    if (token.text == "none" || token.text == "None") return constant(token.offset, Value());
    ExpressionPtr node = make(Kind::name, token.offset);
    node->text = token.text;
    special_names_.varargs |= token.text == "varargs";
    special_names_.kwargs |= token.text == "kwargs";
    special_names_.caller |= token.text == "caller";
    if (with_namespace && skip_symbol(".")) {
      node->kind = Kind::namespace_attribute;
      node->value = Value(expect_any_name());
    }
    return node;
  }
  case Token::Kind::string: {
    std::string text;
    while (current().kind == Token::Kind::string) text += advance().text;
    return constant(token.offset, std::move(text));
  }
  case Token::Kind::integer: advance(); return constant(token.offset, token.integer);
  case Token::Kind::floating: advance(); return constant(token.offset, token.floating);
  default: break;
  }
  if (skip_symbol("(")) {
    ExpressionPtr node = tuple({}, true, true);
    expect_symbol(")");
    return node;
  }
  if (skip_symbol("[")) {
    ExpressionPtr node = make(Kind::list, token.offset);
    while (!is_symbol("]")) {
      if (!node->parts.empty()) expect_symbol(",");
      if (is_symbol("]")) break;
      add(*node, expression());
    }
    expect_symbol("]");
    return node;
  }
  if (skip_symbol("{")) {
    ExpressionPtr node = make(Kind::dict, token.offset);
    while (!is_symbol("}")) {
      if (!node->parts.empty()) expect_symbol(",");
      if (is_symbol("}")) break;
      add(*node, expression());
      expect_symbol(":");
      add(*node, expression());
    }
    expect_symbol("}");
    return node;
  }
  fail_here("expected an expression, got " + describe(token));
}

bool ExpressionParser::at_tuple_end(Names end_names) const {
  if (current().kind == Token::Kind::print_end || current().kind == Token::Kind::block_end || is_symbol(")"))
    return true;
  return current().kind == Token::Kind::name && among(end_names, current().text);
}

ExpressionPtr ExpressionParser::tuple(Names end_names, bool with_condition, bool in_parentheses) {
  return comma_list(end_names, in_parentheses, [&] { return expression(with_condition); });
}

ExpressionPtr ExpressionParser::target(Names end_names, bool with_namespace) {
  ExpressionPtr node = comma_list(end_names, false, [&] {
    Nested nested(*this);
    return primary(with_namespace);
  });
  check_target(*node);
  return node;
}

void ExpressionParser::check_target(const Expression& node) const {
  if (node.kind == Kind::tuple || node.kind == Kind::list) {
    for (const ExpressionPtr& part : node.parts) check_target(*part);
    return;
  }
  if (node.kind != Kind::name && node.kind != Kind::namespace_attribute)
    fail_at(node.offset, "cannot assign to this expression");
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    const size_t offset = current().offset;
    if (skip_symbol(".")) {
      if (current().kind == Token::Kind::integer) {
        node = make(Kind::item, offset, std::move(node), constant(current().offset, current().integer));
        advance();
      } else {
        node = make(Kind::attribute, offset, std::move(node));
        node->text = expect_any_name();
      }
    } else if (skip_symbol("[")) {
      node = subscript(std::move(node), offset);
    } else if (is_symbol("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr node, size_t offset) {
  const auto part = [&]() -> ExpressionPtr {
    return is_symbol(":") || is_symbol("]") || is_symbol(",") ? nullptr : expression();
  };
  ExpressionPtr first = part();
  if (skip_symbol(":")) {
    ExpressionPtr stop = part();
    ExpressionPtr step = skip_symbol(":") ? part() : nullptr;
    node = make(Kind::slice, offset, std::move(node), std::move(first), std::move(stop), std::move(step));
  } else {
    if (!first) fail_here("expected an expression, got " + describe(current()));
    if (is_symbol(",")) first = make(Kind::tuple, offset, std::move(first));
    while (skip_symbol(",")) add(*first, expression());
    node = make(Kind::item, offset, std::move(node), std::move(first));
  }
  expect_symbol("]");
  return node;
}

void ExpressionParser::arguments(Expression& node) {
  expect_symbol("(");
  bool keywords = false, unpacked_list = false, unpacked_dict = false;
  const auto ensure = [&](bool ok) {
    if (!ok) fail_here("positional arguments come first, then keyword arguments, then * and **");
  };
  while (!is_symbol(")")) {
    if (!node.arguments.empty()) expect_symbol(",");
    if (is_symbol(")")) break;
    Argument argument{Argument::Kind::positional, {}, nullptr};
    if (skip_symbol("*")) {
      ensure(!unpacked_list && !unpacked_dict);
      unpacked_list = true;
      argument.kind = Argument::Kind::unpacked_list;
    } else if (skip_symbol("**")) {
      ensure(!unpacked_dict);
      unpacked_dict = true;
      argument.kind = Argument::Kind::unpacked_dict;
    } else if (current().kind == Token::Kind::name && ahead().kind == Token::Kind::symbol && ahead().text == "=") {
      ensure(!unpacked_dict);
      keywords = true;
      argument.kind = Argument::Kind::keyword;
      argument.name = advance().text;
      advance();
    } else {
      ensure(!keywords && !unpacked_list && !unpacked_dict);
    }
    argument.value = expression();
    grow(node, argument.value->height);
    node.arguments.push_back(std::move(argument));
  }
  expect_symbol(")");
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  ExpressionPtr node = make(Kind::call, current().offset, std::move(callee));
  arguments(*node);
  return node;
}

std::string ExpressionParser::dotted_name() {
  std::string name = expect_any_name();
  while (skip_symbol(".")) name += "." + expect_any_name();
  return name;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr operand) {
  ExpressionPtr node = make(Kind::filter, current().offset, std::move(operand));
  node->text = dotted_name();
  if (!find_filter(node->text))
    unknown_names_.push_back({{fmt::format("no filter named '{}'", node->text)}, node->offset});
  if (is_symbol("(")) arguments(*node);
  return node;
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (skip_symbol("|"))
      node = filter(std::move(node));
    else if (is_name("is"))
      node = test(std::move(node));
    else if (is_symbol("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExpressionPtr ExpressionParser::test(ExpressionPtr operand) {
  const size_t offset = advance().offset;
  const bool negated = skip_name("not");
  ExpressionPtr node = make(Kind::test, offset, std::move(operand));
  node->text = dotted_name();
  if (!find_test(node->text)) unknown_names_.push_back({{fmt::format("no test named '{}'", node->text)}, offset});
  if (is_symbol("(")) {
    arguments(*node);
  } else if (starts_operand()) {
    if (is_name("is")) fail_here("tests cannot be chained with 'is'");
    Nested nested(*this);
    ExpressionPtr argument = postfix(primary(false));
    grow(*node, argument->height);
    node->arguments.push_back({Argument::Kind::positional, {}, std::move(argument)});
  }
  return negated ? make(Kind::logical_not, offset, std::move(node)) : std::move(node);
}

bool ExpressionParser::starts_operand() const {
  switch (current().kind) {
  case Token::Kind::name: return !among({"else", "or", "and"}, current().text);
  case Token::Kind::string:
  case Token::Kind::integer:
  case Token::Kind::floating: return true;
  default: return is_symbol("[") || is_symbol("{");
  }
}

} // namespace ridge::text::jinja
