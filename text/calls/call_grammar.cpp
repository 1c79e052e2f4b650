#include "text/calls/call_grammar.h"

#include "core/error.h"
#include "text/calls/call_grammar_values.h"
#include "text/calls/call_pattern.h"
#include "text/calls/call_values.h"
#include "text/grammar/json_schema/json_schema.h"
#include "text/grammar/json_schema/json_schema_text.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace ridge::text {
namespace {

constexpr int kMaxCalls = 32;
constexpr size_t kMaxControlToken = 80;

// Keys that a syntax without quotes can write.
bool is_plain_key(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return is_name_char(c) || c == '$' || c == '@' || static_cast<unsigned char>(c) >= 0x80;
  });
}

class Builder {
 public:
  Builder(const CallSyntax& syntax, const Tokenizer* tokenizer, size_t detail)
      : syntax_(syntax), tokenizer_(tokenizer), rules_(detail) {}

  std::string build(std::span<const Tool> tools, const CallGrammarOptions& options) {
    std::string root = tools.empty() ? "" : calls(tools, options);
    if (options.answer_schema) {
      const Json& schema = *options.answer_schema;
      const std::string answer =
          rules_.write_schema(count_values(schema), [&] { return add_json_schema(rules_, schema, schema, "answer"); });
      root = fmt::format("({}{} {})", root.empty() ? "" : root + " | ",
                         syntax_.messages ? mark("<|channel|>final$( <|constrain|>json$|$)<|message|>") : "", answer);
    }
    if (!syntax_.messages) root = "[ \\n]{0,3} " + root;
    if (!options.reasoning_open.empty())
      root = fmt::format("({} {} {} {})? {}", mark(options.reasoning_open),
                         text_without(rules_, options.reasoning_close), mark(options.reasoning_close),
                         syntax_.messages ? mark("$(<|start|>assistant$|$)") : "\"\"", root);
    return rules_.text(root);
  }

 private:
  std::string calls(std::span<const Tool> tools, const CallGrammarOptions& options) {
    std::string bodies;
    for (const Tool& tool : tools) {
      bodies += bodies.empty() ? "" : " | ";
      const std::string written = rules_.write_schema(count_values(tool.parameters), [&] { return arguments(tool); });
      bodies += rules_.add("tool-" + tool.name,
                           fmt::format("{} {} {}", gbnf_literal(tool.name),
                                       syntax_.messages ? header_end() : mark(syntax_.name_end), written));
    }
    const std::string call =
        rules_.add("call", fmt::format("{} ({}) {}", syntax_.messages ? header() : mark(syntax_.call_open), bodies,
                                       mark(syntax_.call_close)));
    const bool several = options.parallel && !syntax_.messages;
    const std::string more = several ? fmt::format("({} {}){{0,{}}}", mark(syntax_.between), call, kMaxCalls - 1) : "";
    return fmt::format("{} {} {} {}", mark(syntax_.open), call, more, mark(syntax_.close));
  }

  // gpt-oss has several forms of the header; the parser sees one.
  std::string header() {
    return mark("$(<|start|>assistant$|$)$(<|channel|>$(commentary$|analysis$)$|$) to=functions.");
  }
  std::string header_end() {
    return mark(
        "$(<|channel|>$(commentary$|analysis$)$|$)$( $(<|constrain|>$|$)json$|<|constrain|>json$|$)<|message|>");
  }

  std::string mark(std::string_view pattern) {
    std::string expression;
    while (!pattern.empty()) {
      const PatternPart part = take_part(pattern);
      if (!part.literal.empty() && !add_literal(expression, part.literal)) return expression;
      switch (part.variable) {
      case 'D': expression += " [a-zA-Z0-9]{9}"; break;
      case 'I': expression += " (\"0\" | [1-9] [0-9]?)"; break;
      default: break;
      }
      if (part.alternatives.empty()) continue;
      expression += " (";
      for (const std::string_view& alternative : part.alternatives)
        expression += (&alternative == part.alternatives.data() ? "" : " | ") +
                      (alternative.empty() ? std::string("\"\"") : mark(alternative));
      expression += ")";
    }
    return expression.empty() ? "\"\"" : expression;
  }

  // False: the turn ends here with a token outside the grammar.
  bool add_literal(std::string& expression, std::string_view text) {
    std::string plain;
    const auto flush = [&] {
      if (!plain.empty()) expression += " " + gbnf_literal(plain);
      plain.clear();
    };
    while (!text.empty()) {
      const auto [token, size] = control_token(text);
      if (token < 0) {
        plain += text[0];
        text.remove_prefix(1);
        continue;
      }
      flush();
      if (tokenizer_->is_eog(token)) {
        if (expression.empty()) expression = "\"\"";
        return false;
      }
      expression += fmt::format(" (<[{}]> | {})", token, gbnf_literal(text.substr(0, size)));
      text.remove_prefix(size);
    }
    flush();
    return true;
  }

  struct Control {
    int32_t token;
    size_t size;
  };
  Control control_token(std::string_view text) const {
    if (tokenizer_ && !is_name_char(text[0]) && text[0] != ' ')
      for (size_t size = std::min(text.size(), kMaxControlToken); size > 1; --size)
        if (const int32_t token = tokenizer_->find(text.substr(0, size)); token >= 0 && tokenizer_->is_special(token))
          return {token, size};
    return {-1, 0};
  }

