#include "text/jinja/runtime.h"

#include "text/jinja/objects.h"

namespace ridge::text::jinja {

using Kind = Expression::Kind;

Value Runtime::eval(const Expression& node) {
  Deeper deeper(*this);
  spend();
  switch (node.kind) {
  case Kind::constant: return node.value;
  case Kind::name: return eval_name(node);
  case Kind::list:
  case Kind::tuple: return eval_parts(node);
  case Kind::dict: return eval_dict(node);
  case Kind::attribute: {
    const Value object = eval(*node.parts[0]);
    position_ = node.offset;
    return attribute(object, node.text);
  }
  case Kind::item: {
    const Value object = eval(*node.parts[0]);
    const Value key = eval(*node.parts[1]);
    position_ = node.offset;
    return item(object, key);
  }
  case Kind::slice: return eval_slice(node);
  case Kind::call: return eval_call(node);
  case Kind::filter: return eval_filter(node);
  case Kind::test: return eval_test(node);
  case Kind::negative:
  case Kind::positive: return eval_negative(node);
  case Kind::logical_not: return !eval(*node.parts[0]).truth();
  case Kind::logical_and: {
    Value left = eval(*node.parts[0]);
    return left.truth() ? eval(*node.parts[1]) : left;
  }
  case Kind::logical_or: {
    Value left = eval(*node.parts[0]);
    return left.truth() ? left : eval(*node.parts[1]);
  }
  case Kind::binary: {
    const Value left = eval(*node.parts[0]);
    const Value right = eval(*node.parts[1]);
    position_ = node.offset;
    return binary(node.text, left, right);
  }
  case Kind::concat: return eval_concat(node);
  case Kind::compare: return eval_compare(node);
  case Kind::conditional:
    if (eval(*node.parts[0]).truth()) return eval(*node.parts[1]);
    if (node.parts[2]) return eval(*node.parts[2]);
    return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
  case Kind::namespace_attribute: break;
  }
  return {};
}

Value Runtime::eval_name(const Expression& node) {
  if (const Value* value = frame_->find(node.text)) return *value;
  if (const Builtin* function = find_function(node.text)) {
    std::shared_ptr<Object> object = std::make_shared<Function>(
        [function](Runtime& runtime, Arguments& arguments) { return (*function)(runtime, Value(), arguments); });
    return object;
  }
  position_ = node.offset;
  return Value::undefined(fmt::format("'{}' is undefined", node.text));
}

Value Runtime::eval_parts(const Expression& node) {
  Values items;
  items.reserve(node.parts.size());
  for (const ExpressionPtr& part : node.parts) items.push_back(eval(*part));
  position_ = node.offset;
  return list(std::move(items), node.kind == Kind::tuple ? List::Kind::tuple : List::Kind::list);
}

Value Runtime::eval_dict(const Expression& node) {
  Dict result;
  for (size_t i = 0; i + 1 < node.parts.size(); i += 2) {
    const Value key = eval(*node.parts[i]);
    const Value value = eval(*node.parts[i + 1]);
    position_ = node.offset;
    set_key(result, key, value);
  }
  return dict(std::move(result));
}

Value Runtime::eval_slice(const Expression& node) {
  const Value object = eval(*node.parts[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i)
    if (node.parts[i + 1]) bounds[i] = eval(*node.parts[i + 1]);
  position_ = node.offset;
  return slice(object, bounds[0], bounds[1], bounds[2]);
}

Arguments Runtime::eval_arguments(const Expression& node) {
  Arguments out;
  for (const Argument& argument : node.arguments) {
    Value value = eval(*argument.value);
    position_ = node.offset;
    switch (argument.kind) {
    case Argument::Kind::positional: out.positional.push_back(std::move(value)); break;
    case Argument::Kind::keyword: out.keyword.emplace_back(argument.name, std::move(value)); break;
    case Argument::Kind::unpacked_list:
      for (Value& item : iterate(value)) out.positional.push_back(std::move(item));
      break;
    case Argument::Kind::unpacked_dict:
      if (!value.is_dict()) fail("argument after ** must be a mapping, not {}", value.type_name());
      for (const auto& [key, item] : value.dict()->entries) {
        if (!key.is_string()) fail("keywords must be strings");
        out.keyword.emplace_back(key.string(), item);
      }
      break;
    }
  }
  for (size_t i = 0; i < out.keyword.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      spend();
      if (out.keyword[i].first == out.keyword[j].first) fail("keyword argument repeated: {}", out.keyword[i].first);
    }
  return out;
}

Value Runtime::eval_call(const Expression& node, const Value* caller) {
  const Value callee = eval(*node.parts[0]);
  Arguments arguments = eval_arguments(node);
  if (caller) arguments.keyword.emplace_back("caller", *caller);
  position_ = node.offset;
  return call(callee, arguments);
}

Value Runtime::eval_filter(const Expression& node) {
  const Value operand = node.parts[0] ? eval(*node.parts[0]) : filter_operand_;
  Arguments arguments = eval_arguments(node);
  position_ = node.offset;
  return apply_filter(node.text, operand, arguments);
}

Value Runtime::eval_test(const Expression& node) {
  const Value operand = eval(*node.parts[0]);
  Arguments arguments = eval_arguments(node);
  position_ = node.offset;
  return apply_test(node.text, operand, arguments);
}

Value Runtime::eval_concat(const Expression& node) { // the result is no markup
  TaintedText joined;
  for (const ExpressionPtr& part : node.parts) {
    const Value value = eval(*part);
    position_ = node.offset;
    joined += str(value);
    allow(joined.size());
  }
  return text(std::move(joined));
}

Value Runtime::eval_compare(const Expression& node) {
  Value left = eval(*node.parts[0]);
  for (size_t i = 0; i < node.operators.size(); ++i) {
    Value right = eval(*node.parts[i + 1]);
    position_ = node.offset;
    const std::string& op = node.operators[i];
    bool holds;
    if (op == "==" || op == "!=")
      holds = equal(left, right) == (op == "==");
    else if (op == "in" || op == "not in")
      holds = contains(right, left) == (op == "in");
    else if (op == "<")
      holds = order(left, right, op) < 0;
    else if (op == "<=")
      holds = order(left, right, op) <= 0;
    else if (op == ">")
      holds = order(left, right, op) > 0;
    else
      holds = order(left, right, op) >= 0;
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Runtime::eval_negative(const Expression& node) {
  const Value operand = eval(*node.parts[0]);
  position_ = node.offset;
  if (operand.is_undefined()) fail("{}", operand.why_undefined());
  if (!operand.is_number())
    fail("bad operand type for unary {}: '{}'", node.kind == Kind::negative ? '-' : '+', operand.type_name());
  if (node.kind == Kind::positive) return operand.is_bool() ? Value(operand.integer()) : operand;
  if (!operand.is_integer()) return -operand.number();
  return binary("-", Value(int64_t{0}), operand);
}

Value Runtime::call(const Value& callee, Arguments& arguments) {
  if (callee.is_undefined()) fail("{}", callee.why_undefined());
  const auto object = callee.object();
  if (!object || !object->is_callable()) fail("'{}' object is not callable", callee.type_name());
  Deeper deeper(*this);
  return object->call(*this, arguments);
}

Value Runtime::apply_filter(const std::string& name, const Value& operand, Arguments& arguments) {
  const Builtin* filter = find_filter(name);
  if (!filter) fail("no filter named '{}'", name);
  Deeper deeper(*this);
  return (*filter)(*this, operand, arguments);
}

bool Runtime::apply_test(const std::string& name, const Value& operand, Arguments& arguments) {
  const Builtin* test = find_test(name);
  if (!test) fail("no test named '{}'", name);
  Deeper deeper(*this);
  return (*test)(*this, operand, arguments).truth();
}

} // namespace ridge::text::jinja
