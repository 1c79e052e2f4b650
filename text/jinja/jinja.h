// Jinja2 templates, equal to Python's in Hugging Face's sandbox: immutable values, trim_blocks, lstrip_blocks, loop
// controls, tojson without HTML escapes. No include, import, extends, block.
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
  // Errors: "name:line:column: message".
  static Template parse(std::string_view source, std::string name, const Limits& limits = {});

  // `variables`: a JSON object. `now`: for strftime_now. The result marks bytes from strings of `variables` that are
  // data (default: all). Thread-safe.
  TaintedText render_tainted(const nlohmann::ordered_json& variables, const std::tm& now,
                             IsData is_data = nullptr) const;
  std::string render(const nlohmann::ordered_json& variables, const std::tm& now) const {
    return render_tainted(variables, now).bytes();
  }

  const std::string& name() const;
  const std::string& source() const; // line ends normalized

 private:
  struct Parsed;
  explicit Template(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

} // namespace ridge::text::jinja
