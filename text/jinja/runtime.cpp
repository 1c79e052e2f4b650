#include "text/jinja/runtime.h"

#include "text/jinja/objects.h"

namespace ridge::text::jinja {

// ---- scopes

const Value* Frame::find(std::string_view name) const {
  for (const Frame* frame = this; frame; frame = frame->parent.get())
    for (const auto& [key, value] : frame->variables)
      if (key == name) return &value;
  return nullptr;
}

void Frame::set(std::string_view name, Value value) {
  for (auto& [key, old] : variables)
    if (key == name) {
      old = std::move(value);
      return;
    }
  variables.emplace_back(name, std::move(value));
}

Runtime::Deeper::Deeper(Runtime& runtime) : runtime(runtime) {
  if (runtime.depth_ >= runtime.limits_.max_depth)
    fail("the template recurses deeper than {}", runtime.limits_.max_depth);
  ++runtime.depth_;
}

Runtime::Scope::Scope(Runtime& runtime, std::shared_ptr<Frame> parent) : runtime(runtime), outer(runtime.frame_) {
  runtime.frame_ = std::make_shared<Frame>();
  runtime.frame_->parent = std::move(parent);
}

Runtime::Runtime(const Limits& limits, const std::tm& now) : limits_(limits), now_(now) {}

Runtime::~Runtime() {
  for (const auto& object : kept_objects_) object->release();
  for (const auto& frame : kept_frames_) frame->variables.clear();
}

std::shared_ptr<Frame> Runtime::kept_frame() {
  if (!std::exchange(frame_->is_kept, true)) kept_frames_.push_back(frame_);
  return frame_;
}

Value Runtime::keep(std::shared_ptr<Object> object) {
  kept_objects_.push_back(object);
  return object;
}

// ---- values and their cost

Value Runtime::text(TaintedText text, bool is_markup) {
  allow(text.size());
  scan(text.size());
  if ((created_bytes_ += text.held_bytes()) > limits_.max_created_bytes)
    fail("the template creates more than {} bytes of values", limits_.max_created_bytes);
  return {std::move(text), is_markup};
}

Value Runtime::list(Values items, List::Kind kind) {
  const size_t bytes = items.size() * sizeof(Value);
  allow(bytes);
  scan(bytes);
  if ((created_bytes_ += bytes) > limits_.max_created_bytes)
    fail("the template creates more than {} bytes of values", limits_.max_created_bytes);
  return make_list(std::move(items), kind);
}

Value Runtime::generator(Values items, std::shared_ptr<const Problem> failure) {
  Value made = list(std::move(items), List::Kind::generator);
  made.list()->failure = std::move(failure);
  return made;
}

Value Runtime::dict(Dict dict) {
  const size_t bytes = dict.entries.size() * 4 * sizeof(Value);
  allow(bytes);
  scan(bytes);
  created_bytes_ += bytes;
  return make_dict(std::move(dict));
}

void Runtime::count_output(size_t bytes) {
  scan(bytes);
  if (output_.size() + bytes > limits_.max_output_bytes)
    fail("the template writes more than {} bytes", limits_.max_output_bytes);
  if ((created_bytes_ += bytes) > limits_.max_created_bytes)
    fail("the template creates more than {} bytes of values", limits_.max_created_bytes);
}

void Runtime::emit(std::string_view own) {
  count_output(own.size());
  output_ += own;
}

void Runtime::emit(const TaintedText& text) {
  count_output(text.size());
  created_bytes_ += text.held_bytes() - text.size();
  output_ += text;
}

// ---- statements

TaintedText Runtime::render(const Block& block, const Dict& variables) {
  frame_ = std::make_shared<Frame>();
  frame_->set("self",
              keep(std::make_shared<Namespace>())); // Jinja2 stores blocks here; chat templates have none
  for (const auto& [name, value] : variables.entries) frame_->set(name.string(), value);
  auto inner = std::make_shared<Frame>(); // assignments shadow the given variables
  inner->parent = frame_;
  frame_ = inner;
  run(block);
  return std::move(output_);
}

Runtime::Flow Runtime::run(const Block& block) {
  for (const auto& node : block)
    if (const Flow flow = run(*node); flow != Flow::normal) return flow;
  return Flow::normal;
}

Runtime::Flow Runtime::run(const Statement& node) {
  using Kind = Statement::Kind;
  Deeper deeper(*this);
  spend();
  position_ = node.offset;
  switch (node.kind) {
  case Kind::data: emit(node.text); break;
  case Kind::print: emit(str(eval(*node.expression))); break;
  case Kind::set: assign(*node.target, eval(*node.expression)); break;
  case Kind::set_block: assign(*node.target, through_filters(node.expression.get(), captured(node.body))); break;
  case Kind::condition: return run_condition(node);
  case Kind::loop: run_for(node); break;
  case Kind::macro: {
    std::shared_ptr<Object> macro = std::make_shared<Macro>(node, kept_frame());
    frame_->set(node.text, std::move(macro));
    break;
  }
  case Kind::call: run_call(node); break;
  case Kind::filter: {
    const Value result = through_filters(node.expression.get(), captured(node.body));
    if (!result.is_string()) fail("the filter turns its block into a '{}' instead of text", result.type_name());
    emit(result.text());
    break;
  }
  case Kind::with: run_with(node); break;
  case Kind::evaluate: eval(*node.expression); break;
  case Kind::scope: {
    Scope scope(*this, frame_);
    return run(node.body);
  }
  case Kind::break_loop: return Flow::break_loop;
  case Kind::continue_loop: return Flow::continue_loop;
  }
  return Flow::normal;
}

Runtime::Flow Runtime::run_condition(const Statement& node) {
  for (const auto& [test, body] : node.branches)
    if (!test || eval(*test).truth()) return run(body);
  return Flow::normal;
}

void Runtime::run_for(const Statement& node) {
  const Value iterable = eval(*node.expression);
  position_ = node.offset;
  run_loop(node, iterable, 0);
}

void Runtime::run_loop(const Statement& node, const Value& iterable, int depth) {
  std::shared_ptr<Frame> around = node.is_recursive ? kept_frame() : node.condition ? frame_ : nullptr;
  const List* list = iterable.list();
  const size_t taken = list ? list->consumed : 0;
  auto [items, failure] = drain(iterable);
  const auto loop = std::make_shared<Loop>(node, std::move(around), std::move(items), std::move(failure), depth);
  const Loop::Running running{*loop};
  for (; loop->reach(*this, loop->index); ++loop->index) {
    Scope scope(*this, frame_);
    frame_->set("loop", std::static_pointer_cast<Object>(loop));
    position_ = node.offset;
    assign(*node.target, loop->items[loop->index]);
    if (run(node.body) == Flow::break_loop) {
      if (list && list->kind == List::Kind::generator) { // other users get the remaining items
        list->consumed = taken + loop->consumed_items();
        list->failure = loop->failure;
      }
      return;
    }
  }
  if (loop->items.empty()) {
    Scope scope(*this, frame_);
    run(node.otherwise);
  }
}

void Runtime::run_call(const Statement& node) {
  std::shared_ptr<Object> macro = std::make_shared<Macro>(node, kept_frame());
  const Value caller(std::move(macro));
  emit(str(eval_call(*node.expression, &caller)));
}

void Runtime::run_with(const Statement& node) {
  std::vector<Value> values;
  for (const auto& [target, expression] : node.assignments) values.push_back(eval(*expression));
  Scope scope(*this, frame_);
  for (size_t i = 0; i < values.size(); ++i) assign(*node.assignments[i].first, values[i]);
  run(node.body);
}

Value Runtime::captured(const Block& body) {
  Scope scope(*this, frame_);
  Capture capture(*this);
  run(body);
  return capture.take();
}

Value Runtime::through_filters(const Expression* filters, Value text) {
  if (!filters) return text;
  std::swap(filter_operand_, text);
  Value result = eval(*filters);
  std::swap(filter_operand_, text);
  return result;
}

void Runtime::assign(const Expression& target, const Value& value) {
  switch (target.kind) {
  case Expression::Kind::name: frame_->set(target.text, value); return;
  case Expression::Kind::namespace_attribute: {
    const Value* found = frame_->find(target.text);
    auto* space = found ? dynamic_cast<Namespace*>(found->object().get()) : nullptr;
    position_ = target.offset;
    if (!space) fail("cannot assign attribute on non-namespace object '{}'", target.text);
    spend();
    space->set(target.value.string(), value);
    return;
  }
  default: break;
  }
  const Values items = iterate(value);
  position_ = target.offset;
  if (items.size() != target.parts.size())
    fail("cannot unpack {} values into {} names", items.size(), target.parts.size());
  for (size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i]);
}

} // namespace ridge::text::jinja
