#include "server/answer_form.h"

#include "core/error.h"
#include "core/json/parse.h"
#include "server/chat_messages.h"
#include "server/json/api_error.h"
#include "text/grammar/json_schema/json_schema_rules.h"
#include "text/grammar/json_schema/json_schema_text.h"
#include "text/grammar/json_schema/string_pattern.h"

#include <algorithm>
#include <functional>

namespace ridge::server {
namespace {

constexpr size_t kMaxChoices = 10'000;

Json schema_of(const Json& given, const std::string& path) {
  if (!given.is_string()) return given;
  auto schema = core::find_json(given.get_ref<const std::string&>());
  if (!schema) throw_invalid(path, "{}: expected a JSON schema", path);
  return std::move(*schema);
}

std::string given_text(const Json& given, const std::string& path) {
  if (!given.is_string() || given.get_ref<const std::string&>().empty())
    throw_invalid(path, "{}: expected a string that is not empty", path);
  return given.get<std::string>();
}

std::string gbnf_of_regex(std::string expression, const std::string& path) {
  if (expression.starts_with('^')) expression.erase(0, 1);
  const size_t end = expression.size();
  if (expression.ends_with('$') && (end < 2 || expression[end - 2] != '\\')) expression.pop_back();
  const text::StringNotation notation{.any = "[\\U00000000-\\U0010FFFF]", .is_json = false};
  try {
    text::GrammarRules rules;
    const text::StringPattern pattern = text::parse_string_pattern("^(?:" + expression + ")$");
    return rules.text(text::gbnf_from_pattern(rules, pattern, notation, "text"));
  } catch (const Error& error) {
    throw_invalid(path, "{}: {}", path, error.what());
  }
}

std::string gbnf_of_choice(const Json& given, const std::string& path) {
  if (!given.is_array() || given.empty() || given.size() > kMaxChoices)
    throw_invalid(path, "{}: expected a list of 1 to {} strings", path, kMaxChoices);
  std::string gbnf = "root ::= ";
  for (size_t i = 0; i < given.size(); ++i)
    gbnf += (i > 0 ? " | " : "") + text::gbnf_literal(given_text(given[i], fmt::format("{}[{}]", path, i)));
  return gbnf + "\n";
}

class Reader {
 public:
  void take(const Fields& body, const char* name, const std::function<void(const Json&, const std::string&)>& set) {
    const Json* value = body.find(name);
    if (!value || *value == "" || *value == false) return;
    const std::string path = body.path_of(name);
    if (!form.from.empty())
      throw_invalid(path, "{} and {} cannot be combined: only one of them can constrain an answer", form.from, path);
    form.from = path;
    set(*value, path);
  }
  void take_schema(const Fields& body, const char* name) {
    take(body, name, [&](const Json& value, const std::string& path) { form.schema = schema_of(value, path); });
  }
  void take_grammar(const Fields& body, const char* name) {
    take(body, name, [&](const Json& value, const std::string& path) { form.gbnf = given_text(value, path); });
  }
  void take_regex(const Fields& body, const char* name) {
    take(body, name,
         [&](const Json& value, const std::string& path) { form.gbnf = gbnf_of_regex(given_text(value, path), path); });
  }
  void take_choice(const Fields& body, const char* name) {
    take(body, name, [&](const Json& value, const std::string& path) { form.gbnf = gbnf_of_choice(value, path); });
  }

  AnswerForm form;
};

} // namespace

AnswerForm answer_form(const Fields& body) {
  Reader reader;
  if (const auto format = body.object("response_format"); format && format->text("type") != "text") {
    if (format->text("type") == "grammar")
      reader.take_grammar(*format, "grammar");
    else
      reader.take(body, "response_format",
                  [&](const Json&, const auto&) { reader.form.schema = schema_of_format(*format); });
  }
  reader.take_grammar(body, "grammar");
  reader.take_schema(body, "json_schema");
  reader.take_schema(body, "guided_json");
  reader.take_regex(body, "guided_regex");
  reader.take_choice(body, "guided_choice");
  reader.take_grammar(body, "guided_grammar");
  if (const auto outputs = body.object("structured_outputs")) {
    for (const auto& [name, value] : outputs->json().items()) {
      static const Json kKnown = {"json",
                                  "regex",
                                  "choice",
                                  "grammar",
                                  "json_object",
                                  "disable_any_whitespace",
                                  "disable_fallback",
                                  "disable_additional_properties",
                                  "whitespace_pattern"};
      const bool off = value.is_null() || value == false;
      const bool known = std::ranges::find(kKnown, Json(name)) != kKnown.end();
      if ((!known || name == "whitespace_pattern") && !off)
        throw_invalid(outputs->path_of(name.c_str()), "{} is not supported", outputs->path_of(name.c_str()));
    }
    reader.take_schema(*outputs, "json");
    reader.take_regex(*outputs, "regex");
    reader.take_choice(*outputs, "choice");
    reader.take_grammar(*outputs, "grammar");
    reader.take(*outputs, "json_object", [&](const Json&, const std::string&) {
      reader.form.schema = Json::object({{"type", "object"}});
    });
  }
  return reader.form;
}

} // namespace ridge::server
