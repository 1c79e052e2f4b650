// Items, length, attributes, subscripts, slices.
#include "text/jinja/integers.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

#include <algorithm>

namespace ridge::text::jinja {

namespace {

struct BoundMethod : Object {
  Value self;
  const Builtin* method;
  BoundMethod(Value self, const Builtin* method) : self(std::move(self)), method(method) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  Value call(Runtime& runtime, Arguments& arguments) override { return (*method)(runtime, self, arguments); }
};

size_t key_bytes(const Value& key) {
  if (key.is_string()) return key.string().size();
  size_t bytes = 16;
  if (const List* list = key.list(); list && list->kind != List::Kind::list)
    for (const Value& item : list->items) bytes += key_bytes(item);
  return bytes;
}

} // namespace

std::pair<Values, std::shared_ptr<const Problem>> Runtime::drain(const Value& value) {
  const List* list = value.list();
  if (!list || list->kind != List::Kind::generator) return {iterate(value), nullptr};
  scan(list->items.size() * sizeof(Value));
  const size_t begin = std::exchange(list->consumed, list->items.size());
  return {Values(list->items.begin() + static_cast<std::ptrdiff_t>(begin), list->items.end()),
          std::exchange(list->failure, nullptr)};
}

std::optional<Value> Runtime::next(const Value& value) {
  const List* list = value.list();
  if (list && list->kind == List::Kind::generator) {
    if (list->consumed < list->items.size()) return list->items[list->consumed++];
    if (const auto failure = std::exchange(list->failure, nullptr)) throw Problem(*failure);
    return std::nullopt;
  }
  const Values items = iterate(value);
  return items.empty() ? std::nullopt : std::optional(items.front());
}

Values Runtime::iterate(const Value& value) {
  if (value.is_undefined()) return {};
  if (const List* list = value.list()) {
    if (list->kind == List::Kind::generator) {
      auto [items, failure] = drain(value);
      if (failure) throw Problem(*failure);
      return std::move(items);
    }
    scan(list->items.size() * sizeof(Value));
    return list->items;
  }
  Values items;
  if (const Dict* dict = value.dict()) {
    scan(dict->entries.size() * sizeof(Value));
    for (const auto& [key, item] : dict->entries) items.push_back(key);
    return items;
  }
  if (value.is_string()) {
    const std::string_view bytes = value.string();
    allow(bytes.size() * sizeof(Value));
    spend(static_cast<int64_t>(bytes.size()));
    for (size_t at = 0; at < bytes.size(); at += decode_at(bytes, at).bytes)
      items.push_back(value.text().part(bytes.substr(at, decode_at(bytes, at).bytes)));
    return items;
  }
  fail("'{}' object is not iterable", value.type_name());
}

int64_t Runtime::length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_string()) {
    scan(value.string().size());
    return static_cast<int64_t>(code_point_count(value.string()));
  }
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  if (const List* list = value.list(); list && list->kind != List::Kind::generator)
    return static_cast<int64_t>(list->items.size());
  fail("object of type '{}' has no len()", value.type_name());
}

const Value* Runtime::find_key(const Dict& dict, const Value& key) {
  scan(key_bytes(key));
  return dict.find(key);
}

void Runtime::set_key(Dict& dict, const Value& key, const Value& value) {
  scan(2 * key_bytes(key));
  dict.set(key, value);
}

Value Runtime::attribute(const Value& object, const std::string& name, bool keys) {
  scan(name.size());
  if (object.is_undefined()) fail("{}", object.why_undefined());
  if (const Builtin* method = find_method(object, name)) {
    if (!method->run)
      return Value::undefined(
          fmt::format("access to attribute '{}' of '{}' object is unsafe", name, object.type_name()));
    std::shared_ptr<Object> bound = std::make_shared<BoundMethod>(object, method);
    return bound;
  }
  if (const auto pointer = object.object())
    if (std::optional<Value> value = pointer->attribute(*this, name)) return std::move(*value);
  if (const Dict* dict = keys ? object.dict() : nullptr)
    if (const Value* value = dict->find(std::string_view(name))) return *value;
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", object.type_name(), name));
}

Value Runtime::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail("{}", object.why_undefined());
  const List* list = object.list();
  if (key.is_integral() && ((list && list->is_sequence()) || object.is_string())) {
    const int64_t size = length(object);
    const int64_t index = key.integer() < 0 ? key.integer() + size : key.integer();
    if (index < 0 || index >= size)
      return Value::undefined(fmt::format("{} object has no element {}", object.type_name(), key.integer()));
    if (list) return list->items[static_cast<size_t>(index)];
    return slice(object, Value(index), Value(index + 1), Value());
  }
  if (const Dict* dict = object.dict();
      dict && !(key.list() && key.list()->kind != List::Kind::tuple) && !key.is_dict())
    if (const Value* value = find_key(*dict, key)) return *value;
  if (key.is_string()) return attribute(object, key.string());
  return Value::undefined(fmt::format("{} object has no element {}", object.type_name(), repr(key).bytes()));
}

Value Runtime::path(const Value& object, const Value& attribute) {
  if (attribute.is_none()) return object;
  if (!attribute.is_string()) return item(object, attribute);
  Value value = object;
  for (const std::string_view part : split(attribute.string(), ".", -1, false)) {
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == part.npos && part.size() < 18;
    value = item(value, is_number ? *parse_integer(part, 10) : Value(part));
  }
  return value;
}

Value Runtime::slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) fail("{}", object.why_undefined());
  const List* items = object.list();
  if (!(items && items->is_sequence()) && !object.is_string()) fail("'{}' object cannot be sliced", object.type_name());
  for (const Value* bound : {&start, &stop, &step})
    if (!bound->is_none() && !bound->is_integral()) {
      if (bound->is_undefined()) fail("{}", bound->why_undefined());
      fail("slice indices must be integers or None");
    }
  const int64_t size = length(object);
  const int64_t stride = step.is_none() ? 1 : step.integer();
  if (stride == 0) fail("slice step cannot be zero");
  const auto bound = [&](const Value& value, int64_t absent) {
    if (value.is_none()) return absent;
    const int64_t index = value.integer() < 0 ? value.integer() + size : value.integer();
    return std::clamp(index, stride > 0 ? int64_t{0} : int64_t{-1}, stride > 0 ? size : size - 1);
  };
  const int64_t first = bound(start, stride > 0 ? 0 : size - 1);
  const int64_t end = bound(stop, stride > 0 ? size : -1);
  std::vector<size_t> picked;
  if (object.is_string() && stride == 1) {
    const std::string_view bytes = object.string();
    if (first >= end) return text({}, object.is_markup());
    size_t from = 0, to;
    int64_t count = 0;
    while (count < first) from += decode_at(bytes, from).bytes, ++count;
    for (to = from; count < end; ++count) to += decode_at(bytes, to).bytes;
    return text(object.text().part(bytes.substr(from, to - from)), object.is_markup());
  }
  for (int64_t i = first; stride > 0 ? i < end : i > end;) {
    picked.push_back(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  spend(static_cast<int64_t>(picked.size()));
  if (items) {
    Values out;
    out.reserve(picked.size());
    for (const size_t i : picked) out.push_back(items->items[i]);
    return list(std::move(out), items->kind);
  }
  const std::vector<size_t> offsets = code_point_offsets(object.string());
  TaintedText out;
  for (const size_t i : picked) out.append(object.text(), offsets[i], offsets[i + 1] - offsets[i]);
  return text(std::move(out), object.is_markup());
}

} // namespace ridge::text::jinja
