// Jinja2 templates, as far as chat templates use them: parsed once, rendered often, byte for byte what Python's Jinja2
// renders in Hugging Face's sandbox (immutable values, trim_blocks, lstrip_blocks, loop controls, tojson without HTML
// escapes). include, import, extends and block are refused, because a chat template is a single file.
#pragma once

#include "text/jinja/limits.h"
#include "text/jinja/tainted_text.h"

#include <nlohmann/json.hpp>

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

namespace ridge::text::jinja {

class Template {
 public:
  // `name` stands for the template in messages. Errors (ridge::Error) read "name:line:column: what is wrong".
  static Template parse(std::string_view source, std::string name, const Limits& limits = {});

  // `variables` is a JSON object; its keys are the outermost names. `now` is what strftime_now returns. The result
  // tells apart what the template wrote and what came from the strings of `variables` that are data (without `is_data`:
  // all). May be called from several threads at once.
  TaintedText render_tainted(const nlohmann::ordered_json& variables, const std::tm& now,
                             IsData is_data = nullptr) const;
  // Its bytes alone.
  std::string render(const nlohmann::ordered_json& variables, const std::tm& now) const {
    return render_tainted(variables, now).bytes();
  }

  const std::string& name() const;
  const std::string& source() const; // with line ends normalized

 private:
  struct Parsed;
  explicit Template(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

} // namespace ridge::text::jinja
