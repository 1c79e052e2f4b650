// String operations must propagate taint.
#include "text/jinja/jinja.h"

#include <doctest/doctest.h>

#include <random>

using namespace ridge;
using nlohmann::ordered_json;
using text::jinja::TaintedText;
using text::jinja::Template;

namespace {

const ordered_json kVariables = ordered_json::parse(
    R"({"d": "data", "s": " a b\tc ", "l": ["x", "y"], "o": {"k": "v<", "n": 7}, "w": "one two", "u": "éß"})");

// Data in brackets.
std::string shown(std::string_view source, const ordered_json& variables = kVariables) {
  const TaintedText out = Template::parse(source, "t").render_tainted(variables, {});
  std::string text;
  size_t at = 0;
  for (const text::ByteSpan& span : out.data()) {
    CHECK(span.begin >= at);
    CHECK((at == 0 || span.begin > at));
    CHECK(span.end > span.begin);
    text += out.bytes().substr(at, span.begin - at) + "[" + out.bytes().substr(span.begin, span.end - span.begin) + "]";
    at = span.end;
  }
  CHECK(at <= out.size());
  return text + out.bytes().substr(at);
}

} // namespace

TEST_CASE("what a template writes is its own, what it was given is data") {
  CHECK(shown("<{{ d }}>{{ 'own' }}") == "<[data]>own");
  CHECK(shown("{{ d ~ d }}{{ d }}") == "[datadatadata]");
  CHECK(shown("{{ o.n }}{{ d | length }}{{ d == 'data' }}") == "74True"); // no taint
  CHECK(shown("{{ 'own' if d else d }}{{ nothing | default(d) }}") == "own[data]");
  CHECK(shown("{% set x %}<{{ d }}>{% endset %}{{ x }}{% macro m(a) %}({{ a }}{{ caller() }}){% endmacro %}"
              "{% call m(d) %}-{{ d }}{% endcall %}") == "<[data]>([data]-[data])");
  CHECK(shown("{% set ns = namespace(x=d) %}{% set ns.x = ns.x + '.' %}{{ ns.x }}") == "[data].");
}

TEST_CASE("operators and subscripts keep the taint of each byte") {
  CHECK(shown("{{ '<' + d + '>' ~ d }}{{ ('-' + d) * 2 }}") == "<[data]>[data]-[data]-[data]");
  CHECK(shown("{{ ('ab' + d)[1:4] }} {{ (d + 'xy')[::-1] }} {{ (d + 'x')[-1] }}{{ d[0] }}") == "b[da] yx[atad] x[d]");
  CHECK(shown("{% for c in '<' + d[:2] %}{{ c }},{% endfor %}") == "<,[d],[a],");
  CHECK(shown("{{ '<%s|%5s|%.2s|%%%d>' % (d, d, d, 3) }}") == "<[data]| [data]|[da]|%3>");
  CHECK(shown("{{ (d + '%s') % 'own' }}{{ '%c' % 60 }}") == "[data]own[<]");
  CHECK(shown("{{ '<{}|{x:>6}|{{{y}}}>'.format(d, x=d, y=d) }}") == "<[data]|  [data]|{[data]}>");
  CHECK(shown("{{ (d + '{}').format('own') }}{{ '{:{}}'.format('a', o.k[1] + '^3') }}") == "[data]own[<a<]");
}

TEST_CASE("string methods keep the taint of each byte") {
  CHECK(shown("{{ s.strip() }}|{{ (' <' + s).lstrip() }}|{{ (s + '>').rstrip('>') }}") ==
        "[a b\tc]|<[ a b\tc ]|[ a b\tc ]");
  CHECK(shown("{{ ('1,' + d + ',2').split(',') | join('+') }}") == "1+[data]+2");
  CHECK(shown("{{ (d + '\n' + 'own').splitlines() | join('/') }}") == "[data]/own");
  CHECK(shown("{{ ('ab' + d).replace('a', '<', 2) }}{{ 'x-x'.replace('x', d) }}{{ d.replace('at', '##') }}") ==
        "<b[d]<[tadata]-[datad]##[a]");
  CHECK(shown("{{ ','.join(l) }} {{ d[0].join(['1', '2']) }}") == "[x],[y] 1[d]2");
  CHECK(shown("{{ ('<' + d).upper() }}{{ (d + 'X').lower() }}{{ (d + 'a').swapcase() }}{{ ('ß' + u).casefold() }}") ==
        "<[DATAdata]x[DATA]Ass[éss]");
  CHECK(shown("{{ 'own'.title() }} {{ d.title() }} {{ ('own ' + d).title() }} {{ ('own ' + d).capitalize() }}") ==
        "Own [Data] [Own Data] [Own data]");
  CHECK(shown("{{ d.center(8) }}|{{ d.ljust(6, '.') }}|{{ d.rjust(6, o.k[1]) }}|{{ ('-' + d).zfill(7) }}") ==
        "  [data]  |[data]..|[<<data]|-00[data]");
  CHECK(shown("{{ ('<' + s).expandtabs(4) }}") == "<[ a b]   [c ]");
  CHECK(shown("{{ ('<' + w).partition(' ') | join('|') }}{{ (d + '>').removesuffix('>') }}") == "<[one]|[ ]|[twodata]");
}

