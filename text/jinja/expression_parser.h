// Expression parser: one function per level, in Jinja2's order.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"
#include "text/jinja/lexer.h"
#include "text/jinja/limits.h"

#include <algorithm>
#include <initializer_list>

namespace ridge::text::jinja {

class ExpressionParser {
 protected:
  using Kind = Expression::Kind;
  using Names = std::initializer_list<std::string_view>;

  ExpressionParser(std::string_view source, const Limits& limits) : limits_(limits), tokens_(tokenize(source)) {}

  static bool among(Names names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  // ---- tokens

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& advance() { return current().kind == Token::Kind::end ? tokens_[at_] : tokens_[at_++]; }
  bool is_symbol(std::string_view s) const { return current().kind == Token::Kind::symbol && current().text == s; }
  bool is_name(std::string_view s) const { return current().kind == Token::Kind::name && current().text == s; }
  bool skip_symbol(std::string_view s) { return is_symbol(s) && (advance(), true); }
  bool skip_name(std::string_view s) { return is_name(s) && (advance(), true); }

  [[noreturn]] static void fail_at(size_t offset, std::string message) {
    throw PlacedProblem{{std::move(message)}, offset};
  }
  [[noreturn]] void fail_here(std::string message) const { fail_at(current().offset, std::move(message)); }

  static std::string describe(const Token& token) {
    switch (token.kind) {
    case Token::Kind::data: return "text";
    case Token::Kind::print_begin: return "'{{'";
    case Token::Kind::print_end: return "'}}'";
    case Token::Kind::block_begin: return "'{%'";
    case Token::Kind::block_end: return "'%}'";
    case Token::Kind::string: return "a string";
    case Token::Kind::integer:
    case Token::Kind::floating: return "a number";
    case Token::Kind::end: return "the end of the template";
    default: return "'" + token.text + "'";
    }
  }

  void expect_symbol(std::string_view s) {
    if (!skip_symbol(s)) fail_here(fmt::format("expected '{}', got {}", s, describe(current())));
  }
  void expect_name(std::string_view s) {
    if (!skip_name(s)) fail_here(fmt::format("expected '{}', got {}", s, describe(current())));
  }
  std::string expect_any_name() {
    if (current().kind != Token::Kind::name) fail_here("expected a name, got " + describe(current()));
    return advance().text;
  }
  void expect(Token::Kind kind, std::string_view what) {
    if (current().kind != kind) fail_here(fmt::format("expected {}, got {}", what, describe(current())));
    advance();
  }

  // ---- nodes

  // Bounds the recursion of the parser.
  struct Nested {
    explicit Nested(ExpressionParser& parser) : parser(parser) {
      if (++parser.nesting_ > parser.limits_.max_nesting) parser.too_deep(parser.current().offset);
    }
    ~Nested() { --parser.nesting_; }
    ExpressionParser& parser;
  };
  [[noreturn]] void too_deep(size_t offset) const {
    fail_at(offset, fmt::format("the template nests deeper than {}", limits_.max_nesting));
  }

  template <typename Node>
  void grow(Node& node, int height) {
    node.height = std::max(node.height, height + 1);
    if (node.height > limits_.max_nesting) too_deep(node.offset);
  }

  template <typename... Parts>
  ExpressionPtr make(Kind kind, size_t offset, Parts... parts) {
    auto node = std::make_unique<Expression>();
    node->kind = kind;
    node->offset = offset;
    (add(*node, std::move(parts)), ...);
    return node;
  }
  void add(Expression& node, ExpressionPtr part) {
    if (part) grow(node, part->height);
    node.parts.push_back(std::move(part));
  }
  ExpressionPtr constant(size_t offset, Value value) {
    auto node = make(Kind::constant, offset);
    node->value = std::move(value);
    return node;
  }

  // ---- expressions

  ExpressionPtr expression(bool with_condition = true);
  ExpressionPtr logical_or();
  ExpressionPtr logical_and();
  ExpressionPtr logical_not();
  ExpressionPtr compare();
  ExpressionPtr binary(Names symbols, ExpressionPtr (ExpressionParser::*next)());
  ExpressionPtr sum() { return binary({"+", "-"}, &ExpressionParser::concat); }
  ExpressionPtr product() { return binary({"*", "/", "//", "%"}, &ExpressionParser::power); }
  ExpressionPtr power() { return binary({"**"}, &ExpressionParser::unary_with_filters); }
  ExpressionPtr concat();
  ExpressionPtr unary_with_filters() { return unary(true); }
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary(bool with_namespace);
  bool at_tuple_end(Names end_names) const;
  template <typename Parse>
  ExpressionPtr comma_list(Names end_names, bool may_be_empty, Parse parse) {
    const size_t offset = current().offset;
    std::vector<ExpressionPtr> parts;
    bool is_tuple = false;
    while (true) {
      if (!parts.empty()) expect_symbol(",");
      if (at_tuple_end(end_names)) break;
      parts.push_back(parse());
      if (!is_symbol(",")) break;
      is_tuple = true;
    }
    if (!is_tuple) {
      if (!parts.empty()) return std::move(parts[0]);
      if (!may_be_empty) fail_here("expected an expression, got " + describe(current()));
    }
    ExpressionPtr node = make(Kind::tuple, offset);
    for (ExpressionPtr& part : parts) add(*node, std::move(part));
    return node;
  }
  ExpressionPtr tuple(Names end_names = {}, bool with_condition = true, bool in_parentheses = false);
  ExpressionPtr target(Names end_names, bool with_namespace);
  void check_target(const Expression& node) const;
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node, size_t offset);
  void arguments(Expression& node);
  ExpressionPtr call(ExpressionPtr callee);
  std::string dotted_name();
  ExpressionPtr filter(ExpressionPtr operand);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr test(ExpressionPtr operand);
  bool starts_operand() const;

  const Limits& limits_;
  // Unknown filters and tests outside of branches; refused before rendering.
  std::vector<PlacedProblem> unknown_names_;
  SpecialNames special_names_; // used in the innermost macro

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

} // namespace ridge::text::jinja
