#include "text/calls/call_parser.h"

#include "text/calls/call_pattern.h"
#include "text/calls/call_values.h"
#include "text/calls/text_task.h"
#include "text/json/kept_number.h"
#include "text/white_space.h"

#include <algorithm>

namespace ridge::text {
namespace {

using Json = nlohmann::ordered_json;

std::string quoted_json(std::string_view text) { return "\"" + escape_json(text) + "\""; }

JsonTypes types_of(const Tool& tool, const std::string& key) {
  const auto properties = tool.parameters.find("properties");
  const bool known = properties != tool.parameters.end() && properties->is_object() && properties->contains(key);
  return json_types(known ? (*properties)[key] : Json::object(), tool.parameters);
}

std::string json_of(std::string_view text, JsonTypes types) {
  const std::string_view inner = trim(text);
  Json value = parse_json(inner);
  if (value.is_discarded() && (!types.string || inner == "True" || inner == "False" || inner == "None"))
    value = read_python_value(inner).value_or(Json(Json::value_t::discarded));
  const bool fits = !value.is_discarded() && (value.is_string()       ? types.any() || !types.string
                                              : value.is_structured() ? types.structured
                                              : is_any_number(value)  ? types.number
                                              : value.is_boolean()    ? types.boolean
                                                                      : types.null);
  if (fits) return compact_json(value);
  return quoted_json(text);
}

} // namespace

class CallParser::Reader {
 public:
  Reader(const CallSyntax& syntax, std::vector<Tool> tools, uint64_t id_seed)
      : syntax_(syntax), tools_(std::move(tools)), triggers_(call_triggers(syntax, tools_)), id_seed_(id_seed),
        task_(read()) {
    for (std::string_view end : {syntax.key_open, syntax.call_close}) {
      after_value_.push_back("\n" + std::string(end));
      while (!end.empty()) // models may omit the end of a call, but not the enclosing mark
        for (const std::string_view outer : take_part(end).alternatives)
          if (!outer.empty()) after_value_.push_back("\n" + std::string(outer));
    }
    for (const std::string_view part : {syntax.between, syntax.call_open, std::string_view("$N"), syntax.name_end})
      next_call_ += part;
    if (syntax.arguments == ArgumentForm::json || syntax.arguments == ArgumentForm::gemma) next_call_ += "{";
    waiting_ = task_.handle();
  }

  Piece take(std::string_view text, bool last) {
    const size_t done = mark_.value_or(at_);
    buffer_.erase(0, done);
    at_ -= done;
    if (mark_) mark_ = 0;
    buffer_ += text;
    whole_ = last;
    if (waiting_) std::exchange(waiting_, nullptr).resume();
    if (last) piece_.content += std::exchange(held_space_, {});
    return std::exchange(piece_, {});
  }

 private:
  // Suspends until text arrives, or whole_ is set.
  struct More {
    Reader& reader;
    bool await_ready() const noexcept { return reader.whole_; }
    void await_suspend(std::coroutine_handle<> waiting) noexcept { reader.waiting_ = waiting; }
    void await_resume() const noexcept {}
  };
  More more() { return {*this}; }

  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }

  void say(std::string_view text) {
    const size_t end = text.find_last_not_of(kWhiteSpace) + 1; // white space may belong to a following call
    if (end > 0) {
      piece_.content += held_space_;
      held_space_.clear();
      piece_.content += text.substr(0, end);
      said_ = true;
    }
    held_space_ += text.substr(end);
  }

  TextTask<bool> read() {
    while (true) {
      const bool found = co_await find_trigger();
      if (!found) break;
      const bool calls = co_await read_calls();
      if (calls) continue;
      const auto trigger = std::ranges::find_if(triggers_, [&](const std::string& t) { return rest().starts_with(t); });
      say(*trigger);
      at_ += trigger->size();
    }
    co_return true;
  }

  TextTask<bool> find_trigger() {
    while (true) {
      const std::string_view text = rest();
      size_t first = std::string_view::npos, held = 0;
      for (const std::string& trigger : triggers_) {
        if (!syntax_.at_start) {
          first = std::min(first, text.find(trigger));
          held = std::max(held, partial_mark_bytes(text, trigger));
        } else if (!said_) {
          const size_t space = std::min(text.find_first_not_of(kWhiteSpace), text.size());
          const std::string_view start = text.substr(space);
          if (start.starts_with(trigger)) first = space;
          if (trigger.starts_with(start)) held = start.size();
        }
      }
      const bool found = first != std::string_view::npos;
      const size_t size = found ? first : whole_ ? text.size() : text.size() - held;
      say(text.substr(0, size));
      at_ += size;
      if (found) co_return true;
      if (whole_) co_return false;
      co_await more();
    }
  }

