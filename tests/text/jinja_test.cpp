// Rendered output by feature, and against Jinja2 where installed.
#include "core/error.h"
#include "text/jinja/jinja.h"

#include "support/numerics.h"

#include <cstdio>
#include <string>

#include <sys/wait.h>

using namespace ridge;
using nlohmann::ordered_json;
using text::jinja::Template;

namespace {

std::tm noon() {
  std::tm time{};
  time.tm_year = 126;
  time.tm_mday = 15;
  time.tm_hour = 12;
  time.tm_wday = 4;
  time.tm_yday = 14;
  return time;
}

std::string render(std::string_view source, const ordered_json& variables = ordered_json::object()) {
  return Template::parse(source, "t").render(variables, noon());
}

std::string refusal(std::string_view source, const ordered_json& variables = ordered_json::object()) {
  try {
    return "rendered: " + render(source, variables);
  } catch (const Error& error) {
    return error.what();
  }
}

} // namespace

TEST_CASE("floats are rounded to tens as their exact decimals are") {
  const char* const cases[][2] = {{"(123456789012345678901 * 1.5 / 3) | round(-1)", "6.172839450617285e+19"},
                                  {"15.0 | round(-1)", "20.0"},
                                  {"25.0 | round(-1)", "20.0"},
                                  {"-5.0 | round(-1)", "-0.0"},
                                  {"5.1 | round(-1)", "10.0"},
                                  {"0.0 | round(-1)", "0.0"},
                                  {"1234.5 | round(-2)", "1200.0"},
                                  {"99.0 | round(-2)", "100.0"},
                                  {"49.0 | round(-2)", "0.0"},
                                  {"4.0 | round(-3)", "0.0"}};
  for (const auto& [source, wanted] : cases) CHECK(render(fmt::format("{{{{ {} }}}}", source)) == wanted);
}

TEST_CASE("filters of lists make their items one by one") {
  const ordered_json xs = {{"xs", {{{"a", {{"b", 1}}}}, {{"a", {{"b", 2}}}}, {{"c", 3}}}}};
  const char* const cases[][2] = {
      {"{{ xs | map(attribute='a.b') | first }}", "1"},
      {"{{ xs | map(attribute='a.b') | select('odd') | first }}", "1"},
      {"{% for x in xs | map(attribute='a.b') %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}", "12"},
      {"{{ 2 in (xs | map(attribute='a.b')) }}", "True"},
      {"{% set g = [1, 2, 3] | select %}{{ g | first }}{{ g | first }}{{ g | list }}{{ g | list }}", "12[3][]"},
      {"{% set g = [1, 2, 3, 4] | select %}{% for x in g %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}"
       "{{ g | list }}",
       "12[3, 4]"},
      {"{% set g = [1, 2, 3, 4] | select %}{{ 2 in g }}{{ g | list }}", "True[3, 4]"},
  };
  for (const auto& [source, wanted] : cases) CHECK(render(source, xs) == wanted);
  for (const char* source : {"{{ xs | map(attribute='a.b') | list }}", "{{ 5 in (xs | map(attribute='a.b')) }}",
                             "{% for x in xs | map(attribute='a.b') %}{{ loop.last }}{% endfor %}",
                             "{{ xs | map(attribute='a.b') | unique | join }}"})
    CHECK(refusal(source, xs).find("'a'") != std::string::npos);
}

