#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

#include <algorithm>

namespace ridge::text::jinja {

namespace {

// A generator of the items that `add` makes, up to the first failure.
template <typename Add>
Value generator_of(Runtime& runtime, const Value& source, const Add& add) {
  Values out;
  std::shared_ptr<const Problem> failure;
  try {
    auto [items, behind] = runtime.drain(source);
    failure = std::move(behind);
    for (const Value& item : items) add(item, out);
  } catch (const Problem& problem) {
    failure = std::make_shared<const Problem>(problem);
  }
  return runtime.generator(std::move(out), std::move(failure));
}

// Sorting and grouping ignore case by default.
Value folded(Runtime& runtime, Value value, bool case_sensitive) {
  return value.is_string() && !case_sensitive
             ? runtime.text(TaintedText(lower(value.string()), value.text().has_data()))
             : value;
}

Value attribute_of(const Call& call, size_t i) { return call[i] ? *call[i] : Value(); }

Values sorted(Runtime& runtime, const Values& items, const Values& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // Comparisons may throw; std::stable_sort only moves indices, so no item is lost.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return (reverse ? runtime.order(keys[b], keys[a]) : runtime.order(keys[a], keys[b])) < 0;
  });
  Values out;
  out.reserve(items.size());
  for (const size_t i : order) out.push_back(items[i]);
  return out;
}

Value sort(Runtime& runtime, const Call& call) {
  const bool case_sensitive = call.truth(1, false);
  const Values items = runtime.iterate(call.self);
  const Value attribute = attribute_of(call, 2);
  std::vector<Value> paths{attribute};
  if (attribute.is_string()) {
    paths.clear();
    for (const std::string_view part : split(attribute.string(), ",", -1, false)) paths.emplace_back(part);
  }
  Values keys;
  for (const Value& item : items) {
    Values parts;
    for (const Value& path : paths) parts.push_back(folded(runtime, runtime.path(item, path), case_sensitive));
    keys.push_back(runtime.list(std::move(parts)));
  }
  return runtime.list(sorted(runtime, items, keys, call.truth(0, false)));
}

Value dictsort(Runtime& runtime, const Call& call) {
  if (!call.self.is_dict()) fail("dictsort: expected a mapping, got '{}'", call.self.type_name());
  const std::string by = call[1] ? runtime.str(*call[1]).bytes() : "key";
  if (by != "key" && by != "value") fail("dictsort: you can only sort by either \"key\" or \"value\"");
  Values items, keys;
  for (const auto& [key, value] : call.self.dict()->entries) {
    items.push_back(runtime.list({key, value}, List::Kind::tuple));
    keys.push_back(folded(runtime, by == "key" ? key : value, call.truth(0, false)));
  }
  return runtime.list(sorted(runtime, items, keys, call.truth(2, false)));
}