  TextTask<bool> match(std::string_view pattern) {
    while (true) {
      const PatternMatch result = match_pattern(pattern, rest(), whole_);
      if (result.result == PatternMatch::no) co_return false;
      if (result.result == PatternMatch::yes) {
        at_ += result.size;
        if (!result.id.empty()) id_ = result.id;
        co_return true;
      }
      co_await more();
    }
  }

  // Matches a suffix of a call, or its prefix if the text is cut short.
  TextTask<bool> match_end(std::string_view pattern) {
    while (!whole_ && may_begin(pattern)) co_await more();
    if (whole_ && may_begin(pattern)) {
      at_ = buffer_.size();
      co_return true;
    }
    const bool matches = co_await match(pattern);
    co_return matches;
  }
  bool may_begin(std::string_view pattern) const {
    return match_pattern(pattern, rest(), false).result == PatternMatch::more;
  }

  // Start of speculative reading; go_back() returns to it.
  void set_mark() { mark_ = at_; }
  void go_back() { at_ = *std::exchange(mark_, std::nullopt); }

  // From a trigger to the end of the last call. False: no call, nothing consumed.
  TextTask<bool> read_calls() {
    set_mark();
    bool reads = co_await match(syntax_.open);
    if (reads) reads = co_await read_call();
    if (!reads) {
      go_back();
      co_return false;
    }
    while (true) {
      bool closes = false;
      if (!syntax_.close.empty()) closes = co_await match_end(syntax_.close);
      if (closes) co_return true;
      set_mark();
      reads = co_await match(syntax_.between);
      if (reads) reads = co_await read_call();
      if (!reads) {
        go_back();
        if (whole_ && may_begin(next_call_)) at_ = buffer_.size();
        co_return true;
      }
    }
  }

  // False: no call, the mark is still set. A call counts once it has begun, even if cut short.
  TextTask<bool> read_call() {
    id_.clear();
    const bool opens = co_await match(syntax_.call_open);
    if (!opens) co_return false;
    size_t size = 0;
    while (true) {
      const std::string_view text = rest();
      while (size < text.size() && is_name_char(text[size])) ++size;
      if (size < text.size() || whole_ || size > kMaxToolName) break;
      co_await more();
    }
    const std::string name(rest().substr(0, size));
    const auto tool = std::ranges::find(tools_, name, &Tool::name);
    if (tool == tools_.end()) co_return false;
    at_ += size;
    const bool named = co_await match(syntax_.name_end);
    if (!named) co_return false;
    bool closed = false;
    if (syntax_.arguments == ArgumentForm::json) {
      closed = co_await read_json(name);
    } else if (syntax_.arguments == ArgumentForm::tagged) {
      begin(name);
      closed = co_await read_tagged(*tool);
    } else {
      closed = co_await read_at_once(name);
    }
    if (mark_) co_return false;
    if (closed) {
      Delta end{.index = calls_ - 1, .ends = true};
      co_await match_end(syntax_.call_close);
      piece_.calls.push_back(std::move(end));
    } else if (whole_) {
      at_ = buffer_.size();
    }
    co_return true;
  }

  void begin(const std::string& name) {
    mark_.reset();
    held_space_.clear();
    said_ = true;
    Delta delta{.index = calls_, .begins = true, .id = id_, .name = name};
    if (!syntax_.id.empty()) delta.id = write_pattern(syntax_.id, {.name = name, .number = calls_});
    if (delta.id.empty()) delta.id = make_call_id(id_seed_, calls_, syntax_.id_length);
    piece_.calls.push_back(std::move(delta));
    ++calls_;
  }

  void add(std::string_view arguments) {
    if (arguments.empty()) return;
    if (!piece_.calls.empty() && piece_.calls.back().index + 1 == calls_ && !piece_.calls.back().ends)
      piece_.calls.back().arguments += arguments;
    else
      piece_.calls.push_back({.index = calls_ - 1, .arguments = std::string(arguments)});
  }

