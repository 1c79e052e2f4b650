// Methods of lists, tuples, dicts, numbers.
#include "text/jinja/runtime.h"

#include <algorithm>
#include <cmath>

namespace ridge::text::jinja {

namespace {

// ---- lists and tuples

Value count_items(Runtime& runtime, const Call& call) {
  int64_t count = 0;
  for (const Value& item : call.self.list()->items) count += runtime.equal(item, *call[0]);
  return count;
}

Value index_of(Runtime& runtime, const Call& call) {
  const Values& items = call.self.list()->items;
  const auto size = static_cast<int64_t>(items.size());
  const auto bound = [&](size_t i, int64_t absent) {
    const int64_t index = call.integer(i, absent);
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const int64_t end = bound(2, size);
  for (int64_t i = bound(1, 0); i < end; ++i)
    if (runtime.equal(items[static_cast<size_t>(i)], *call[0])) return i;
  fail("{} is not in list", runtime.repr(*call[0]).bytes());
}

constexpr Builtin kListMethods[] = {
    {"count", "value", count_items},
    {"index", "value start? stop?", index_of},
    {"copy", "", [](Runtime&, const Call& c) { return c.self; }},
    {"append", "", nullptr},
    {"extend", "", nullptr},
    {"insert", "", nullptr},
    {"pop", "", nullptr},
    {"remove", "", nullptr},
    {"reverse", "", nullptr},
    {"sort", "", nullptr},
    {"clear", "", nullptr},
};
constexpr size_t kTupleMethods = 2; // tuples have two: count and index

// ---- dicts

template <List::Kind kind>
Value view(Runtime& runtime, const Call& call) {
  Values items;
  for (const auto& [key, value] : call.self.dict()->entries) {
    if (kind == List::Kind::keys)
      items.push_back(key);
    else if (kind == List::Kind::values)
      items.push_back(value);
    else
      items.push_back(runtime.list({key, value}, List::Kind::tuple));
  }
  return runtime.list(std::move(items), kind);
}

constexpr Builtin kDictMethods[] = {
    {"get", "key default?",
     [](Runtime& r, const Call& c) {
       const Value* found = r.find_key(*c.self.dict(), *c[0]);
       return found ? *found : c[1] ? *c[1] : Value();
     }},
    {"items", "", view<List::Kind::items>},
    {"keys", "", view<List::Kind::keys>},
    {"values", "", view<List::Kind::values>},
    {"copy", "", [](Runtime&, const Call& c) { return c.self; }},
    {"pop", "", nullptr},
    {"popitem", "", nullptr},
    {"setdefault", "", nullptr},
    {"update", "", nullptr},
    {"clear", "", nullptr},
};

// ---- numbers

constexpr Builtin kFloatMethods[] = {
    {"is_integer", "",
     [](Runtime&, const Call& c) -> Value {
       return std::isfinite(c.self.number()) && c.self.number() == std::floor(c.self.number());
     }},
};

} // namespace

const Builtin* find_method(const Value& self, std::string_view name) {
  std::span<const Builtin> table;
  if (self.is_string())
    table = text_methods();
  else if (self.is_dict())
    table = kDictMethods;
  else if (self.kind() == Value::Kind::floating)
    table = kFloatMethods;
  else if (const List* list = self.list(); list && list->kind == List::Kind::list)
    table = kListMethods;
  else if (list && list->is_sequence())
    table = std::span(kListMethods).first(kTupleMethods);
  const auto found = std::find_if(table.begin(), table.end(), [&](const Builtin& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

} // namespace ridge::text::jinja
