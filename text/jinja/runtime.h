// Evaluates templates and counts costs.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"
#include "text/jinja/limits.h"

#include <compare>
#include <ctime>
#include <functional>
#include <span>

namespace ridge::text::jinja {

// The variables of a scope. Macros and loops may outlive the block; the Runtime clears kept scopes at its end, which
// breaks reference cycles.
struct Frame {
  std::shared_ptr<Frame> parent;
  std::vector<std::pair<std::string, Value>> variables;
  bool is_kept = false;

  const Value* find(std::string_view name) const; // includes enclosing scopes
  void set(std::string_view name, Value value);
};

class Runtime {
 public:
  Runtime(const Limits& limits, const std::tm& now);
  ~Runtime();

  // Throws Problem; position() gives the place.
  TaintedText render(const Block& block, const Dict& variables);
  size_t position() const { return position_; }

  // ---- services for built-ins

  const std::tm& now() const { return now_; }

  void spend(int64_t steps = 1) {
    if ((steps_ += steps) > limits_.max_steps) fail("the template was stopped after {} steps", limits_.max_steps);
  }
  void scan(size_t bytes) { spend(1 + static_cast<int64_t>(bytes / 64)); }
  void allow(size_t bytes) const { // call before creating a string or list
    if (bytes > limits_.max_value_bytes)
      fail("a value of {} bytes is over the limit of {}", bytes, limits_.max_value_bytes);
  }
  size_t max_value_bytes() const { return limits_.max_value_bytes; }

  Value text(TaintedText text, bool is_markup = false);
  Value list(Values items, List::Kind kind = List::Kind::list);
  Value dict(Dict dict);
  Value keep(std::shared_ptr<Object> object); // for objects that may form reference cycles

  // Python's str(). into_markup escapes plain text.
  TaintedText str(const Value& value, bool into_markup = false);
  TaintedText repr(const Value& value);
  Value soft_str(const Value& value); // str() unless already text
  Values iterate(const Value& value); // consumes a generator
  // Returns a generator's failure separately.
  std::pair<Values, std::shared_ptr<const Problem>> drain(const Value& value);
  std::optional<Value> next(const Value& value); // consumes one item of a generator
  Value generator(Values items, std::shared_ptr<const Problem> failure = nullptr);
  int64_t length(const Value& value);

  bool equal(const Value& a, const Value& b);
  std::partial_ordering order(const Value& a, const Value& b,
                              std::string_view op = "<"); // throws if Python cannot order them
  bool contains(const Value& container, const Value& item);
  Value binary(std::string_view op, const Value& a, const Value& b);

  // Look-up costs the key length.
  const Value* find_key(const Dict& dict, const Value& key);
  void set_key(Dict& dict, const Value& key, const Value& value);

  // `keys`: dict keys count as attributes.
  Value attribute(const Value& object, const std::string& name, bool keys = true);
  Value item(const Value& object, const Value& key);
  Value path(const Value& object, const Value& attribute); // "a.b.0"

  Value call(const Value& callee, Arguments& arguments);
  Value apply_filter(const std::string& name, const Value& operand, Arguments& arguments);
  bool apply_test(const std::string& name, const Value& operand, Arguments& arguments);

 private:
  friend struct Macro;
  friend struct Loop;
  enum class Flow { normal, break_loop, continue_loop };

  struct Deeper {
    explicit Deeper(Runtime& runtime);
    ~Deeper() { --runtime.depth_; }
    Runtime& runtime;
  };
  struct Scope {
    explicit Scope(Runtime& runtime, std::shared_ptr<Frame> parent);
    ~Scope() { runtime.frame_ = std::move(outer); }
    Runtime& runtime;
    std::shared_ptr<Frame> outer;
  };
  struct Capture {
    explicit Capture(Runtime& runtime) : runtime(runtime), outer(std::exchange(runtime.output_, {})) {}
    ~Capture() { runtime.output_ = std::move(outer); }
    Value take() { return runtime.text(std::exchange(runtime.output_, {})); }
    Runtime& runtime;
    TaintedText outer;
  };

  void emit(const TaintedText& text);
  void emit(std::string_view own);
  void count_output(size_t bytes);
  std::shared_ptr<Frame> kept_frame();

  Flow run(const Block& block);
  Flow run(const Statement& node);
  Flow run_condition(const Statement& node);
  void run_for(const Statement& node);
  void run_loop(const Statement& node, const Value& iterable, int depth);
  void run_call(const Statement& node);
  void run_with(const Statement& node);
  Value captured(const Block& body);
  Value through_filters(const Expression* filters, Value text);
  void assign(const Expression& target, const Value& value);

  Value eval(const Expression& node);
  Value eval_name(const Expression& node);
  Value eval_parts(const Expression& node);
  Value eval_dict(const Expression& node);
  Value eval_slice(const Expression& node);
  Value eval_call(const Expression& node, const Value* caller = nullptr);
  Value eval_filter(const Expression& node);
  Value eval_test(const Expression& node);
  Value eval_compare(const Expression& node);
  Value eval_concat(const Expression& node);
  Value eval_negative(const Expression& node);
  Arguments eval_arguments(const Expression& node);

  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);

  const Limits& limits_;
  std::tm now_;
  std::shared_ptr<Frame> frame_;
  std::vector<std::shared_ptr<Frame>> kept_frames_;
  std::vector<std::shared_ptr<Object>> kept_objects_;
  TaintedText output_;
  Value filter_operand_;
  size_t position_ = 0;
  int64_t steps_ = 0;
  size_t created_bytes_ = 0;
  int depth_ = 0;
};

} // namespace ridge::text::jinja
