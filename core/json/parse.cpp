#include "core/json/parse.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ridge::core {
namespace {

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw JsonError(fmt::format(format, std::forward<Args>(args)...));
}

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Replaces numbers out of range, which nlohmann's parser rejects.
constexpr std::string_view kStandIn = "9e99";

// Replaces such numbers by kStandIn and spaces, so that offsets stay; `written` has the originals.
class Readable {
 public:
  explicit Readable(std::string_view text) : text_(text) {
    for (size_t at = 0; at < text.size();) {
      if (text[at] == '"')
        at = end_of_string(at);
      else if (text[at] == '-' || is_digit(text[at]))
        at = take_number(at);
      else
        ++at;
    }
  }

  std::string_view text() const { return changed_.empty() ? text_ : changed_; }
  std::vector<std::string_view> written;

 private:
  size_t end_of_string(size_t at) const {
    for (++at; at < text_.size() && text_[at] != '"'; ++at)
      if (text_[at] == '\\') ++at;
    return std::min(at + 1, text_.size());
  }

  size_t take_number(size_t at) {
    const size_t begin = at;
    const auto digits = [&] {
      const size_t first = at;
      while (at < text_.size() && is_digit(text_[at])) ++at;
      return at > first;
    };
    at += text_[at] == '-';
    bool valid = digits(), whole = true;
    if (at < text_.size() && text_[at] == '.') {
      ++at;
      valid &= digits();
      whole = false;
    }
    if (at < text_.size() && (text_[at] == 'e' || text_[at] == 'E')) {
      ++at;
      if (at < text_.size() && (text_[at] == '+' || text_[at] == '-')) ++at;
      valid &= digits();
      whole = false;
    }
    const std::string_view number = text_.substr(begin, at - begin);
    const size_t leading = number[0] == '-';
    valid &= number.size() <= leading + 1 || number[leading] != '0' || !is_digit(number[leading + 1]);
    if (valid && (number == kStandIn || !(whole ? fits_integer(number) : fits_double(number)))) keep(begin, number);
    return at;
  }

  static bool fits_integer(std::string_view number) {
    int64_t low = 0;
    uint64_t high = 0;
    const char *begin = number.data(), *end = begin + number.size();
    return std::from_chars(begin, end, low).ec == std::errc() || std::from_chars(begin, end, high).ec == std::errc();
  }
  static bool fits_double(std::string_view number) {
    return std::isfinite(std::strtod(std::string(number).c_str(), nullptr));
  }

  void keep(size_t begin, std::string_view number) {
    written.push_back(number);
    if (number == kStandIn) return;
    if (changed_.empty()) changed_ = text_;
    changed_.replace(begin, number.size(), std::string(kStandIn) + std::string(number.size() - kStandIn.size(), ' '));
  }

  const std::string_view text_;
  std::string changed_; // empty: nothing replaced
};

// A SAX handler. Json::parse is quadratic: it searches the members of ordered objects and, with a callback, the
// elements of lists.
template <typename Json>
class Builder {
 public:
  Json root;

  Builder(const JsonLimits& limits, const std::vector<std::string_view>& written)
      : limits_(limits), written_(written) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value, const std::string& text) {
    if (!limits_.exact_numbers || text != kStandIn) return put(value);
    const std::string_view own = written_[next_written_++];
    if (own == kStandIn) return put(value);
    return put(Json::binary(typename Json::binary_t::container_type(own.begin(), own.end())));
  }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(typename Json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool key(std::string& name) {
    std::vector<Member>& members = open_.back().members;
    if (kIsOrdered && members.size() == limits_.members)
      refuse("has an object with more than {} members", limits_.members);
    members.emplace_back(std::move(name), nullptr);
    return true;
  }
  bool end_object() {
    std::vector<Member>& members = open_.back().members;
    auto& object = open_.back().value.template get_ref<typename Json::object_t&>();
    if constexpr (kIsOrdered) {
      join_same(members);
      object.reserve(members.size());
      for (Member& member : members) object.emplace_back(std::move(member.first), std::move(member.second));
    } else {
      for (Member& member : members) object.insert_or_assign(std::move(member.first), std::move(member.second));
    }
    return end_array();
  }
  bool end_array() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }
  [[noreturn]] bool parse_error(size_t byte, const std::string&, const typename Json::exception& error) {
    if (dynamic_cast<const typename Json::out_of_range*>(&error)) refuse("contains a number that is too large");
    refuse("is not valid JSON: error at byte {}", byte);
  }

 private:
  static constexpr bool kIsOrdered = std::is_same_v<Json, nlohmann::ordered_json>;
  using Member = std::pair<std::string, Json>;
  struct Open {
    Json value; // objects get members at their end
    std::vector<Member> members;
  };

  bool open(Json empty) {
    if (open_.size() == limits_.depth) refuse("nests deeper than {} levels", limits_.depth);
    if (++containers_ > limits_.containers) refuse("has more than {} objects and arrays", limits_.containers);
    open_.push_back({std::move(empty), {}});
    return true;
  }
  bool put(Json value) {
    if (open_.empty())
      root = std::move(value);
    else if (open_.back().value.is_array())
      open_.back().value.template get_ref<typename Json::array_t&>().push_back(std::move(value));
    else
      open_.back().members.back().second = std::move(value);
    return true;
  }
  static void join_same(std::vector<Member>& members) {
    if (members.size() < 2) return;
    std::vector<Member*> order;
    for (Member& member : members) order.push_back(&member);
    std::ranges::sort(order, [](const Member* a, const Member* b) {
      const int difference = a->first.compare(b->first);
      return difference != 0 ? difference < 0 : a < b;
    });
    for (size_t i = order.size(); i-- > 1;)
      if (order[i - 1]->first == order[i]->first)
        order[i - 1]->second = std::exchange(order[i]->second, Json(Json::value_t::discarded));
    std::erase_if(members, [](const Member& member) { return member.second.is_discarded(); });
  }

  const JsonLimits& limits_;
  const std::vector<std::string_view>& written_;
  size_t next_written_ = 0;
  std::vector<Open> open_; // innermost last
  size_t containers_ = 0;
};

} // namespace

template <typename Json>
Json parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) refuse("has {} bytes, expected at most {}", text.size(), limits.bytes);
  const Readable readable(limits.exact_numbers ? text : "");
  if (limits.exact_numbers) text = readable.text();
  Builder<Json> builder(limits, readable.written);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder.root);
}

template <typename Json>
Json parse_json(std::string_view text, std::string_view label, const JsonLimits& limits) try {
  return parse_json<Json>(text, limits);
} catch (const JsonError& error) {
  throw JsonError(fmt::format("{}: {}", label, error.what()));
}

template <typename Json>
std::optional<Json> find_json(std::string_view text, const JsonLimits& limits) try {
  return parse_json<Json>(text, limits);
} catch (const JsonError&) {
  return std::nullopt;
}

template nlohmann::json parse_json(std::string_view, const JsonLimits&);
template nlohmann::json parse_json(std::string_view, std::string_view, const JsonLimits&);
template std::optional<nlohmann::json> find_json(std::string_view, const JsonLimits&);
template nlohmann::ordered_json parse_json(std::string_view, const JsonLimits&);
template nlohmann::ordered_json parse_json(std::string_view, std::string_view, const JsonLimits&);
template std::optional<nlohmann::ordered_json> find_json(std::string_view, const JsonLimits&);

} // namespace ridge::core