Value extreme(Runtime& runtime, const Call& call, bool is_max) {
  const bool case_sensitive = call.truth(0, false);
  const Values items = runtime.iterate(call.self);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = folded(runtime, runtime.path(items[0], attribute_of(call, 1)), case_sensitive);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = folded(runtime, runtime.path(items[i], attribute_of(call, 1)), case_sensitive);
    const auto order = runtime.order(key, best_key);
    if (is_max ? order > 0 : order < 0) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value unique(Runtime& runtime, const Call& call) {
  Dict seen;
  return generator_of(runtime, call.self, [&](const Value& item, Values& out) {
    const Value key = folded(runtime, runtime.path(item, attribute_of(call, 1)), call.truth(0, false));
    if (runtime.find_key(seen, key)) return;
    runtime.set_key(seen, key, Value());
    out.push_back(item);
  });
}

Value groupby(Runtime& runtime, const Call& call) {
  const bool case_sensitive = call.truth(2, false);
  const Values items = runtime.iterate(call.self);
  Values keys;
  const auto key_of = [&](const Value& item) {
    Value key = runtime.path(item, *call[0]);
    return key.is_undefined() && call.has(1) ? *call[1] : key;
  };
  for (const Value& item : items) keys.push_back(folded(runtime, key_of(item), case_sensitive));
  Values numbers;
  for (size_t i = 0; i < items.size(); ++i) numbers.push_back(Value(static_cast<int64_t>(i)));
  Values groups, group;
  Value group_key;
  const auto flush = [&] {
    if (group.empty()) return;
    const Value key = key_of(group[0]);
    groups.push_back(runtime.list({key, runtime.list(std::exchange(group, {}))}, List::Kind::tuple));
  };
  for (const Value& number : sorted(runtime, numbers, keys, false)) {
    const auto i = static_cast<size_t>(number.integer());
    if (!group.empty() && !runtime.equal(group_key, keys[i])) flush();
    group_key = keys[i];
    group.push_back(items[i]);
  }
  flush();
  return runtime.list(std::move(groups));
}

Value map(Runtime& runtime, const Call& call) {
  if (!call.self.truth()) return runtime.generator({}); // Jinja2: falsy values are empty
  Arguments arguments = call.rest;
  if (arguments.positional.empty()) {
    Value attribute, absent;
    bool has_attribute = false;
    for (const auto& [name, value] : arguments.keyword) {
      if (name == "attribute")
        attribute = value, has_attribute = true;
      else if (name == "default")
        absent = value;
      else
        fail("map: unexpected keyword argument '{}'", name);
    }
    if (!has_attribute) fail("map requires a filter argument");
    return generator_of(runtime, call.self, [&](const Value& item, Values& out) {
      Value value = runtime.path(item, attribute);
      out.push_back(value.is_undefined() && !absent.is_none() ? absent : std::move(value));
    });
  }
  const std::string name = runtime.str(arguments.positional[0]).bytes();
  arguments.positional.erase(arguments.positional.begin());
  return generator_of(runtime, call.self, [&](const Value& item, Values& out) {
    Arguments copy = arguments;
    out.push_back(runtime.apply_filter(name, item, copy));
  });
}

Value selected(Runtime& runtime, const Call& call, bool by_attribute, bool wanted) {
  if (!call.self.truth()) return runtime.generator({});
  Arguments arguments = call.rest;
  Values& given = arguments.positional;
  Value attribute;
  if (by_attribute) {
    if (given.empty()) fail("missing parameter for attribute name");
    attribute = given[0];
    given.erase(given.begin());
  }
  std::optional<std::string> test;
  if (!given.empty()) {
    test = runtime.str(given[0]).bytes();
    given.erase(given.begin());
  }
  return generator_of(runtime, call.self, [&](const Value& item, Values& out) {
    const Value value = runtime.path(item, attribute);
    Arguments copy = arguments;
    if ((test ? runtime.apply_test(*test, value, copy) : value.truth()) == wanted) out.push_back(item);
  });
}

Value join(Runtime& runtime, const Call& call) {
  const Value separator = call[0] ? *call[0] : Value("");
  const TaintedText between = runtime.str(separator);
  TaintedText out;
  const char* none = nullptr;
  for (const Value& item : runtime.iterate(call.self)) {
    if (none) out += between;
    none = "";
    out += runtime.str(runtime.path(item, attribute_of(call, 1)));
    runtime.allow(out.size());
  }
  return runtime.text(std::move(out));
}

Value sum(Runtime& runtime, const Call& call) {
  Value total = call[1] ? *call[1] : Value(int64_t{0});
  if (total.is_string()) fail("sum() can't sum strings: use join");
  for (const Value& item : runtime.iterate(call.self))
    total = runtime.binary("+", total, runtime.path(item, attribute_of(call, 0)));
  return total;
}

Value reverse(Runtime& runtime, const Call& call) {
  if (call.self.is_string()) {
    const TaintedText& text = call.self.text();
    const std::vector<size_t> offsets = code_point_offsets(text.bytes());
    TaintedText out;
    for (size_t i = offsets.size() - 1; i > 0; --i) out.append(text, offsets[i - 1], offsets[i] - offsets[i - 1]);
    return runtime.text(std::move(out), call.self.is_markup());
  }
  Values items = runtime.iterate(call.self);
  std::reverse(items.begin(), items.end());
  return runtime.generator(std::move(items));
}

Value last(Runtime& runtime, const Call& call) {
  if (call.self.list() && call.self.list()->kind == List::Kind::generator) fail("'generator' object is not reversible");
  if (call.self.is_string()) return runtime.item(call.self, Value(int64_t{-1}));
  const Values items = runtime.iterate(call.self);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

// Consumes one item.
Value first(Runtime& runtime, const Call& call) {
  return runtime.next(call.self).value_or(Value::undefined("No first item, sequence was empty."));
}

Value batch(Runtime& runtime, const Call& call) {
  const int64_t size = call.integer(0, 0);
  Values rows, row;
  for (const Value& item : runtime.iterate(call.self)) {
    if (static_cast<int64_t>(row.size()) == size) rows.push_back(runtime.list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    if (call.has(1) && static_cast<int64_t>(row.size()) < size) {
      size_t bytes;
      runtime.allow(__builtin_mul_overflow(static_cast<size_t>(size), sizeof(Value), &bytes) ? SIZE_MAX : bytes);
      row.resize(static_cast<size_t>(size), *call[1]);
    }
    rows.push_back(runtime.list(std::move(row)));
  }
  return runtime.generator(std::move(rows));
}

Value slice(Runtime& runtime, const Call& call) {
  const Values items = runtime.iterate(call.self);
  const int64_t slices = call.integer(0, 0);
  if (slices == 0) fail("integer division or modulo by zero");
  if (slices > kMaxRange) fail("slice: at most {} slices", kMaxRange);
  Values out;
  size_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t size = static_cast<int64_t>(items.size());
    const bool has_extra = i < size % slices;
    const auto count = static_cast<size_t>(size / slices + has_extra);
    Values part(items.begin() + static_cast<std::ptrdiff_t>(at),
                items.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
    if (call.has(1) && !has_extra) part.push_back(*call[1]);
    out.push_back(runtime.list(std::move(part)));
  }
  return runtime.generator(std::move(out));
}

Value items(Runtime& runtime, const Call& call) {
  Values out;
  if (!call.self.is_undefined() && !call.self.is_dict()) fail("Can only get item pairs from a mapping.");
  if (call.self.is_dict())
    for (const auto& [key, value] : call.self.dict()->entries)
      out.push_back(runtime.list({key, value}, List::Kind::tuple));
  return runtime.generator(std::move(out));
}

Value default_value(Runtime&, const Call& call) {
  if (!call.self.is_undefined() && !(call.truth(1, false) && !call.self.truth())) return call.self;
  return call[0] ? *call[0] : Value("");
}

Value length(Runtime& runtime, const Call& call) { return runtime.length(call.self); }

constexpr Builtin kSequenceFilters[] = {
    {"default", "default_value? boolean?", default_value},
    {"d", "default_value? boolean?", default_value},
    {"length", "", length},
    {"count", "", length},
    {"first", "", first},
    {"last", "", last},
    {"list", "", [](Runtime& r, const Call& c) { return r.list(r.iterate(c.self)); }},
    {"join", "d? attribute?", join},
    {"map", "* **", map},
    {"select", "* **", [](Runtime& r, const Call& c) { return selected(r, c, false, true); }},
    {"reject", "* **", [](Runtime& r, const Call& c) { return selected(r, c, false, false); }},
    {"selectattr", "* **", [](Runtime& r, const Call& c) { return selected(r, c, true, true); }},
    {"rejectattr", "* **", [](Runtime& r, const Call& c) { return selected(r, c, true, false); }},
    {"sort", "reverse? case_sensitive? attribute?", sort},
    {"dictsort", "case_sensitive? by? reverse?", dictsort},
    {"unique", "case_sensitive? attribute?", unique},
    {"groupby", "attribute default? case_sensitive?", groupby},
    {"min", "case_sensitive? attribute?", [](Runtime& r, const Call& c) { return extreme(r, c, false); }},
    {"max", "case_sensitive? attribute?", [](Runtime& r, const Call& c) { return extreme(r, c, true); }},
    {"sum", "attribute? start?", sum},
    {"reverse", "", reverse},
    {"batch", "linecount fill_with?", batch},
    {"slice", "slices fill_with?", slice},
    {"items", "", items},
    {"attr", "name", [](Runtime& r, const Call& c) { return r.attribute(c.self, r.str(*c[0]).bytes(), false); }},
};

} // namespace

std::span<const Builtin> sequence_filters() { return kSequenceFilters; }

} // namespace ridge::text::jinja
