// Statement parser.
#include "text/jinja/parser.h"

#include "text/jinja/expression_parser.h"

namespace ridge::text::jinja {

namespace {

class Parser : private ExpressionParser {
 public:
  Parser(std::string_view source, const Limits& limits) : ExpressionParser(source, limits) {}

  Block run() {
    Block block = body({});
    if (!unknown_names_.empty()) throw unknown_names_.front();
    return block;
  }

 private:
  using StatementPtr = std::unique_ptr<Statement>;
  using SKind = Statement::Kind;

  StatementPtr make_statement(SKind kind, size_t offset) {
    auto node = std::make_unique<Statement>();
    node->kind = kind;
    node->offset = offset;
    return node;
  }

  ExpressionPtr attach(Statement& node, ExpressionPtr part) {
    if (part) grow(node, part->height);
    return part;
  }
  Block attach(Statement& node, Block block) {
    for (const StatementPtr& inner : block) grow(node, inner->height);
    return block;
  }

  // Up to a tag in `end_names` (its name stays current), or all.
  Block body(Names end_names) {
    Nested nested(*this);
    Block block;
    while (true) {
      const Token& token = current();
      switch (token.kind) {
      case Token::Kind::data:
        block.push_back(make_statement(SKind::data, token.offset));
        block.back()->text = token.text;
        advance();
        break;
      case Token::Kind::print_begin:
        advance();
        block.push_back(make_statement(SKind::print, token.offset));
        block.back()->expression = attach(*block.back(), tuple());
        expect(Token::Kind::print_end, "'}}'");
        break;
      case Token::Kind::block_begin: {
        advance();
        if (current().kind == Token::Kind::name && among(end_names, current().text)) return block;
        StatementPtr inner = statement();
        if (inner) block.push_back(std::move(inner));
        expect(Token::Kind::block_end, "'%}'");
        break;
      }
      default:
        if (end_names.size() > 0)
          fail_here(fmt::format("the template ends inside a block: expected '{}'", *std::prev(end_names.end())));
        return block;
      }
    }
  }

  void end_of_head() {
    skip_symbol(":");
    expect(Token::Kind::block_end, "'%}'");
  }

  // Reads to the closing %} of {% end_name %}.
  Block body_until(std::string_view end_name) {
    end_of_head();
    Block block = body({end_name});
    advance();
    return block;
  }

  StatementPtr statement() {
    const size_t offset = current().offset;
    if (current().kind != Token::Kind::name) fail_here("expected the name of a tag, got " + describe(current()));
    const std::string tag = advance().text;
    if (tag == "if") return condition(offset);
    if (tag == "for") return loop(offset);
    if (tag == "set") return set(offset);
    if (tag == "macro") return macro(offset);
    if (tag == "call") return call_block(offset);
    if (tag == "filter") return filter_block(offset);
    if (tag == "with") return with(offset);
    if (tag == "do") {
      StatementPtr node = make_statement(SKind::evaluate, offset);
      node->expression = attach(*node, tuple());
      return node;
    }
    if (tag == "generation") { // Hugging Face's mark of assistant text; no effect
      StatementPtr node = make_statement(SKind::scope, offset);
      node->body = attach(*node, separate_body("endgeneration"));
      return node;
    }
    if (tag == "break" || tag == "continue") {
      if (loop_nesting_ == 0) fail_at(offset, fmt::format("'{}' outside of a loop", tag));
      return make_statement(tag == "break" ? SKind::break_loop : SKind::continue_loop, offset);
    }
    if (among({"include", "import", "from", "extends", "block"}, tag))
      fail_at(offset, fmt::format("'{}' is not available in chat templates", tag));
    fail_at(offset, fmt::format("unknown tag '{}'", tag));
  }

  StatementPtr condition(size_t offset) {
    StatementPtr node = make_statement(SKind::condition, offset);
    const size_t unknown_before = unknown_names_.size();
    while (true) {
      ExpressionPtr test = attach(*node, tuple({}, false));
      end_of_head();
      node->branches.emplace_back(std::move(test), attach(*node, body({"elif", "else", "endif"})));
      const std::string next = advance().text;
      if (next == "elif") continue;
      if (next == "else") node->branches.emplace_back(nullptr, attach(*node, body_until("endif")));
      break;
    }
    unknown_names_.resize(unknown_before);
    return node;
  }

