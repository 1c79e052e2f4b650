#include "text/json/kept_number.h"

#include <algorithm>
#include <cfloat>
#include <cstdlib>

namespace ridge::text {
namespace {

using Json = nlohmann::ordered_json;

bool has_kept(const Json& value) {
  return is_kept_number(value) || (value.is_structured() && std::ranges::any_of(value, has_kept));
}

std::string leaf_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

class Writer {
 public:
  explicit Writer(int indent) : indent_(indent) {}

  void write(const Json& value, int level) {
    if (is_kept_number(value)) {
      out += written_number(value);
    } else if (value.is_structured() && !value.empty()) {
      write_items(value, level);
    } else {
      out += leaf_text(value);
    }
  }

  std::string out;

 private:
  void write_items(const Json& value, int level) {
    out += value.is_object() ? '{' : '[';
    bool first = true;
    for (auto item = value.begin(); item != value.end(); ++item) {
      if (!first) out += ',';
      first = false;
      new_line(level + 1);
      if (value.is_object()) out += leaf_text(item.key()) + (indent_ < 0 ? ":" : ": ");
      write(*item, level + 1);
    }
    new_line(level);
    out += value.is_object() ? '}' : ']';
  }
  void new_line(int level) {
    if (indent_ >= 0) out += '\n' + std::string(static_cast<size_t>(indent_) * level, ' ');
  }

  const int indent_;
};

} // namespace

std::string written_number(const Json& kept) {
  const Json::binary_t& bytes = kept.get_binary();
  return {bytes.begin(), bytes.end()};
}

std::string json_text(const Json& value, int indent) {
  if (!has_kept(value)) return leaf_text(value, indent);
  Writer writer(indent);
  writer.write(value, 0);
  return std::move(writer.out);
}

Json with_doubles(Json value) {
  if (is_kept_number(value)) return std::clamp(std::strtod(written_number(value).c_str(), nullptr), -DBL_MAX, DBL_MAX);
  if (value.is_structured())
    for (Json& item : value) item = with_doubles(std::move(item));
  return value;
}

} // namespace ridge::text
