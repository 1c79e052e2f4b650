// Python's str() and repr().
#include "text/jinja/integers.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

#include <algorithm>

namespace ridge::text::jinja {

namespace {

class Printer {
 public:
  Printer(Runtime& runtime) : runtime_(runtime) {}

  void repr(const Value& value) {
    if (out.size() > runtime_.max_value_bytes()) runtime_.allow(out.size());
    runtime_.spend();
    switch (value.kind()) {
    case Value::Kind::undefined: out += "Undefined"; return;
    case Value::Kind::none: out += "None"; return;
    case Value::Kind::boolean: out += value.integer() ? "True" : "False"; return;
    case Value::Kind::integer: out += std::to_string(value.integer()); return;
    case Value::Kind::big_integer:
      runtime_.scan(integer_work(value));
      out += digits_of(value);
      return;
    case Value::Kind::floating: out += float_repr(value.number()); return;
    case Value::Kind::string:
      out += value.is_markup() ? "Markup(" : "";
      out += string_repr(value.text());
      out += value.is_markup() ? ")" : "";
      return;
    case Value::Kind::list: repr_list(*value.list()); return;
    case Value::Kind::dict: {
      const char* separator = "";
      out += '{';
      for (const auto& [key, item] : value.dict()->entries) {
        out += std::exchange(separator, ", ");
        repr(key);
        out += ": ";
        repr(item);
      }
      out += '}';
      return;
    }
    case Value::Kind::object: out += value.object()->print(runtime_); return;
    }
  }

  TaintedText out;

 private:
  void repr_items(const Values& items) {
    const char* separator = "";
    for (const Value& item : items) {
      out += std::exchange(separator, ", ");
      repr(item);
    }
  }

  void repr_list(const List& list) {
    switch (list.kind) {
    case List::Kind::list:
      out += '[';
      repr_items(list.items);
      out += ']';
      return;
    case List::Kind::tuple:
      out += '(';
      repr_items(list.items);
      out += list.items.size() == 1 ? ",)" : ")";
      return;
    case List::Kind::range: {
      const int64_t start = list.items.empty() ? 0 : list.items.front().integer();
      const int64_t step = list.items.size() < 2 ? 1 : list.items[1].integer() - start;
      const int64_t stop = start + step * static_cast<int64_t>(list.items.size());
      out +=
          step == 1 ? fmt::format("range({}, {})", start, stop) : fmt::format("range({}, {}, {})", start, stop, step);
      return;
    }
    case List::Kind::generator: out += "<generator object>"; return;
    default:
      out += fmt::format("{}([", Value(std::shared_ptr<const List>(&list, [](auto*) {})).type_name());
      repr_items(list.items);
      out += "])";
    }
  }

  Runtime& runtime_;
};

} // namespace

TaintedText Runtime::str(const Value& value, bool into_markup) {
  if (into_markup && !value.is_markup()) return str(value).map(escape_html);
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return {};
  Deeper deeper(*this);
  return repr(value);
}

TaintedText Runtime::repr(const Value& value) {
  Deeper deeper(*this);
  Printer printer(*this);
  printer.repr(value);
  return std::move(printer.out);
}

Value Runtime::soft_str(const Value& value) { return value.is_string() ? value : text(str(value)); }

} // namespace ridge::text::jinja
