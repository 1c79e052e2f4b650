#include "text/calls/call_writer.h"

#include "text/calls/call_pattern.h"
#include "text/calls/call_values.h"
#include "text/json/kept_number.h"

#include <fmt/format.h>

namespace ridge::text {
namespace {

using Json = nlohmann::ordered_json;

std::string tagged(const CallSyntax& syntax, const Json& arguments) {
  std::string text;
  for (const auto& [key, value] : arguments.items()) {
    const bool is_text = value.is_string() || syntax.key_end_other.empty();
    const char* type = is_any_number(value) ? "number" : value.type_name();
    text += write_pattern(syntax.key_open, {}) + key +
            write_pattern(is_text ? syntax.key_end : syntax.key_end_other, {.type = type});
    std::string shown = value.is_string() ? value.get<std::string>() : compact_json(value);
    if (syntax.cdata && value.is_string() && shown.find_first_of("<&\n") != std::string::npos)
      shown = fmt::format("{}{}{}", kCdataOpen, shown, kCdataClose);
    text.append(syntax.value_pad) += shown;
    text.append(syntax.value_pad) += write_pattern(syntax.value_close, {});
  }
  return text;
}

std::string written(const CallSyntax& syntax, const Json& arguments) {
  switch (syntax.arguments) {
  case ArgumentForm::json: return compact_json(arguments);
  case ArgumentForm::tagged: return tagged(syntax, arguments);
  case ArgumentForm::python: return write_python_arguments(arguments);
  case ArgumentForm::gemma: return write_gemma_arguments(arguments);
  }
  return {};
}

} // namespace

std::string write_calls(const CallSyntax& syntax, std::span<const ToolCall> calls) {
  std::string text = write_pattern(syntax.open, {});
  for (size_t i = 0; i < calls.size(); ++i) {
    const ToolCall& call = calls[i];
    const PatternValues values = {.id = call.id, .name = call.name, .number = i};
    const Json arguments = parse_json(call.arguments);
    if (i > 0) text += write_pattern(syntax.between, values);
    text += write_pattern(syntax.call_open, values) + call.name + write_pattern(syntax.name_end, values);
    text += arguments.is_object() ? written(syntax, arguments) : call.arguments;
    text += write_pattern(syntax.call_close, values);
  }
  return text + write_pattern(syntax.close, {});
}

} // namespace ridge::text
