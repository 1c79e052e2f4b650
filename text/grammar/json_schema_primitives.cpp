// Repetitions in these rules are bounded, so that a model cannot write an endless number or address.
#include "text/grammar/json_schema_primitives.h"

namespace ridge::text {

const std::map<std::string, Primitive>& primitives() {
  // A character escaped as \u is one code point: halves of surrogate pairs come in pairs.
  static const std::map<std::string, Primitive> kPrimitives = {
      {"space", {R"(| " " | "\n" [ \t]{0,20})", {}}},
      {"char", {R"([^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" escape))", {"escape"}}},
      {"escape",
       {R"([0-9a-cA-CefEF] hex{3} | [dD] ([0-7] hex{2} | [89abAB] hex{2} "\\u" [dD] [c-fC-F] hex{2}))", {"hex"}}},
      {"hex", {"[0-9a-fA-F]", {}}},
      // Names of additional properties: no \u and \/, so that no declared name can be spelled in another way.
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
      {"date-time-text", {R"(date-text "T" time-text)", {"date-text", "time-text"}}},
      {"date-text",
       {R"(year "-" (("0" [13578] | "10" | "12") "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8])))",
        {"year"}}},
      {"year", {R"("000" [1-9] | "00" [1-9] [0-9] | "0" [1-9] [0-9]{2} | [1-9] [0-9]{3})", {}}},
      {"time-text", {R"(hour ":" sixty ":" sixty ("." [0-9]{1,6})? ("Z" | [-+] hour ":" sixty))", {"hour", "sixty"}}},
      {"hour", {R"([01] [0-9] | "2" [0-3])", {}}},
      {"sixty", {"[0-5] [0-9]", {}}},
      {"uuid-text", {R"(hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12})", {"hex"}}},
      {"email-text", {R"([a-zA-Z0-9_%+-]{1,32} ("." [a-zA-Z0-9_%+-]{1,15}){0,2} "@" domain)", {"domain"}}},
      {"hostname-text", {"domain", {"domain"}}},
      {"domain", {R"((label "."){1,4} [a-zA-Z]{2,24})", {"label"}}},
      {"label", {"[a-zA-Z0-9] ([a-zA-Z0-9-]{0,38} [a-zA-Z0-9])?", {}}},
      {"ipv4-text", {R"(octet ("." octet){3})", {"octet"}}},
      {"octet", {R"("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9]{2} | [1-9]? [0-9])", {}}},
      {"ipv6-text", {R"(hex{1,4} (":" hex{1,4}){7})", {"hex"}}},
      {"uri-text",
       {R"([a-z] [a-z0-9+.-]{1,15} "://" domain (":" [0-9]{1,4})? ("/" uri-char{0,50}){0,8} ("?" ([=&] | uri-char){1,120})? ("#" uri-char{1,60})?)",
        {"domain", "uri-char"}}},
      {"uri-char", {R"([a-zA-Z0-9_.~+-] | "%" hex{2})", {"hex"}}},
  };
  return kPrimitives;
}

const std::map<std::string, Format>& formats() {
  static const std::map<std::string, Format> kFormats = {
      {"date", {10, 10}},     {"time", {9, 21}}, {"date-time", {20, 32}}, {"uuid", {36, 36}}, {"email", {6, 253}},
      {"hostname", {4, 188}}, {"ipv4", {7, 15}}, {"ipv6", {15, 39}},      {"uri", {9, 1962}},
  };
  return kFormats;
}

} // namespace ridge::text