TEST_CASE("white space goes where trim_blocks and lstrip_blocks send it") {
  CHECK(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n") == "a\n  b\nc");
  CHECK(render("a \n {%- if true -%} \n b {%- endif %} c") == "ab c");
  CHECK(render("  {{ 1 }}\n  {{- 2 -}}  \n3") == "  123");
  CHECK(render("a {%+ if true +%}\nb{% endif %}") == "a \nb");
  CHECK(render("x\n  {# note #}\ny") == "x\ny");
  CHECK(render("{% raw %}{{ x }}{% if %}{% endraw %}") == "{{ x }}{% if %}");
  CHECK(render("a\r\nb\rc\n\n") == "a\nb\nc\n");
}

TEST_CASE("values print as Python prints them") {
  CHECK(render("{{ [1, 2.0, 'a', \"it's\", true, none, (1,), {'k': []}] }}") ==
        R"([1, 2.0, 'a', "it's", True, None, (1,), {'k': []}])");
  CHECK(render("{{ 1e16 }} {{ 1e15 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 7 / 2 }} {{ 6 / 2 }}") ==
        "1e+16 1000000000000000.0 0.30000000000000004 1e-05 3.5 3.0");
  CHECK(render("{{ {'a': 1}.items() }}{{ {'a': 1}.keys() }}") == "dict_items([('a', 1)])dict_keys(['a'])");
  CHECK(render("{{ none }}|{{ missing }}|{{ '\\n\\t\\x41\\u00e9\\q' }}") == "None||\n\tAé\\q");
  CHECK(render("{{ ['\\n\\x00é\\u200b'] }}") == R"(['\n\x00é\u200b'])");
}

TEST_CASE("sizes have a unit, negative ones none") {
  CHECK(render("{{ 1 | filesizeformat }}, {{ 1500 | filesizeformat }}, {{ 1536 | filesizeformat(true) }}") ==
        "1 Byte, 1.5 kB, 1.5 KiB");
  CHECK(render("{{ -0.5 | filesizeformat }}, {{ -1e24 | filesizeformat }}") ==
        "0 Bytes, -999999999999999983222784 Bytes");
  CHECK(render("{{ 1e24 | filesizeformat }}, {{ '2e6' | filesizeformat }}") == "1000.0 ZB, 2.0 MB");
  CHECK(refusal("{{ 'large' | filesizeformat }}").find("not a size: 'large'") != std::string::npos);
}

TEST_CASE("operators follow Python") {
  CHECK(render("{{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -7.5 % 2 }}") == "-4 2 1024 0.5 0.5");
  CHECK(render("{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'b' in 'abc' }} {{ 2 not in [1] }}") == "True False True True");
  CHECK(render("{{ 0 or 'x' }} {{ '' and 1 }} {{ not [] }} {{ 'a' ~ 1 ~ none }} {{ 'ab' * 2 }}") ==
        "x  True a1None abab");
  CHECK(render("{{ 'yes' if 0 }}|{{ 'a' if false else 'b' if true else 'c' }}") == "|b");
  CHECK(render("{{ 'héllo'[1] }}{{ 'héllo'[::-1] }}{{ [1, 2, 3][-2:] }}{{ 'abc'[5:] }}") == "éolléh[2, 3]");
  CHECK(refusal("{{ [1][::0] }}").find("step cannot be zero") != std::string::npos);
  CHECK(render("{{ '%d%%' % 5 }}") == "5%");
  CHECK(refusal("{{ '%5%' % 5 }}").find("unsupported format character '%'") != std::string::npos);
  CHECK(render("{{ '{:{}}|{:{}}'.format('a', '>3', 'b', '<2') }}|") == "  a|b |");
  CHECK(render("{{ '%s=%03d %.1f' % ('a', 7, 2.25) }} {{ '{:>4}|{x[0]}'.format(1, x='z') }}") == "a=007 2.2    1|z");
}

TEST_CASE("loops know where they are, filter, recurse, break and continue") {
  CHECK(render("{% for x in 'ab' %}{{ loop.index }}{{ x }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }} {% "
               "endfor %}") == "1a1TrueFalse 2b0FalseTrue ");
  CHECK(render("{% for x in [1, 2, 3, 4] if x is even %}{{ loop.length }}{{ x }}{{ loop.previtem }}{% endfor %}") ==
        "2224"
        "2");
  CHECK(render("{% for x in [] %}a{% else %}none{% endfor %}") == "none");
  CHECK(render("{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}") == "a1b2");
  CHECK(render("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ "
               "x }}{% endfor %}") == "02");
  CHECK(render("{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}:{{ "
               "loop.depth }}{% endif %}{% endfor %}") == "1:1(2:2(3:3))");
}

TEST_CASE("a loop's filter is evaluated as the loop runs") {
  CHECK(render("{% set ns = namespace(done=false) %}{% for x in [3, 2, 1] if not ns.done %}{{ x }};"
               "{% if x == 2 %}{% set ns.done = true %}{% endif %}{% endfor %}") == "3;2;");
  // Look-ahead evaluates one item early.
  const std::string body = "{% endfor %}{{ ns.n }}";
  const std::string head =
      "{% set ns = namespace(n=0) %}{% macro ok(x) %}{% set ns.n = ns.n + 1 %}{{ x }}{% endmacro %}"
      "{% for x in [1, 2, 3, 4] if ok(x) | int % 2 == 0 %}";
  CHECK(render(head + "{{ x }}{% break %}" + body) == "22");
  CHECK(render(head + "{{ x }}{{ loop.last }}{% break %}" + body) == "2False4");
  CHECK(render(head + "{{ loop.length }}{{ loop.revindex }}{{ loop.nextitem }}{% break %}" + body) == "2244");
  CHECK(render(head + "{{ loop.previtem }}{{ loop.index }}{{ loop.last }} " + body) == "1False 22True 4");
  CHECK(render("{% for x in [1] if false %}{{ x }}{% else %}none{% endfor %}") == "none");
  CHECK(render("{% for x in [[1, [2]], 3] if x recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}") ==
        "123");
  CHECK(render("{% for x in [0, 1, 2] if x %}{{ loop }}{% endfor %}") == "<LoopContext 1/2><LoopContext 2/2>");
}

TEST_CASE("integers have any size") {
  CHECK(
      render(
          "{{ 9223372036854775807 + 1 }} {{ 2 ** 100 }} {{ -(2 ** 64) }} {{ 10 ** 30 // 7 }} {{ -(10 ** 30) % 7 }}") ==
      "9223372036854775808 1267650600228229401496703205376 -18446744073709551616 142857142857142857142857142857 6");
  CHECK(render("{{ 18446744073709551616 }} {{ '123456789012345678901234567890' | int + 1 }} {{ 1e20 | int }}") ==
        "18446744073709551616 123456789012345678901234567891 100000000000000000000");
  CHECK(render("{{ 2 ** 64 == 2.0 ** 64 }} {{ 2 ** 64 > 2 ** 63 }} {{ 2 ** 53 + 1 == 2.0 ** 53 }} {{ 2 ** 70 / 2 ** 69 "
               "}}") == "True True False 2.0");
  CHECK(render("{{ {2 ** 64: 1}[2.0 ** 64] }} {{ [2 ** 65, 2 ** 64] | sort }} {{ (2 ** 64) is integer }} "
               "{{ (2 ** 64) is number }} {{ (2 ** 64) | tojson }} {{ -(2 ** 64) | abs }} {{ (2 ** 65 + 5) | round(-1) "
               "}}") ==
        "1 [18446744073709551616, 36893488147419103232] True True 18446744073709551616 18446744073709551616 "
        "36893488147419103240");
  CHECK(render("{{ '%d %x' % (2 ** 64, 2 ** 64) }} {{ '{:,} {:#b}'.format(2 ** 64, 5) }} {{ 0xffffffffffffffffff }}") ==
        "18446744073709551616 10000000000000000 18,446,744,073,709,551,616 0b101 4722366482869645213695");
  CHECK(render("{{ n }} {{ m }}", {{"n", 18446744073709551615u}, {"m", -5}}) == "18446744073709551615 -5");
  CHECK(refusal("{{ 10 ** 5000 }}").find("more than 4300 digits") != std::string::npos);
  CHECK(refusal("{{ 7 ** (10 ** 30) }}").find("more than 4300 digits") != std::string::npos);
  CHECK(refusal("{{ 10 ** 400 / 3 }}").find("too large to convert to float") != std::string::npos);
  CHECK(render("{{ (10 ** 4299) | string | length }} {{ 1 ** (10 ** 30) }} {{ (-1) ** (10 ** 30 + 1) }}") ==
        "4300 1 -1");
  CHECK(refusal("{{ range(2 ** 64) }}{{ 'a' * 2 ** 64 }}").find("too large") != std::string::npos);
}

TEST_CASE("attr sees attributes, never keys") {
  CHECK(render("{{ {'a': 1} | attr('a') is defined }} {{ ({'a': 1} | attr('items'))() | list }} "
               "{{ 'x' | attr('upper') is defined }}") == "False [('a', 1)] True");
  CHECK(render("{% set ns = namespace(a=1) %}{{ ns | attr('a') }}{{ 1 | attr(2) is defined }}") == "1False");
}

TEST_CASE("letters change their case as Unicode has it") {
  CHECK(render("{{ 'straße ﬁ ŉ ΐ ᾳ' | upper }}") == "STRASSE FI ʼN \u0399\u0308\u0301 ΑΙ");
  CHECK(render("{{ 'ßA ﬂuß ᾲ'.title() }} {{ 'ǆ ßA' | capitalize }}") == "Ssa Fluß Ὰͅ ǅ ßa");
  CHECK(render("{{ 'ΟΔΟΣ ΟΔΟΣ. ΣΑΣ Σ Α.Σ.Α İ' | lower }}") == "οδος οδος. σας σ α.σ.α i̇");
  CHECK(render("{{ 'ΌΣΟΣ'.swapcase() }} {{ 'ẞß'.casefold() }} {{ '中a b'.title() }}") == "όσος ssss 中A B");
  CHECK(render("{{ 'Ⅷ'.isupper() }} {{ 'ª'.islower() }} {{ 'ǅx'.istitle() }}") == "True True True");
}

TEST_CASE("assignments stay in their scope, and namespaces carry them out") {
  CHECK(render("{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}") == "1");
  CHECK(render("{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}") == "2");
  CHECK(render("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}") ==
        "3");
  CHECK(render("{% set a, (b, c) = 1, [2, 3] %}{{ a }}{{ b }}{{ c }}") == "123");
  CHECK(render("{% set t | upper %}x{{ 1 }}{% endset %}{{ t }}") == "X1");
  CHECK(render("{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}") == "3");
}

TEST_CASE("macros take defaults, keywords, the rest, and a caller") {
  CHECK(render("{% macro m(a, b='B') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(b=2, a=1) }}{{ m() }}") == "1B12B");
  CHECK(render("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, k=2) }}") == "(1,){'k': 2}");
  CHECK(render("{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(3) %}y={{ y }}{% endcall %}") == "<y=3>");
  CHECK(refusal("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}").find("takes not more than 1") != std::string::npos);
}

TEST_CASE("markup stays markup and escapes what it takes in") {
  CHECK(render("{{ [('a' | safe).replace('a', '<'), ('a' | safe) | replace('a', '<'), 'a'.replace('a', '<')] }}") ==
        "[Markup('&lt;'), '<', '<']");
  CHECK(render("{{ [(',' | safe).join(['<', '<' | safe, 1]), ('a' | safe).center(3), ('a' | safe) | center(3)] }}") ==
        "[Markup('&lt;,<,1'), Markup(' a '), Markup(' a ')]");
  CHECK(render("{{ [('%s %r' | safe) % ('<', '<'), '%s' % ('<' | safe), ('{}{}' | safe).format('<', '<' | safe)] }}") ==
        "[Markup('&lt; &#39;&lt;&#39;'), '<', Markup('&lt;<')]");
  CHECK(refusal("{{ ('a' | safe).center(3, '<') }}").find("exactly one character") != std::string::npos);
  CHECK(refusal("{{ ('{:>3}' | safe).format('a' | safe) }}").find("for Markup") != std::string::npos);
}

TEST_CASE("tojson writes what json.dumps writes, without HTML escapes") {
  const ordered_json v = {{"d", {{"b", "<é\n\"\\>"}, {"a", {1, 2.0, true, nullptr}}}}};
  CHECK(render("{{ d | tojson }}", v) == R"({"b": "<é\n\"\\>", "a": [1, 2.0, true, null]})");
  CHECK(render("{{ d.a | tojson(indent=2) }}", v) == "[\n  1,\n  2.0,\n  true,\n  null\n]");
  CHECK(render("{{ d | tojson(separators=(',', ':'), sort_keys=true, ensure_ascii=true) }}", v) ==
        R"({"a":[1,2.0,true,null],"b":"<\u00e9\n\"\\>"})");
}

