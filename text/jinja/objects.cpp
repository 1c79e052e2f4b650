#include "text/jinja/objects.h"

#include "text/jinja/text.h"

#include <algorithm>

namespace ridge::text::jinja {

// ---- namespaces

TaintedText Namespace::print(Runtime& runtime) {
  Dict dict;
  for (const auto& [name, value] : attributes) dict.set(keyword_text(name), value);
  TaintedText out("<Namespace ");
  out += runtime.repr(make_dict(std::move(dict)));
  return out += ">";
}

std::optional<Value> Namespace::attribute(Runtime&, std::string_view name) {
  for (const auto& [key, value] : attributes)
    if (key == name) return value;
  return std::nullopt;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [key, old] : attributes)
    if (key == name) {
      old = std::move(value);
      return;
    }
  attributes.emplace_back(name, std::move(value));
}

// ---- macros

TaintedText Macro::print(Runtime&) {
  return TaintedText(node.text.empty() ? "<Macro anonymous>" : fmt::format("<Macro {}>", string_repr(node.text)));
}

std::optional<Value> Macro::attribute(Runtime&, std::string_view name) {
  if (name == "name") return node.text.empty() ? Value() : Value(node.text);
  return std::nullopt;
}

Value Macro::call(Runtime& runtime, Arguments& arguments) {
  Runtime::Deeper deeper(runtime);
  Runtime::Scope scope(runtime, frame);
  bind(runtime, arguments);
  Runtime::Capture capture(runtime);
  runtime.run(node.body);
  return capture.take();
}

void Macro::bind(Runtime& runtime, Arguments& arguments) {
  Frame& inner = *runtime.frame_;
  Values& given = arguments.positional;
  auto& keywords = arguments.keyword;
  std::vector<size_t> defaults;
  for (size_t i = 0; i < node.parameters.size(); ++i) {
    const std::string& name = node.parameters[i].name;
    const auto keyword = std::find_if(keywords.begin(), keywords.end(), [&](const auto& k) { return k.first == name; });
    if (i < given.size()) {
      inner.set(name, given[i]);
    } else if (keyword != keywords.end()) {
      inner.set(name, keyword->second);
      keywords.erase(keyword);
    } else {
      inner.set(name, Value::undefined(fmt::format("parameter '{}' was not provided", name)));
      if (node.parameters[i].default_value) defaults.push_back(i);
    }
  }
  for (const size_t i : defaults) inner.set(node.parameters[i].name, runtime.eval(*node.parameters[i].default_value));

  const bool names_caller = std::any_of(node.parameters.begin(), node.parameters.end(),
                                        [](const Parameter& p) { return p.name == "caller"; });
  if (node.special_names.caller && !names_caller) {
    const auto caller =
        std::find_if(keywords.begin(), keywords.end(), [](const auto& k) { return k.first == "caller"; });
    inner.set("caller", caller == keywords.end() ? Value::undefined("No caller defined") : caller->second);
    if (caller != keywords.end()) keywords.erase(caller);
  }
  if (node.special_names.kwargs) {
    Dict dict;
    for (const auto& [name, value] : keywords) dict.set(keyword_text(name), value);
    inner.set("kwargs", runtime.dict(std::move(dict)));
  } else if (!keywords.empty()) {
    fail("macro '{}' takes no keyword argument '{}'", node.text, keywords[0].first);
  }
  if (node.special_names.varargs) {
    const size_t taken = std::min(given.size(), node.parameters.size());
    inner.set("varargs",
              runtime.list(Values(given.begin() + static_cast<std::ptrdiff_t>(taken), given.end()), List::Kind::tuple));
  } else if (given.size() > node.parameters.size()) {
    fail("macro '{}' takes not more than {} argument(s)", node.text, node.parameters.size());
  }
}

// ---- loops

Loop::Loop(const Statement& node, std::shared_ptr<Frame> frame, Values all, std::shared_ptr<const Problem> failure,
           int depth)
    : node(node), frame(std::move(frame)), failure(std::move(failure)), depth(depth) {
  (node.condition ? candidates : items) = std::move(all);
}

Loop::Running::~Running() {
  loop.candidates.clear();
  if (!loop.node.is_recursive) loop.frame.reset();
}

bool Loop::reach(Runtime& runtime, size_t i) {
  while (items.size() <= i && next_candidate < candidates.size()) {
    Value item = candidates[next_candidate++];
    Runtime::Scope scope(runtime, frame);
    runtime.assign(*node.target, item);
    if (runtime.eval(*node.condition).truth()) items.push_back(std::move(item));
  }
  if (i < items.size()) return true;
  if (failure) throw Problem(*std::exchange(failure, nullptr));
  return false;
}

TaintedText Loop::print(Runtime& runtime) {
  reach(runtime, SIZE_MAX);
  return TaintedText(fmt::format("<LoopContext {}/{}>", index + 1, items.size()));
}

Value Loop::call(Runtime& runtime, Arguments& arguments) {
  if (!node.is_recursive) fail("the loop must have the 'recursive' marker to be called");
  if (arguments.positional.size() != 1 || !arguments.keyword.empty()) fail("loop() takes one argument");
  Runtime::Deeper deeper(runtime);
  Runtime::Scope scope(runtime, frame);
  Runtime::Capture capture(runtime);
  runtime.run_loop(node, arguments.positional[0], depth + 1);
  return capture.take();
}

std::optional<Value> Loop::attribute(Runtime& runtime, std::string_view name) {
  const auto number = [](size_t n) { return Value(static_cast<int64_t>(n)); };
  const auto size = [&] { return reach(runtime, SIZE_MAX), items.size(); };
  if (name == "index") return number(index + 1);
  if (name == "index0") return number(index);
  if (name == "revindex") return number(size() - index);
  if (name == "revindex0") return number(size() - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(!reach(runtime, index + 1));
  if (name == "length") return number(size());
  if (name == "depth") return Value(int64_t{depth} + 1);
  if (name == "depth0") return Value(int64_t{depth});
  if (name == "previtem") return index > 0 ? items[index - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return reach(runtime, index + 1) ? items[index + 1] : Value::undefined("there is no next item");
  if (name == "cycle") return method(&Loop::cycle);
  if (name == "changed") return method(&Loop::changed);
  return std::nullopt;
}

Value Loop::method(Value (Loop::*run)(Runtime&, Arguments&)) {
  return std::static_pointer_cast<Object>(
      std::make_shared<Function>([self = shared_from_this(), run](Runtime& runtime, Arguments& arguments) {
        return ((*self).*run)(runtime, arguments);
      }));
}

Value Loop::cycle(Runtime&, Arguments& arguments) {
  if (arguments.positional.empty()) fail("no items for cycling given");
  return arguments.positional[index % arguments.positional.size()];
}

Value Loop::changed(Runtime& runtime, Arguments& arguments) {
  const Value seen = runtime.list(arguments.positional, List::Kind::tuple);
  if (last_seen && runtime.equal(*last_seen, seen)) return false;
  if (!last_seen) runtime.keep(shared_from_this());
  last_seen = seen;
  return true;
}

} // namespace ridge::text::jinja
