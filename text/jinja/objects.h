// Objects with state: namespaces, functions, macros, loops.
#pragma once

#include "text/jinja/runtime.h"

#include <functional>

namespace ridge::text::jinja {

// {% set ns.x = … %} changes it.
struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> attributes;

  std::string_view type_name() const override { return "Namespace"; }
  TaintedText print(Runtime& runtime) override;
  bool is_callable() const override { return false; }
  void release() override { attributes.clear(); }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  void set(std::string_view name, Value value);
};

// Captured state, such as loop.cycle.
struct Function : Object {
  std::function<Value(Runtime&, Arguments&)> run;
  explicit Function(std::function<Value(Runtime&, Arguments&)> run) : run(std::move(run)) {}
  std::string_view type_name() const override { return "function"; }
  Value call(Runtime& runtime, Arguments& arguments) override { return run(runtime, arguments); }
};

struct Macro : Object {
  const Statement& node;
  std::shared_ptr<Frame> frame;

  Macro(const Statement& node, std::shared_ptr<Frame> frame) : node(node), frame(std::move(frame)) {}

  std::string_view type_name() const override { return "Macro"; }
  TaintedText print(Runtime& runtime) override;
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  Value call(Runtime& runtime, Arguments& arguments) override;

 private:
  void bind(Runtime& runtime, Arguments& arguments);
};

// The `loop` variable. The loop's filter runs lazily because the body may change its result.
struct Loop : Object, std::enable_shared_from_this<Loop> {
  const Statement& node;
  std::shared_ptr<Frame> frame; // enclosing frame, for recursive or filtered loops
  Values items;
  Values candidates;
  size_t next_candidate = 0;
  std::shared_ptr<const Problem> failure; // raised after the last candidate
  size_t index = 0;
  int depth;
  std::optional<Value> last_seen;

  // `failure`: raised after `all`.
  Loop(const Statement& node, std::shared_ptr<Frame> frame, Values all, std::shared_ptr<const Problem> failure,
       int depth);
  // Drops the frame at the end: a loop stored in the enclosing scope must not own that scope.
  struct Running {
    Loop& loop;
    ~Running();
  };
  bool reach(Runtime& runtime, size_t i); // whether item i exists; filters up to it
  size_t consumed_items() const { return node.condition ? next_candidate : index + 1; }

  std::string_view type_name() const override { return "LoopContext"; }
  TaintedText print(Runtime& runtime) override;
  void release() override { last_seen.reset(); }
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  Value call(Runtime& runtime, Arguments& arguments) override;

 private:
  Value method(Value (Loop::*run)(Runtime&, Arguments&));
  Value cycle(Runtime&, Arguments& arguments);
  Value changed(Runtime& runtime, Arguments& arguments);
};

} // namespace ridge::text::jinja