  std::string arguments(const Tool& tool) {
    if (syntax_.arguments == ArgumentForm::json)
      return add_json_schema(rules_, tool.parameters, tool.parameters, tool.name);
    ValueRules values(rules_, tool.parameters, mark(kGemmaQuote));
    if (rules_.detail().max_depth == 0) return members(tool, tool.parameters, values);
    std::vector<std::string> forms;
    SchemaParts parts(tool.parameters, rules_);
    for (const Json& form : parts.alternatives(tool.parameters, "#"))
      if (form.contains("type"))
        for (const Json& one : parts.dependency_cases(form, "#").value_or(std::vector{form}))
          forms.push_back(members(tool, one, values));
    if (forms.empty()) fail_unsatisfiable("#", "no arguments are possible");
    return fmt::format("({})", fmt::join(forms, " | "));
  }

  std::string members(const Tool& tool, const Json& form, ValueRules& values) {
    const Json none = Json::object(), anything = true;
    const Json* properties = find_object(form, "properties", "#");
    std::vector<std::string> required;
    if (const Json* names = find_array(form, "required", "#"))
      for (const Json& name : *names)
        if (name.is_string()) required.push_back(name.get<std::string>());
    std::vector<Property> pairs;
    const auto add = [&](const std::string& key, const Json& schema, bool is_required) {
      if (!is_plain_key(key)) return;
      const size_t count = rules_.size();
      const bool any = rules_.detail().max_depth == 0;
      try {
        pairs.push_back({pair(tool, key, any ? anything : schema, values), is_required});
      } catch (const Unsatisfiable&) {
        rules_.drop(count);
        if (!is_required) return;
        if (rules_.detail().strict) throw;
        pairs.push_back({pair(tool, key, anything, values), true});
      }
    };
    for (const auto& [key, schema] : (properties ? *properties : none).items())
      add(key, schema, std::erase(required, key) > 0);
    for (const std::string& key : required) add(key, anything, true);
    if (syntax_.arguments == ArgumentForm::tagged) return chain(rules_, pairs, "", tool.name, form);
    if (syntax_.arguments == ArgumentForm::gemma)
      return fmt::format("\"{{\" {} \"}}\"", chain(rules_, pairs, ",", tool.name, form));
    return chain(rules_, pairs, ", ", tool.name, form);
  }

  std::string pair(const Tool& tool, const std::string& key, const Json& schema, ValueRules& values) {
    const std::string hint = tool.name + "-" + key;
    std::string body;
    if (syntax_.arguments == ArgumentForm::python) {
      body = fmt::format("{} {}", gbnf_literal(key + "="), values.python(schema, hint));
    } else if (syntax_.arguments == ArgumentForm::gemma) {
      body = fmt::format("{} {}", gbnf_literal(key + ":"), values.gemma(schema, hint));
    } else {
      const std::string pad = syntax_.value_pad.empty() ? "" : gbnf_literal(syntax_.value_pad);
      const JsonTypes types = json_types(schema, tool.parameters);
      const auto tagged = [&](std::string_view key_end, const std::string& value) {
        return fmt::format("{} {} {} {} {} {} {}", mark(syntax_.key_open), gbnf_literal(key), mark(key_end), pad, value,
                           pad, mark(syntax_.value_close));
      };
      if (syntax_.cdata) {
        std::string value = values.tagged(schema, hint, "<");
        if (types.only_string())
          value = fmt::format("({} | {} {} {})", value, gbnf_literal(kCdataOpen),
                              values.tagged(schema, hint, kCdataClose), gbnf_literal(kCdataClose));
        body = tagged(syntax_.key_end, value);
      } else if (syntax_.key_end_other.empty() || types.only_string())
        body = tagged(syntax_.key_end, values.tagged(schema, hint, syntax_.value_close));
      else if (!types.string)
        body = tagged(other_key_end(), values.json(schema, hint));
      else
        body = fmt::format("{} | {}", tagged(syntax_.key_end, text_before(rules_, syntax_.value_close)),
                           tagged(other_key_end(), values.json(schema, hint)));
    }
    return rules_.add(hint + "-pair", body);
  }

  // The key end for values other than strings, with all type names for `$T`.
  std::string other_key_end() const {
    std::string key_end(syntax_.key_end_other);
    if (const size_t type = key_end.find("$T"); type != std::string::npos)
      key_end.replace(type, 2, "$(number$|array$|object$|boolean$|null$)");
    return key_end;
  }

  const CallSyntax& syntax_;
  const Tokenizer* tokenizer_;
  GrammarRules rules_;
};

} // namespace

std::string gbnf_from_tools(const CallSyntax& syntax, std::span<const Tool> tools, const CallGrammarOptions& options,
                            const Tokenizer* tokenizer) {
  return Builder(syntax, tokenizer, options.detail).build(tools, options);
}

Grammar grammar_from_tools(const CallSyntax& syntax, std::span<const Tool> tools, CallGrammarOptions options,
                           const Tokenizer* tokenizer) {
  for (;; ++options.detail) {
    try {
      return Grammar::parse(gbnf_from_tools(syntax, tools, options, tokenizer));
    } catch (const Error&) {
      if (options.detail + 1 == schema_details().size()) throw;
    }
  }
}

} // namespace ridge::text
