#include "text/jinja/jinja.h"

#include "core/strings/utf8.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

#include <algorithm>

namespace ridge::text::jinja {

struct Template::Parsed {
  std::string name;
  std::string source;
  Limits limits;
  Block block;
};

namespace {

[[noreturn]] void throw_placed(const std::string& name, std::string_view source, size_t offset,
                               const Problem& problem) {
  const std::string_view before = source.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  std::string message = problem.message.substr(0, 2000);
  if (!problem.is_refusal) std::replace(message.begin(), message.end(), '\n', ' ');
  throw_error("{}:{}:{}: {}{}", name, line, code_point_count(before.substr(start)) + 1,
              problem.is_refusal ? "the template raised an error: " : "", message);
}

} // namespace

Template Template::parse(std::string_view source, std::string name, const Limits& limits) {
  if (source.size() > limits.max_source_bytes)
    throw_error("{}: the template has {} bytes; at most {} are accepted", name, source.size(), limits.max_source_bytes);
  if (!core::is_utf8(source)) throw_error("{}: the template is not UTF-8", name);
  auto parsed = std::make_shared<Parsed>();
  parsed->name = std::move(name);
  parsed->source = normalize_source(source);
  parsed->limits = limits;
  try {
    parsed->block = jinja::parse(parsed->source, parsed->limits);
  } catch (const PlacedProblem& placed) {
    throw_placed(parsed->name, parsed->source, placed.offset, placed.problem);
  }
  return Template(std::move(parsed));
}

TaintedText Template::render_tainted(const nlohmann::ordered_json& variables, const std::tm& now,
                                     IsData is_data) const {
  Runtime runtime(parsed_->limits, now);
  try {
    const Value value = from_json(variables, is_data);
    if (!value.is_dict()) throw_error("{}: the variables of a template must be a JSON object", parsed_->name);
    return runtime.render(parsed_->block, *value.dict());
  } catch (const Problem& problem) {
    throw_placed(parsed_->name, parsed_->source, runtime.position(), problem);
  }
}

const std::string& Template::name() const { return parsed_->name; }
const std::string& Template::source() const { return parsed_->source; }

} // namespace ridge::text::jinja