  TextTask<bool> read_json(std::string name) {
    const bool opens = co_await skip_to('{');
    if (!opens) co_return false;
    begin(name);
    int depth = 0;
    bool in_string = false, escaped = false;
    while (true) {
      const std::string_view text = rest();
      for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
          in_string = escaped || c != '"';
          escaped = !escaped && c == '\\';
          continue;
        }
        in_string = c == '"';
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        if (depth > 0) continue;
        add(text.substr(0, i + 1));
        at_ += i + 1;
        co_return true;
      }
      add(text);
      at_ += text.size();
      if (whole_) co_return false;
      co_await more();
    }
  }

  TextTask<bool> skip_to(char c) {
    while (true) {
      const size_t space = std::min(rest().find_first_not_of(kWhiteSpace), rest().size());
      if (space < rest().size()) {
        if (rest()[space] != c) co_return false;
        at_ += space;
        co_return true;
      }
      if (whole_) co_return false;
      co_await more();
    }
  }

  // Converts complete arguments to JSON. They include Gemma's closing brace, but not Python's parenthesis.
  TextTask<bool> read_at_once(std::string name) {
    const bool gemma = syntax_.arguments == ArgumentForm::gemma;
    bool opens = true;
    if (gemma) opens = co_await skip_to('{');
    if (!opens) co_return false;
    size_t end = std::string_view::npos;
    while (true) {
      end = gemma ? find_gemma_end(rest().substr(1)) : find_python_end(rest());
      if (end != std::string_view::npos) break;
      if (whole_) co_return false;
      co_await more();
    }
    const size_t size = gemma ? end + 2 : end;
    const auto arguments =
        gemma ? read_gemma_arguments(rest().substr(0, size)) : read_python_arguments(rest().substr(0, size));
    if (!arguments) co_return false;
    at_ += size;
    begin(name);
    add(compact_json(*arguments));
    co_return true;
  }

  TextTask<bool> read_tagged(const Tool& tool) {
    const std::string_view close = trim(syntax_.value_close);
    bool first = true;
    while (true) {
      const bool opens = co_await match(syntax_.key_open);
      if (!opens && whole_ && !rest().empty() && may_begin(syntax_.key_open)) co_return false;
      if (!opens) break;
      size_t size = 0;
      while ((size = rest().find(syntax_.key_end[0])) == std::string_view::npos) {
        if (whole_) co_return false;
        co_await more();
      }
      const std::string key(trim(rest().substr(0, size)));
      at_ += size;
      JsonTypes types = types_of(tool, key);
      bool is_text = types.only_string();
      bool ends = co_await match(syntax_.key_end);
      if (ends) {
        is_text |= !syntax_.key_end_other.empty();
      } else {
        if (!syntax_.key_end_other.empty()) ends = co_await match(syntax_.key_end_other);
        if (!ends) co_return false;
        is_text = false;
        types.string = false;
      }
      add((first ? "{" : ", ") + quoted_json(key) + ": ");
      first = false;
      bool closed = false;
      if (is_text)
        closed = co_await read_text(close);
      else
        closed = co_await read_value(close, types);
      if (!closed) co_return false;
      const bool ended = co_await match(syntax_.value_close);
      if (!ended) co_return false;
    }
    add(first ? "{}" : "}");
    co_return true;
  }

  // A closing mark needs the next key or the call's end after it; else it is text.
  struct Close {
    size_t at = std::string_view::npos;
    bool is_certain = false;
  };
  Close find_close(std::string_view text, std::string_view mark, size_t from = 0) const {
    for (size_t at = from; (at = text.find(mark, at)) != std::string_view::npos; ++at) {
      bool may_follow = false;
      for (const std::string& pattern : after_value_) {
        const PatternMatch match = match_pattern(pattern, text.substr(at + mark.size()), false);
        if (match.result == PatternMatch::yes) return {at, true};
        may_follow |= match.result == PatternMatch::more;
      }
      if (may_follow) return {at, whole_};
    }
    return {};
  }

  // Streams a string without one `value_pad` on either side.
  TextTask<bool> read_text(std::string_view close) {
    const std::string_view pad = syntax_.value_pad;
    const std::string end = std::string(pad) + std::string(close);
    if (!pad.empty()) {
      while (rest().size() < pad.size() && !whole_) co_await more();
      if (rest().starts_with(pad)) at_ += pad.size();
    }
    std::string until(close);
    if (syntax_.cdata) {
      while (kCdataOpen.starts_with(rest()) && rest().size() < kCdataOpen.size()) {
        if (whole_) co_return false;
        co_await more();
      }
      if (rest().starts_with(kCdataOpen)) {
        at_ += kCdataOpen.size();
        until.insert(0, kCdataClose);
      }
    }
    add("\"");
    while (true) {
      const std::string_view text = rest();
      const auto [found, is_certain] = find_close(text, until);
      if (is_certain) {
        std::string_view value = text.substr(0, found);
        at_ += found + until.size() - close.size();
        if (!pad.empty() && value.ends_with(pad)) value.remove_suffix(pad.size());
        add(escape_json(value) + "\"");
        co_return true;
      }
      size_t held = std::max(partial_mark_bytes(text, until), partial_mark_bytes(text, end));
      if (found != std::string_view::npos)
        held = text.size() - found + (text.substr(0, found).ends_with(pad) ? pad.size() : 0);
      add(escape_json(text.substr(0, text.size() - held)));
      at_ += text.size() - held;
      if (whole_) co_return false;
      co_await more();
    }
  }

  TextTask<bool> read_value(std::string_view close, JsonTypes types) {
    size_t from = 0; // the value ends at or after it
    Close end;
    while (!(end = find_close(rest(), close, from)).is_certain) {
      if (whole_) co_return false;
      from = std::min(end.at, rest().size() - std::min(rest().size(), close.size() - 1));
      co_await more();
    }
    const size_t found = end.at;
    std::string_view value = rest().substr(0, found);
    const std::string_view pad = syntax_.value_pad;
    if (!pad.empty() && value.starts_with(pad)) value.remove_prefix(pad.size());
    if (!pad.empty() && value.ends_with(pad)) value.remove_suffix(pad.size());
    if (syntax_.cdata && value.starts_with(kCdataOpen) && value.ends_with(kCdataClose)) {
      value.remove_prefix(kCdataOpen.size());
      value.remove_suffix(std::min(value.size(), kCdataClose.size()));
      add(quoted_json(value));
    } else {
      add(json_of(value, types));
    }
    at_ += found;
    co_return true;
  }

  const CallSyntax& syntax_;
  const std::vector<Tool> tools_;
  const std::vector<std::string> triggers_;
  const uint64_t id_seed_;
  std::vector<std::string> after_value_;
  std::string next_call_; // pattern of the next call up to its arguments
  std::string buffer_;
  size_t at_ = 0;
  std::optional<size_t> mark_; // backtrack position
  bool whole_ = false, said_ = false;
  std::string held_space_, id_;
  size_t calls_ = 0;
  Piece piece_;
  std::coroutine_handle<> waiting_;
  TextTask<bool> task_; // last: refers to other members
};

