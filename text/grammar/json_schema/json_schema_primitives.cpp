// Repetitions are bounded, so that a model cannot write endless numbers.
#include "text/grammar/json_schema/json_schema_primitives.h"

namespace ridge::text {

const std::map<std::string, Primitive>& primitives() {
  // \u: one code point; surrogates come in pairs.
  static const std::map<std::string, Primitive> kPrimitives = {
      {"space", {R"(| " " | "\n" [ \t]{0,20})", {}}},
      {"char", {R"([^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" escape))", {"escape"}}},
      {"escape",
       {R"([0-9a-cA-CefEF] hex{3} | [dD] ([0-7] hex{2} | [89abAB] hex{2} "\\u" [dD] [c-fC-F] hex{2}))", {"hex"}}},
      {"hex", {"[0-9a-fA-F]", {}}},
      // No \u and \/, which could spell a declared name.
      {"key-char", {R"([^"\\\x7F\x00-\x1F] | "\\" ["\\bfnrt])", {}}},
      {"value",
       {"object | array | string | number | boolean | null",
        {"object", "array", "string", "number", "boolean", "null"}}},
      {"object",
       {R"("{" space (string ":" space value ("," space string ":" space value)* space)? "}")",
        {"space", "string", "value"}}},
      {"array", {R"("[" space (value ("," space value)* space)? "]")", {"space", "value"}}},
      {"string", {R"("\"" char* "\"")", {"char"}}},
      {"integer", {R"("-"? ("0" | [1-9] [0-9]{0,15}))", {}}},
      {"number", {R"(integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?)", {"integer"}}},
      {"boolean", {R"("true" | "false")", {}}},
      {"null", {R"("null")", {}}},
  };
  return kPrimitives;
}

namespace {

constexpr uint32_t kNoMaximum = ~0u;

// RFC 3339 without year 0 and leap seconds.
const std::string kDate =
    R"((?:(?:000[1-9]|00[1-9]\d|0[1-9]\d{2}|[1-9]\d{3})-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|)"
    R"((?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|)"
    R"((?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29))";
const std::string kHour = R"((?:[01]\d|2[0-3]))";
const std::string kTime = kHour + R"(:[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:[Zz]|[-+])" + kHour + R"(:[0-5]\d))";
const std::string kTimePart = R"((?:\d{1,9}H(?:\d{1,9}M(?:#S)?|#S)?|\d{1,9}M(?:#S)?|#S))";

std::string duration() { // ISO 8601 allows fractional seconds
  std::string time = "T" + kTimePart;
  for (size_t at = 0; (at = time.find("#S")) != std::string::npos;) time.replace(at, 2, R"(\d{1,9}(?:\.\d{1,9})?S)");
  return R"(P(?:\d{1,9}W|(?:\d{1,9}Y(?:\d{1,9}M(?:\d{1,9}D)?|\d{1,9}D)?|\d{1,9}M(?:\d{1,9}D)?|\d{1,9}D)(?:)" + time +
         ")?|" + time + ")";
}

// RFC 1123 and 5321 without limits of length, which would enlarge the grammar.
const std::string kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";
const std::string kHost = kLabel + R"((?:\.)" + kLabel + ")*";
const std::string kAtom = R"([A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)";

const std::string kOctet = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
const std::string kIpv4 = kOctet + R"((?:\.)" + kOctet + "){3}";

std::string ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}", end = "(?:" + group + ":" + group + "|" + kIpv4 + ")";
  const auto before = [&](int most) { // up to `most` groups before ::
    return "(?:(?:" + group + ":){0," + std::to_string(most - 1) + "}" + group + ")?::";
  };
  const auto after = [&](int count) { return "(?:" + group + ":){" + std::to_string(count) + "}"; };
  return "(?:" + after(6) + end + "|::" + after(5) + end + "|(?:" + group + ")?::" + after(4) + end + "|" + before(2) +
         after(3) + end + "|" + before(3) + after(2) + end + "|" + before(4) + after(1) + end + "|" + before(5) + end +
         "|" + before(6) + group + "|" + before(7) + ")";
}

const std::string kUriCharacters = R"(A-Za-z0-9._~!$&'()*+,;=@-)";

std::string uri_characters(const std::string& more) { return "(?:[" + more + kUriCharacters + "]|%[0-9A-Fa-f]{2})"; }

std::string authority() {
  return "(?:" + uri_characters(":") + R"(*@)?(?:\[)" + ipv6() + R"(\]|)" + uri_characters("") + R"(*)(?::\d{0,5})?)";
}

std::string query_and_fragment() {
  return R"((?:\?)" + uri_characters(":/?") + "*)?(?:#" + uri_characters(":/?") + "*)?";
}

std::string uri() {
  const std::string path = uri_characters(":/") + "*", part = uri_characters(":");
  return "[A-Za-z][A-Za-z0-9+.-]{0,31}:(?://" + authority() + "(?:/" + path + ")?|/(?:" + part + path + ")?|" + part +
         path + ")?" + query_and_fragment();
}

std::string uri_reference() {
  const std::string path = uri_characters(":/") + "*", part = uri_characters(":");
  return "(?:" + uri() + "|(?://" + authority() + "(?:/" + path + ")?|/(?:" + part + path + ")?|" + uri_characters("") +
         "+(?:/" + path + ")?)?" + query_and_fragment() + ")";
}

} // namespace

const std::map<std::string, Format>& formats() {
  static const std::map<std::string, Format> kFormats = [] {
    std::map<std::string, Format> all = {
        {"date", {kDate, 10, 10}},
        {"time", {kTime, 9, 24}},
        {"date-time", {kDate + "[Tt]" + kTime, 20, 35}},
        {"duration", {duration(), 3, 100}},
        {"uuid", {"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", 36, 36}},
        {"email", {kAtom + R"((?:\.)" + kAtom + ")*@(?:" + kHost + R"(|\[)" + kIpv4 + R"(\]))", 3, kNoMaximum}},
        {"hostname", {kHost, 1, kNoMaximum}},
        {"ipv4", {kIpv4, 7, 15}},
        {"ipv6", {ipv6(), 2, 45}},
        {"uri", {uri(), 2, kNoMaximum}},
        {"uri-reference", {uri_reference(), 0, kNoMaximum}},
        {"json-pointer", {"(?:/(?:[^~/]|~[01])*)*", 0, kNoMaximum}},
    };
    for (auto& [name, format] : all) format.pattern = "^" + format.pattern + "$";
    return all;
  }();
  return kFormats;
}

} // namespace ridge::text
