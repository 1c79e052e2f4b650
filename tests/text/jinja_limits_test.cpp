// Hostile templates must reach a limit soon.
#include "core/error.h"
#include "text/jinja/jinja.h"

#include <doctest/doctest.h>

using namespace ridge;
using text::jinja::Limits;
using text::jinja::Template;

namespace {

std::string refusal_within(const std::string& source, const Limits& limits = {}) {
  try {
    return fmt::format("rendered {} bytes",
                       Template::parse(source, "t", limits).render(nlohmann::ordered_json::object(), {}).size());
  } catch (const Error& error) {
    return error.what();
  }
}

bool refuses_with(const std::string& source, std::string_view reason) {
  const std::string message = refusal_within(source);
  CAPTURE(message);
  CHECK(message.find(reason) != message.npos);
  return message.find(reason) != message.npos;
}

std::string repeated(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

constexpr std::string_view kNested = "deeper than 200";
constexpr std::string_view kBig = "over the limit of";
constexpr std::string_view kTooMuch = "the template creates more than";

} // namespace

TEST_CASE("a template that does not end is stopped") {
  const std::string loops =
      "{% set r = range(100000) %}" + repeated("{% for i in r %}", 3) + repeated("{% endfor %}", 3);
  CHECK(refuses_with(loops, "was stopped after"));
}

TEST_CASE("a template that calls itself without end is stopped") {
  CHECK(refuses_with("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recurses deeper than 600"));
  CHECK(refuses_with("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "recurses deeper than 600"));
  CHECK(refuses_with("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}", "recurses deeper than 600"));
}

TEST_CASE("a template nests only so deep") {
  CHECK(refuses_with("{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}", kNested));
  CHECK(refuses_with("{{ " + repeated("[", 300) + repeated("]", 300) + " }}", kNested));
  CHECK(refuses_with("{{ " + repeated("not ", 5000) + "1 }}", kNested));
  CHECK(refuses_with("{{ " + repeated("- ", 5000) + "1 }}", kNested));
  CHECK(refuses_with("{{ 1" + repeated(" + 1", 5000) + " }}", kNested));
  CHECK(refuses_with("{{ x" + repeated(".x", 5000) + " }}", kNested));
  CHECK(refuses_with("{{ 1" + repeated(" if 1 else 1", 5000) + " }}", kNested));
  CHECK(refuses_with("{{ 1" + repeated(" | e", 5000) + " }}", kNested));
  CHECK(refuses_with(repeated("{% if 1 %}", 5000) + repeated("{% endif %}", 5000), kNested));
  CHECK(refusal_within("{{ 1" + repeated(" + 1", 150) + " }}") == "rendered 3 bytes");
}

TEST_CASE("lists nest only so deep, however they are built") {
  CHECK(refuses_with("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}",
                     kNested));
  CHECK(refuses_with("{% set ns = namespace(l={}) %}{% for i in range(1000) %}{% set ns.l = {'k': ns.l} %}{% endfor %}",
                     kNested));
}

TEST_CASE("a value grows only so large, whatever makes it") {
  for (const char* source :
       {"{{ 'a' * 10**9 }}", "{{ [1] * 10**12 }}", "{{ 'a'.center(10**9) }}", "{{ 'a'.ljust(10**15) }}",
        "{{ 'a'.zfill(10**9) }}", "{{ '\\t'.expandtabs(10**9) }}", "{{ 'a' | center(10**9) }}",
        "{{ 'a' | indent(10**9) }}", "{{ '%1000000000d' % 1 }}", "{{ '{:1000000000}'.format(1) }}",
        "{{ ('a' * 9999999) | replace('a', 'aaaaaaaaaa') }}", "{{ (['a' * 999] * 99999) | join }}",
        "{{ [1] | batch(10**12, 0) | list }}", "{{ [1] | tojson(indent=10**9) }}",
        "{{ ('x' * 99999).join(('y' * 999) | list) }}", "{{ ('a' * 10**7) | list }}"})
    CHECK(refuses_with(source, kBig));
  CHECK(refuses_with("{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
                     kBig));
  CHECK(refuses_with("{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
                     kBig));
  // 2^40 shared items
  CHECK(refuses_with(
      "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      ""));
  CHECK(refuses_with("{{ range(10**12) }}", "range too big"));
  CHECK(refuses_with("{{ '%.9999999f' % 1.5 }}", "precision too big"));
}

TEST_CASE("a number beyond the last character is no character") {
  CHECK(refuses_with("{{ '{:c}'.format(1114112) }}", "below 0x110000"));
  CHECK(refuses_with("{{ '{:c}'.format(-1) }}", "below 0x110000"));
  CHECK(refuses_with("{{ '%c' % 1114112 }}", "%c requires"));
  CHECK(refusal_within("{{ '{:c}'.format(1114111) }}") == "rendered 4 bytes");
}

TEST_CASE("shared values cannot make a comparison endless") {
  CHECK(refuses_with("{% set a = namespace(l=[1]) %}{% set b = namespace(l=[1]) %}{% for i in range(60) %}"
                     "{% set a.l = [a.l, a.l] %}{% set b.l = [b.l, b.l] %}{% endfor %}{{ a.l == b.l }}",
                     "was stopped after"));
}

TEST_CASE("all values together grow only so large") {
  CHECK(refuses_with(
      "{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = ns.l + ['a' * 10**6 ~ i] %}{% endfor %}",
      kTooMuch));
}

TEST_CASE("the output grows only so long") {
  CHECK(refuses_with("{% set s = 'a' * 10**6 %}{% for i in range(99) %}{{ s }}{% endfor %}", "writes more than"));
}

TEST_CASE("what searches long texts takes a time that grows with their length") {
  const std::string texts =
      "{% set a = 'a' * 10**7 %}{% set b = 'a' * (5 * 10**6) ~ 'b' %}{% set c = 'b' ~ 'a' * (5 * 10**6) %}";
  CHECK(refusal_within(texts + "{{ a.find(b) }}{{ a.rfind(c) }}{{ a.find(c) }}{{ a.rfind(b) }}") == "rendered 8 bytes");
  CHECK(refusal_within(texts + "{{ a.count(b) }}{{ b in a }}{{ a.split(b) | length }}{{ a.rsplit(c) | length }}") ==
        "rendered 8 bytes");
  CHECK(refusal_within(texts + "{{ a.replace(b, '') | length }}{{ a.partition(b) | length }}") == "rendered 9 bytes");
  CHECK(refusal_within(texts + "{{ a.strip(b.replace('a', 'xy')) | length }}").find("rendered") == 0);
  CHECK(refuses_with(texts + "{% for i in range(100000) %}{% set x = a.find(b) %}{% endfor %}", "was stopped after"));
  CHECK(refuses_with(texts + "{% set d = {a: 1} %}{% for i in range(100000) %}{% set x = d[a] %}{% endfor %}",
                     "was stopped after"));
  CHECK(refuses_with(texts + "{% set d = {a: 1} %}{% for i in range(100000) %}{% set x = d.get(a) %}{% endfor %}",
                     "was stopped after"));
  CHECK(refuses_with(texts + "{% set d = {a: 1} %}{% for i in range(100000) %}{% set x = a in d %}{% endfor %}",
                     "was stopped after"));
  CHECK(refuses_with(texts + "{{ a.split('a') | length }}", "parts"));
  CHECK(refuses_with(texts + "{{ a.rsplit('a') | length }}", "parts"));
}

TEST_CASE("a template works with large integers only so long") {
  CHECK(refuses_with("{% set a = 10**4000 %}{% for i in range(100000) %}{% set x = a * 3 %}{{ x }}{% endfor %}", ""));
  CHECK(refuses_with("{% set a = 10**2000 + 1 %}{% for i in range(100000) %}{% set x = a * a // 7 %}{% endfor %}",
                     "was stopped after"));
}

TEST_CASE("a template has only so many bytes") {
  CHECK(refuses_with(std::string((size_t{1} << 20) + 1, 'x'), "at most 1048576 are accepted"));
  CHECK(refusal_within(std::string(size_t{1} << 20, 'x')) == "rendered 1048576 bytes");
}

TEST_CASE("the limits leave room for a long conversation") {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  for (int i = 0; i < 2000; ++i)
    messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", std::string(2000, 'x')}});
  const auto chat =
      Template::parse("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + m.content | length %}"
                      "<{{ m['role'] }}>{{ m.content | trim }}{% endfor %}{{ ns.n }}",
                      "t");
  CHECK(chat.render({{"messages", messages}}, {}).size() == 2000 * 2000 + 1000 * 6 + 1000 * 11 + 7);
}