CallParser::CallParser(const CallSyntax& syntax, std::vector<Tool> tools, uint64_t id_seed)
    : reader_(std::make_unique<Reader>(syntax, std::move(tools), id_seed)) {}
CallParser::CallParser(CallParser&&) noexcept = default;
CallParser& CallParser::operator=(CallParser&&) noexcept = default;
CallParser::~CallParser() = default;

CallParser::Piece CallParser::push(std::string_view text) { return reader_->take(text, false); }
CallParser::Piece CallParser::finish() { return reader_->take({}, true); }

std::vector<ToolCall> read_calls(CallParser& parser, std::string_view text, std::string* content) {
  std::vector<ToolCall> calls, whole;
  const auto take = [&](const CallParser::Piece& piece) {
    if (content) *content += piece.content;
    for (const CallParser::Delta& delta : piece.calls) {
      if (delta.begins) calls.push_back({delta.id, delta.name, {}});
      calls[delta.index].arguments += delta.arguments;
      if (delta.ends) whole.push_back(calls[delta.index]);
    }
  };
  take(parser.push(text));
  take(parser.finish());
  return whole;
}

std::vector<std::string> call_triggers(const CallSyntax& syntax, std::span<const Tool> tools) {
  std::vector<std::string> triggers;
  for (const std::string_view trigger : syntax.triggers) {
    if (trigger.empty()) continue;
    if (trigger.find("$N") == trigger.npos) {
      triggers.emplace_back(trigger);
      continue;
    }
    for (const Tool& tool : tools) triggers.push_back(write_pattern(trigger, {.name = tool.name}));
  }
  return triggers;
}

} // namespace ridge::text