TEST_CASE("undefined is falsy, empty and iterable, but has no attributes") {
  CHECK(render("{{ x | default('d') }}{{ x is defined }}{{ x | length }}{{ x == y }}{% for i in x %}{% endfor %}") ==
        "dFalse0True");
  CHECK(render("{{ {}.a is defined }}{{ none.x is defined }}") == "FalseFalse");
  CHECK(refusal("{{ x.y }}") == "t:1:5: 'x' is undefined");
  CHECK(refusal("{{ x + 1 }}") == "t:1:6: 'x' is undefined");
}

TEST_CASE("a dict's method comes before its key, and its key before nothing") {
  const ordered_json v = {{"d", {{"items", 1}, {"name", 2}}}};
  CHECK(render("{{ d['items'] }}{{ d.name }}{{ d.items() | list | length }}{{ d.get('q', 3) }}", v) == "1223");
}

TEST_CASE("values cannot be changed: the sandbox refuses") {
  CHECK(refusal("{% set l = [] %}{% do l.append(1) %}").find("'append' of 'list' object is unsafe") !=
        std::string::npos);
  CHECK(refusal("{{ {}.update({}) }}").find("unsafe") != std::string::npos);
}

TEST_CASE("errors name the template, the line and the column") {
  CHECK(refusal("a\nb {{ 1 +") == "t:2:3: the tag is never closed: expected '}}'");
  CHECK(refusal("{% if x %}\n").find("t:1:11: ") == 0);
  CHECK(refusal("é\n é {{ 'a' | nope }}") == "t:2:13: no filter named 'nope'");
  CHECK(refusal("{% for x in 5 %}{% endfor %}") == "t:1:4: 'int' object is not iterable");
  CHECK(refusal("{{ 10 ** 4300 }}").find("integer overflow") != std::string::npos);
  CHECK(refusal("{% include 'x' %}").find("'include' is not available") != std::string::npos);
  CHECK(refusal("{{ raise_exception('roles must\nalternate') }}") ==
        "t:1:19: the template raised an error: roles must\nalternate");
  CHECK(refusal("\xff").find("not UTF-8") != std::string::npos);
}