TEST_CASE("filters keep the taint of each byte") {
  CHECK(shown("{{ s | trim }}|{{ ('<' + d) | upper }}|{{ d | safe }}|{{ (d ~ '<') | e }}|{{ o.k | forceescape }}") ==
        "[a b\tc]|<[DATA]|[data]|[data]&lt;|[v&lt;]");
  CHECK(shown("{{ d | replace('a', '') }}{{ '<' | replace('<', d) }}{{ [d, 'own'] | join('-') }}") ==
        "[dtdatadata]-own");
  CHECK(shown("{{ (d + '\n' + d) | indent(2) }}|{{ d | indent(d, true) }}") == "[data]\n  [data]|[datadata]");
  CHECK(shown("{{ ('<' + w) | truncate(6, false, '..', 0) }}|{{ (d + 'own') | reverse }}|{{ d | first }}") ==
        "<[one]..|nwo[atad]|[d]");
  CHECK(shown("{{ ('own ' + w) | wordwrap(4) }}|{{ ('<b>own</b> ' + d) | striptags }}|{{ 'own' | striptags }}") ==
        "[own\none\ntwo]|[own data]|own");
  CHECK(shown("{{ ('<' + w) | urlencode }} {{ {'q': d} | urlencode }}{{ {'q': d} | xmlattr }}") ==
        "%3C[one%20two] q=[data] q=\"[data]\"");
  CHECK(shown("{{ '%s|%s' | format(d, 'own') }}{{ d | string }}{{ d | center(6) }}") == "[data]|own[data] [data] ");
  CHECK(shown("{{ l | map('upper') | join }}{{ l | sort(reverse=true) | join }}{{ l | max }}{{ l | unique | join }}") ==
        "[XYyxyxy]");
}

TEST_CASE("printed lists, dicts and JSON keep the taint of their strings and keys") {
  CHECK(shown("{{ [d, 'own'] }}{{ {'a': d} }}") == "['[data]', 'own']{'a': '[data]'}");
  CHECK(shown("{{ o | tojson }}") == R"({"[k]": "[v<]", "[n]": 7})");
  CHECK(shown("{{ {'a': d + '\"'} | tojson(indent=1) }}") == "{\n \"a\": \"[data]\\\"\"\n}");
  CHECK(shown("{% for k, v in o.items() %}{{ k }}={{ v }};{% endfor %}") == "[k]=[v<];[n]=7;");
  CHECK(shown("{{ dict(**o) }}") == "{'[k]': '[v<]', '[n]': 7}");
}

TEST_CASE("the taint is exact for random expressions over marked text") {
  // Data are capitals, template text is lower case, so each byte shows its origin.
  std::mt19937_64 random(11);
  const ordered_json variables = {{"D", "QWERTY"}, {"E", "AS DF GH"}, {"F", "Z"}};
  const char* atoms[] = {"D", "E", "F", "'abc'", "'x y'", "'k'"};
  const char* changes[] = {".strip()",
                           "[1:]",
                           "[::-1]",
                           "[:-1]",
                           ".replace('b', D)",
                           ".replace('Q', 'no')",
                           ".split(' ')[0]",
                           " | trim",
                           " | reverse",
                           " | replace(' ', F)",
                           ".center(9, '.')",
                           " | indent(2)",
                           " * 2",
                           ".join(['m', E])"};
  const auto expression = [&](auto& self, int depth) -> std::string {
    if (depth == 0) return atoms[random() % std::size(atoms)];
    if (random() % 2) return "(" + self(self, depth - 1) + " ~ " + self(self, depth - 1) + ")";
    return "(" + self(self, depth - 1) + changes[random() % std::size(changes)] + ")";
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string source = "{{ " + expression(expression, 4) + " }}";
    CAPTURE(source);
    const TaintedText out = Template::parse(source, "t").render_tainted(variables, {});
    std::vector<bool> is_data(out.size());
    for (const text::ByteSpan& span : out.data())
      for (size_t at = span.begin; at < span.end; ++at) is_data[at] = true;
    for (size_t at = 0; at < out.size(); ++at) {
      const char c = out.bytes()[at];
      if (c >= 'A' && c <= 'Z') CHECK(is_data[at]);
      if (c >= 'a' && c <= 'z') CHECK_FALSE(is_data[at]);
    }
  }
}
