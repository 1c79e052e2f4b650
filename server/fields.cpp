#include "server/fields.h"

#include "server/api_error.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ridge::server {
namespace {

constexpr size_t kDeepest = 64;           // levels of JSON: recursive code must not run out of stack
constexpr size_t kMostMembers = 10'000;   // of an object, whose members are searched one by one
constexpr size_t kMostInside = 2'000'000; // objects and lists of a body: each is a piece of memory

// Builds what Json::parse would, in a time that grows with the text's length alone. Json::parse searches an object's
// members for each further one and, with a callback, a list's elements for each object in it.
class Builder {
 public:
  Json root;

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; } // not of JSON
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool key(std::string& name) {
    std::vector<Member>& members = open_.back().members;
    if (members.size() == kMostMembers)
      throw_invalid("", "the body has an object of more than {} members", kMostMembers);
    members.emplace_back(std::move(name), nullptr);
    return true;
  }
  bool end_object() {
    std::vector<Member>& members = open_.back().members;
    join_same(members);
    auto& object = open_.back().value.get_ref<Json::object_t&>();
    object.reserve(members.size());
    for (Member& member : members) object.emplace_back(std::move(member.first), std::move(member.second));
    return end_array();
  }
  bool end_array() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }
  [[noreturn]] bool parse_error(size_t byte, const std::string&, const Json::exception& error) {
    if (dynamic_cast<const Json::out_of_range*>(&error)) throw_invalid("", "the body has a number that is too large");
    throw_invalid("", "the body is no JSON: at byte {}", byte);
  }

 private:
  using Member = std::pair<std::string, Json>;
  struct Open {
    Json value; // a list; or an object, which has its members at its end
    std::vector<Member> members;
  };

  bool open(Json empty) {
    if (open_.size() == kDeepest) throw_invalid("", "the body nests deeper than {} levels", kDeepest);
    if (++inside_ > kMostInside) throw_invalid("", "the body has more than {} objects and lists", kMostInside);
    open_.push_back({std::move(empty), {}});
    return true;
  }
  bool put(Json value) {
    if (open_.empty())
      root = std::move(value);
    else if (open_.back().value.is_array())
      open_.back().value.get_ref<Json::array_t&>().push_back(std::move(value));
    else
      open_.back().members.back().second = std::move(value);
    return true;
  }
  // Of members of one name the first one stays, with the value of the last.
  static void join_same(std::vector<Member>& members) {
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

  std::vector<Open> open_; // the innermost last
  size_t inside_ = 0;
};

} // namespace

Json parse_body(const std::string& body) {
  Builder builder;
  Json::sax_parse(body, &builder);
  if (!builder.root.is_object()) throw_invalid("", "the body is no JSON object");
  return std::move(builder.root);
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) throw_invalid(path_, "{}: expected an object", path_);
}

std::string Fields::path_of(const char* name) const { return path_.empty() ? name : path_ + "." + name; }

const Json* Fields::find(const char* name) const {
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

const Json& Fields::required(const char* name) const {
  const Json* value = find(name);
  if (!value) throw_invalid(path_of(name), "{} is missing", path_of(name));
  return *value;
}

std::optional<bool> Fields::flag(const char* name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw_invalid(path_of(name), "{}: expected true or false", path_of(name));
  return value->get<bool>();
}

std::optional<double> Fields::number(const char* name, double lowest, double highest) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= lowest && value->get<double>() <= highest))
    throw_invalid(path_of(name), "{}: expected a number from {} to {}", path_of(name), lowest, highest);
  return value->get<double>();
}

std::optional<int64_t> Fields::integer(const char* name, int64_t lowest, int64_t highest) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const double approximate = value->is_number() ? value->get<double>() : NAN; // 10.0 is a whole number too
  if (!(approximate >= static_cast<double>(lowest) && approximate <= static_cast<double>(highest)) ||
      approximate != std::floor(approximate))
    throw_invalid(path_of(name), "{}: expected a whole number from {} to {}", path_of(name), lowest, highest);
  return value->get<int64_t>();
}

std::optional<std::string> Fields::text(const char* name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) throw_invalid(path_of(name), "{}: expected a string", path_of(name));
  return value->get<std::string>();
}

std::vector<std::string> Fields::texts(const char* name, size_t most) const {
  const Json* value = find(name);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  const auto is_text = [](const Json& one) { return one.is_string(); };
  if (!value->is_array() || value->size() > most || !std::ranges::all_of(*value, is_text))
    throw_invalid(path_of(name), "{}: expected a string or a list of at most {} strings", path_of(name), most);
  return value->get<std::vector<std::string>>();
}

std::optional<Fields> Fields::object(const char* name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  return Fields(*value, path_of(name));
}

} // namespace ridge::server
