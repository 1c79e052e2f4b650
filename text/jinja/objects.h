// The objects with state that a template works with: namespaces, functions, macros, loops.
#pragma once

#include "text/jinja/runtime.h"

#include <functional>

namespace ridge::text::jinja {

// What namespace() makes. It holds attributes, which {% set ns.x = … %} changes.
struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> attributes;

  std::string_view type_name() const override { return "Namespace"; }
  TaintedText print(Runtime& runtime) const override;
  bool is_callable() const override { return false; }
  void release() override { attributes.clear(); }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  void set(std::string_view name, Value value);
};

// A function, with the state that it captured: loop.cycle, a built-in by its name.
struct Function : Object {
  std::function<Value(Runtime&, Arguments&)> run;
  explicit Function(std::function<Value(Runtime&, Arguments&)> run) : run(std::move(run)) {}
  std::string_view type_name() const override { return "function"; }
  Value call(Runtime& runtime, Arguments& arguments) override { return run(runtime, arguments); }
};

struct Macro : Object {
  const Statement& node;
  std::shared_ptr<Frame> frame; // where it was defined

  Macro(const Statement& node, std::shared_ptr<Frame> frame) : node(node), frame(std::move(frame)) {}

  std::string_view type_name() const override { return "Macro"; }
  TaintedText print(Runtime&) const override;
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  Value call(Runtime& runtime, Arguments& arguments) override;

 private:
  void bind(Runtime& runtime, Arguments& arguments);
};

// The `loop` of a running {% for %}.
struct Loop : Object, std::enable_shared_from_this<Loop> {
  const Statement& node;
  std::shared_ptr<Frame> frame; // around the loop, if it is recursive
  Values items;
  size_t index = 0;
  int depth;
  std::optional<Value> last_seen; // by changed()

  Loop(const Statement& node, std::shared_ptr<Frame> frame, Values items, int depth)
      : node(node), frame(std::move(frame)), items(std::move(items)), depth(depth) {}

  std::string_view type_name() const override { return "LoopContext"; }
  TaintedText print(Runtime&) const override;
  void release() override { last_seen.reset(); }
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  Value call(Runtime& runtime, Arguments& arguments) override; // loop(items), of a recursive loop

 private:
  Value method(Value (Loop::*run)(Runtime&, Arguments&));
  Value cycle(Runtime&, Arguments& arguments);
  Value changed(Runtime& runtime, Arguments& arguments);
};

} // namespace ridge::text::jinja