TEST_CASE("an unknown filter counts only where it is reached, if it stands in a branch") {
  CHECK(render("{% if false %}{{ 1 | nope }}{% endif %}ok") == "ok");
  CHECK(refusal("{% for x in [] %}{{ 1 | nope }}{% endfor %}").find("no filter named 'nope'") != std::string::npos);
}

TEST_CASE("strftime_now tells the time it was given") {
  CHECK(render("{{ strftime_now('%d %b %Y, %A %H:%M') }}") == "15 Jan 2026, Thursday 12:00");
}

TEST_CASE("made-up templates render as Jinja2 renders them") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  const int64_t count = tests::Share::of(4000, 4);
  const std::string command =
      fmt::format("python3 '{}/tests/text/jinja_oracle.py' {} {} 2>/dev/null", RIDGE_SOURCE_DIR, seed, count);
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string lines;
  char buffer[65536];
  for (size_t size; (size = fread(buffer, 1, sizeof buffer, pipe)) > 0;) lines.append(buffer, size);
  const int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
    MESSAGE("skipped: no python3 with Jinja2");
    return;
  }
  REQUIRE(WEXITSTATUS(status) == 0);
  int compared = 0;
  for (size_t at = 0; at < lines.size(); ++compared) {
    const size_t end = lines.find('\n', at);
    const ordered_json one = ordered_json::parse(lines.substr(at, end - at));
    at = end + 1;
    const std::string source = one["template"];
    CAPTURE(source);
    if (one.contains("output")) {
      std::string output;
      CHECK_NOTHROW(output = render(source, one["variables"]));
      CHECK(output == one["output"].get<std::string>());
    } else {
      const std::string error = one["error"];
      CAPTURE(error);
      CHECK_THROWS_AS(render(source, one["variables"]), Error);
    }
  }
  CHECK(compared == count);
}
