// The objects with state that a template works with: namespaces, functions, macros, loops.
#pragma once

#include "text/jinja/runtime.h"

#include <functional>

namespace ridge::text::jinja {

// What namespace() makes. It holds attributes, which {% set ns.x = … %} changes.
struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> attributes;

  std::string_view type_name() const override { return "Namespace"; }
  TaintedText print(Runtime& runtime) override;
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
  TaintedText print(Runtime& runtime) override;
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  Value call(Runtime& runtime, Arguments& arguments) override;

 private:
  void bind(Runtime& runtime, Arguments& arguments);
};

// The `loop` of a running {% for %}. Its filter is evaluated as far as the loop has come, or looks ahead, because what
// the loop does may change what the filter says.
struct Loop : Object, std::enable_shared_from_this<Loop> {
  const Statement& node;
  std::shared_ptr<Frame> frame; // around the loop, if it is recursive or has a filter
  Values items;                 // that passed the filter
  Values candidates;            // for the filter
  size_t next_candidate = 0;
  std::shared_ptr<const Problem> failure; // of the one behind them
  size_t index = 0;
  int depth;
  std::optional<Value> last_seen; // by changed()

  // `failure`: of the item behind `all`.
  Loop(const Statement& node, std::shared_ptr<Frame> frame, Values all, std::shared_ptr<const Problem> failure,
       int depth);
  // Ends the filter with the loop: a loop that is kept in the scope around it must not keep that scope.
  struct Running {
    Loop& loop;
    ~Running();
  };
  bool reach(Runtime& runtime, size_t i); // whether there is an item i; finds those up to it
  size_t taken() const { return node.condition ? next_candidate : index + 1; } // so far

  std::string_view type_name() const override { return "LoopContext"; }
  TaintedText print(Runtime& runtime) override;
  void release() override { last_seen.reset(); }
  std::optional<Value> attribute(Runtime&, std::string_view name) override;
  Value call(Runtime& runtime, Arguments& arguments) override; // loop(items), of a recursive loop

 private:
  Value method(Value (Loop::*run)(Runtime&, Arguments&));
  Value cycle(Runtime&, Arguments& arguments);
  Value changed(Runtime& runtime, Arguments& arguments);
};

} // namespace ridge::text::jinja