  StatementPtr loop(size_t offset) {
    StatementPtr node = make_statement(SKind::loop, offset);
    node->target = attach(*node, target({"in"}, false));
    expect_name("in");
    node->expression = attach(*node, tuple({"recursive"}, false));
    if (skip_name("if")) node->condition = attach(*node, expression());
    node->is_recursive = skip_name("recursive");
    end_of_head();
    ++loop_nesting_;
    node->body = attach(*node, body({"endfor", "else"}));
    --loop_nesting_;
    if (advance().text == "else") node->otherwise = attach(*node, body_until("endfor"));
    return node;
  }

  StatementPtr set(size_t offset) {
    StatementPtr node = make_statement(SKind::set, offset);
    node->target = attach(*node, target({}, true));
    if (skip_symbol("=")) {
      node->expression = attach(*node, tuple());
      return node;
    }
    node->kind = SKind::set_block;
    node->expression = attach(*node, filters());
    node->body = attach(*node, separate_body("endset"));
    return node;
  }

  // `| filter | filter` without an operand; nullptr: none.
  ExpressionPtr filters() {
    ExpressionPtr node;
    while (skip_symbol("|")) node = filter(std::move(node));
    return node;
  }

  // break and continue cannot leave this body.
  Block separate_body(std::string_view end_name) {
    const int outer = std::exchange(loop_nesting_, 0);
    Block block = body_until(end_name);
    loop_nesting_ = outer;
    return block;
  }

  void signature(Statement& node) {
    expect_symbol("(");
    while (!is_symbol(")")) {
      if (!node.parameters.empty()) expect_symbol(",");
      const size_t offset = current().offset;
      Parameter parameter{expect_any_name(), nullptr};
      if (skip_symbol("="))
        parameter.default_value = attach(node, expression());
      else if (!node.parameters.empty() && node.parameters.back().default_value)
        fail_at(offset, "a parameter without a default follows one with a default");
      node.parameters.push_back(std::move(parameter));
    }
    expect_symbol(")");
  }

  StatementPtr macro(size_t offset) {
    StatementPtr node = make_statement(SKind::macro, offset);
    node->text = expect_any_name();
    signature(*node);
    const SpecialNames outer = std::exchange(special_names_, {});
    node->body = attach(*node, separate_body("endmacro"));
    use_specials(*node, outer);
    return node;
  }

  void use_specials(Statement& node, const SpecialNames& outer) {
    node.special_names = special_names_;
    special_names_.varargs |= outer.varargs;
    special_names_.kwargs |= outer.kwargs;
    special_names_.caller |= outer.caller;
  }

  StatementPtr call_block(size_t offset) {
    StatementPtr node = make_statement(SKind::call, offset);
    if (is_symbol("(")) signature(*node);
    node->expression = attach(*node, expression());
    if (node->expression->kind != Kind::call) fail_at(offset, "expected a call after 'call'");
    const SpecialNames outer = std::exchange(special_names_, {});
    node->body = attach(*node, separate_body("endcall"));
    use_specials(*node, outer);
    return node;
  }

  StatementPtr filter_block(size_t offset) {
    StatementPtr node = make_statement(SKind::filter, offset);
    node->expression = filter(nullptr);
    while (skip_symbol("|")) node->expression = filter(std::move(node->expression));
    grow(*node, node->expression->height);
    node->body = attach(*node, body_until("endfilter"));
    return node;
  }

  StatementPtr with(size_t offset) {
    StatementPtr node = make_statement(SKind::with, offset);
    while (current().kind != Token::Kind::block_end) {
      if (!node->assignments.empty()) expect_symbol(",");
      ExpressionPtr name = attach(*node, target({}, false));
      expect_symbol("=");
      node->assignments.emplace_back(std::move(name), attach(*node, expression()));
    }
    node->body = attach(*node, body_until("endwith"));
    return node;
  }

  int loop_nesting_ = 0;
};

} // namespace

Block parse(std::string_view source, const Limits& limits) { return Parser(source, limits).run(); }

} // namespace ridge::text::jinja
