#!/usr/bin/env python3
"""Makes up templates and says what Jinja2 renders for them, set up as Hugging Face's apply_chat_template sets it up.

    jinja_oracle.py SEED COUNT

prints one JSON object a line: template, variables, and output or error. Exits with 77 where Jinja2 is not installed.
"""
import functools
import json
import random
import sys

try:
    import jinja2
    from jinja2.ext import do, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    sys.exit(77)

VARIABLES = {
    "n": 7, "z": 0, "neg": -3, "x": 2.5, "big": 1e12, "huge": 2**63, "t": True, "f": False, "nil": None,
    "s": "Hello World", "u": "h\u00e9llo \U0001f999 \u65e5\u672c", "e": "", "w": "  pad\tded \n", "q": "it's \"q\" <b>&\\",
    "lines": "one\ntwo\r\n\n  four", "words": "the quick-brown fox jumps over_the 12 dogs",
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "el": [], "mix": [1, "a", None, True, 2.0, [1], {"k": "v"}],
    "d": {"b": 1, "a": {"c": [1, 2]}, "items_": 3}, "ed": {}, "nums": {"one": 1, "Two": 2, "three": 3},
    "objs": [{"name": "Z", "v": 2, "g": "x"}, {"name": "y", "v": 1, "g": "Y"}, {"name": "X", "v": 2, "g": "y"}],
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " U "},
                 {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}],
}

NUMBERS = ["n", "z", "neg", "x", "big", "t", "0", "1", "2", "3", "10", "1.5", "0.1", "1e3", "-4",
           "2**64", "-(10**19)", "123456789012345678901", "9223372036854775807", "huge"]
STRINGS = ["s", "u", "e", "w", "q", "lines", "words", "'a'", "'lo'", "'%s-%s'", "\"d'q\"", "'\\n'", "'x y'", "'\u00df'", "'{}'",
           "'\u039f\u0394\u039f\u03a3 \u03a3. \u01c6x'", "'\ufb02u\u00df \u1fb3'"]
LISTS = ["l", "ls", "el", "mix", "objs", "[1, 'b']", "(1, 2)", "[[1], [2]]", "range(4)", "ls[1:]", "()", "('a',)"]
DICTS = ["d", "ed", "nums", "{'k': 1}", "objs[0]", "messages[1]", "{1: 'a', 'b': [None]}"]
OTHERS = ["nil", "missing", "f", "none", "d.missing", "l[9]", "messages[2].content"]

TEXT_FILTERS = [
    "upper", "lower", "title", "capitalize", "trim", "length", "list", "first", "last", "reverse", "string", "e", "safe",
    "wordcount", "tojson", "int", "float", "int(5)", "float(1.5)", "replace('l', 'L')", "replace('o', '00', 1)",
    "indent", "indent(2, true)", "indent(3, blank=true)", "truncate(5)", "truncate(8, true, '!')", "truncate(4, end='')",
    "center(20)", "trim('Hd ')", "striptags", "urlencode", "format(1, 2)", "default('D')", "d('D', true)", "join('-')",
    "batch(3) | list", "wordwrap(7)", "unique | join", "sort | join", "forceescape", "int(base=16)", "select | list",
]
LIST_FILTERS = [
    "length", "first", "last", "join(',')", "list", "reverse | list", "tojson", "string", "sum", "min", "max", "sort",
    "sort(reverse=true)", "unique | list", "batch(2) | list", "batch(2, 'x') | list", "slice(2) | list", "slice(3, 0) | list",
    "map('string') | list", "map('upper') | join", "map(attribute='name') | list", "map(attribute='q', default='-') | join",
    "select('number') | list", "reject('none') | list", "select | list", "selectattr('v', 'equalto', 2) | list",
    "rejectattr('v', 'gt', 1) | map(attribute='name') | join", "selectattr('name') | list | length", "groupby('v') | list",
    "groupby('g') | map('first') | join", "sort(attribute='v') | map(attribute='name') | join",
    "sort(attribute='v,name') | tojson", "tojson(indent=2)", "count", "default(1)", "map('abs') | sum", "min(attribute='v')",
    "sum(attribute='v')", "tojson(separators=(',', ':'))", "first | default('none')",
]
DICT_FILTERS = [
    "length", "tojson", "tojson(sort_keys=true)", "tojson(indent=4)", "dictsort", "dictsort(by='value')",
    "dictsort(reverse=true)", "list", "items | list", "string", "first", "xmlattr", "urlencode", "tojson(ensure_ascii=true)",
    "map('upper') | list", "default({})", "join",
]
NUMBER_FILTERS = [
    "abs", "round", "round(1)", "round(1, 'floor')", "round(0, 'ceil')", "int", "float", "string", "tojson", "default(2)",
    "filesizeformat", "round(-1)", "e", "length", "upper",
]
TEXT_METHODS = [
    "strip()", "lstrip()", "rstrip()", "strip('Hd')", "split()", "split('o')", "split('o', 1)", "rsplit(' ', 1)", "splitlines()",
    "splitlines(true)", "startswith('He')", "endswith(('d', 'x'))", "replace('o', 'O')", "upper()", "lower()", "title()",
    "capitalize()", "find('l')", "rfind('l')", "count('l')", "isdigit()", "isalpha()", "isspace()", "isalnum()", "isupper()",
    "islower()", "swapcase()", "zfill(14)", "center(15, '*')", "ljust(13)", "rjust(13, '.')", "partition(' ')", "rpartition('o')",
    "removeprefix('Hel')", "removesuffix('ld')", "join(['a', 'b'])", "format(1, 2)", "expandtabs(4)", "index('l')", "istitle()",
    "isidentifier()", "isascii()", "rsplit()", "split(none, 1)", "encode_('x')", "casefold()",
]
LIST_METHODS = ["index(1)", "count(1)", "append(1)", "pop()", "copy()"]
DICT_METHODS = ["get('a')", "get('zz', 5)", "keys() | list", "values()", "items() | list", "update({'a': 1})", "a", "b.c", "a.c[0]"]
TESTS = [
    "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable",
    "callable", "true", "false", "odd", "even", "divisibleby(3)", "divisibleby 2", "eq(1)", "equalto('a')", "ne 2", "lt 3",
    "gt(2)", "ge 2", "le 2", "in [1, 2, 'a']", "sameas true", "sameas none", "upper", "lower", "escaped", "filter", "test",
]
FORMATS = ["'%d|%5d|%-5d|%05d'", "'%s %r'", "'%.2f'", "'%x %o'", "'%e'", "'%g'", "'%5s|%-5s|'", "'%%'", "'%+d'", "'%c'"]
SPECS = ["{}", "{:>8}", "{:<8}|", "{:^9}|", "{:08.3f}", "{:,}", "{:+}", "{:x}", "{:.2f}", "{:e}", "{:%}", "{!r}", "{:*^12}", "{0}{0}",
         "{:.3}", "{:g}", "{:d}", "{:_}", "{:b}", "{:#x}"]


class Maker:
    def __init__(self, rng):
        self.rng = rng

    def pick(self, items):
        return self.rng.choice(items)

    def atom(self):
        return self.pick(self.pick([NUMBERS, STRINGS, STRINGS, LISTS, DICTS, OTHERS]))

    def expression(self, depth):
        if depth <= 0:
            return self.atom()
        kind = self.rng.randrange(20)
        sub = lambda: self.expression(depth - 1)
        if kind < 3:
            return f"{self.text(depth - 1)} | {self.pick(TEXT_FILTERS)}"
        if kind < 5:
            return f"{self.pick(LISTS)} | {self.pick(LIST_FILTERS)}"
        if kind == 5:
            return f"{self.pick(DICTS)} | {self.pick(DICT_FILTERS)}"
        if kind == 6:
            return f"({self.number(depth - 1)}) | {self.pick(NUMBER_FILTERS)}"
        if kind == 7:
            return f"({self.text(depth - 1)}).{self.pick(TEXT_METHODS)}"
        if kind == 8:
            return f"{self.pick(LISTS)}.{self.pick(LIST_METHODS)}" if self.rng.random() < 0.3 else f"{self.pick(DICTS)}.{self.pick(DICT_METHODS)}"
        if kind == 9:
            return f"({sub()}) is {self.pick(['', 'not '])}{self.pick(TESTS)}"
        if kind == 10:
            return f"({sub()}) {self.pick(['==', '!=', '<', '>', '<=', '>=', 'in', 'not in', 'and', 'or'])} ({sub()})"
        if kind == 11:
            return f"({sub()}) {self.pick(['+', '-', '*', '/', '//', '%', '~'])} ({sub()})"
        if kind == 12:
            return self.number(depth)
        if kind == 13:
            part = lambda: self.pick(["", "0", "1", "-1", "2", "-2", "5"])
            step = self.pick(["", "", ":", ":2", ":-1", ":-2"])
            return f"({self.pick([self.pick(STRINGS), self.pick(LISTS[:8] + LISTS[9:])])})[{part()}:{part()}{step}]"
        if kind == 14:
            return f"({self.pick(STRINGS + LISTS + DICTS)})[{self.pick(['0', '-1', '9', chr(39) + 'a' + chr(39), '1'])}]"
        if kind == 15:
            return f"{sub()} if {sub()} else {sub()}" if self.rng.random() < 0.8 else f"{sub()} if {sub()}"
        if kind == 16:
            return f"[{sub()}, {sub()}]"
        if kind == 17:
            return f"{{'k': {sub()}, {self.pick(['1', chr(39) + 'k2' + chr(39), 'true', '1.0'])}: {sub()}}}"
        if kind == 18:
            return f"{self.pick(FORMATS)} % ({', '.join(self.atom() for _ in range(self.rng.randrange(1, 5)))}{self.pick(['', ','])})"
        return f"'{self.pick(SPECS)}'.format({self.pick([self.pick(NUMBERS), self.atom()])})"

    def text(self, depth):
        if self.rng.random() < 0.1:
            return f"({self.pick(STRINGS)} | safe)"
        return self.pick(STRINGS) if depth <= 0 or self.rng.random() < 0.7 else f"({self.expression(depth)})"

    def number(self, depth):
        if depth <= 0:
            return self.pick(NUMBERS)
        if self.rng.random() < 0.2:  # a negative base would make complex numbers, or meet a quirk of Jinja2's constant folding
            return f"({self.pick(['n', 'x', '2', '3'])} ** {self.pick(['0', '1', '2', '3', 'z', '1.5', '0.1', 't'])})"
        op = self.pick(["+", "-", "*", "/", "//", "%"])
        return f"{self.pick(['', '-', ''])}{self.number(depth - 1)} {op} {self.pick(NUMBERS)}"

    def dash(self):
        return self.pick(["", "", "", "-"])

    def tag(self, body):
        return f"{{%{self.dash()} {body} {self.dash()}%}}"

    def space(self):
        return self.pick(["", "", " ", "\n", "\n  ", "  \n", "\t", "text", " <x> ", "\n\n"])

    def output(self, depth):
        return f"{{{{{self.dash()} {self.expression(depth)} {self.dash()}}}}}"

    def body(self, depth):
        return "".join(self.space() + self.statement(depth) for _ in range(self.rng.randrange(1, 4))) + self.space()

    def statement(self, depth):
        if depth <= 0:
            return self.output(1)
        kind = self.rng.randrange(16)
        inner = lambda: self.body(depth - 1)
        if kind < 4:
            return self.output(2)
        if kind == 4:
            return self.tag(f"if {self.expression(2)}") + inner() + self.tag("endif")
        if kind == 5:
            return (self.tag(f"if {self.expression(1)}") + inner() + self.tag(f"elif {self.expression(1)}") + inner() +
                    self.tag("else") + inner() + self.tag("endif"))
        if kind == 6:
            names = ["{{ i }}", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.revindex0 }}", "{{ loop.previtem }}", "{{ loop.nextitem }}",
                     "{{ loop.cycle('a', 'b') }}", "{{ loop.changed(i) }}", "{{ loop.length }}", "{{ loop.depth }}"]
            leave = self.pick(["", "", "{% if loop.index > 2 %}{% break %}{% endif %}", "{% if i == 1 %}{% continue %}{% endif %}"])
            other = self.tag("else") + "none" if self.rng.random() < 0.3 else ""
            condition = self.pick(["", "", " if i", " if i is string", " if i is not none"])
            return (self.tag(f"for i in {self.pick(LISTS + DICTS + STRINGS[:3] + OTHERS)}{condition}") + leave + self.pick(names) + inner() +
                    other + self.tag("endfor"))
        if kind == 7:
            return self.tag(f"for k, v in {self.pick(DICTS)}.items()") + "{{ k }}={{ v }}" + inner() + self.tag("endfor")
        if kind == 8:
            return self.tag(f"set {self.pick(['a', 'fresh'])} = {self.expression(2)}") + "{{ a }}{{ fresh }}"
        if kind == 9:
            return self.tag("set block" + self.pick(["", " | upper", " | trim | length"])) + inner() + self.tag("endset") + "[{{ block }}]"
        if kind == 10:
            return ("{% set ns = namespace(a=1, b='x') %}" + self.tag(f"for i in {self.pick(LISTS)}") + "{% set ns.a = ns.a ~ i %}" +
                    self.tag("endfor") + "{{ ns.a }}{{ ns.c }}")
        if kind == 11:
            name = f"m{self.rng.randrange(3)}"
            rest = self.pick(["", "{{ varargs }}", "{{ kwargs }}", "{{ caller is defined }}"])
            call = self.pick(["1", "1, 2", "1, b=3", "a=2", "", "1, 2, 3", "c=1", "*l", "**nums"])
            return self.tag(f"macro {name}(a, b={self.atom()})") + "<{{ a }}|{{ b }}>" + rest + inner() + self.tag("endmacro") + f"{{{{ {name}({call}) }}}}"
        if kind == 12:
            return ("{% macro wrap(x) %}({{ caller(x) }}){% endmacro %}" + self.tag(f"call(y) wrap({self.atom()})") + "{{ y }}" + inner() +
                    self.tag("endcall"))
        if kind == 13:
            return self.tag(f"filter {self.pick(['upper', 'trim', 'indent(2)', 'replace(' + chr(39) + 'e' + chr(39) + ', ' + chr(39) + '3' + chr(39) + ')', 'length'])}") + inner() + self.tag("endfilter")
        if kind == 14:
            return self.tag(f"with a = {self.expression(1)}, b = {self.atom()}") + "{{ a }}{{ b }}" + inner() + self.tag("endwith")
        return self.pick([
            "{# comment #}", "{#- comment -#}", "{% raw %}{{ raw }}{% endraw %}", "{%- raw -%} x {%- endraw -%}", "{% do l.index(3) %}",
            "{% generation %}g{% endgeneration %}", "{%+ if true %}plus{%+ endif %}",
            "{% for i in [1, [2, [3]]] recursive %}{{ loop.depth }}{% if i is iterable %}{{ loop(i) }}{% else %}{{ i }}{% endif %}{% endfor %}",
            "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set j = joiner(';') %}{{ j() }}1{{ j() }}2",
            "{% set c = cycler('x', 'y') %}{{ c.next() }}{{ c.next() }}{{ c.current }}", "{{ dict(a=1, b=2) }}", "{{ range(2, 9, 3) | list }}",
            "{{ strftime_now('%Y-%m-%d %H:%M %B') }}",
        ])


class Incomparable(BaseException):
    """An iterator was to be printed, whose text has its address in memory; or an integer needs more than 64 bits."""


class Lazy:
    """An iterator that knows whether it is printed."""

    def __init__(self, items):
        self._items = items

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._items)

    def __repr__(self):
        raise Incomparable


def comparable(value):
    if isinstance(value, int) and not -2**63 <= value < 2**63:
        raise Incomparable
    return Lazy(value) if hasattr(value, "__next__") else value


def comparably(run):
    @functools.wraps(run)
    def wrapped(*arguments, **named):
        return comparable(run(*arguments, **named))
    return wrapped


class Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(["+", "-", "*", "//", "**"])

    def call_binop(self, context, operator, left, right):
        return comparable(super().call_binop(context, operator, left, right))


def make_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

        def _same(self, caller):
            return caller()

    def strftime_now(form):
        import datetime
        return datetime.datetime(2026, 1, 15, 12, 0, 0).strftime(form)

    environment = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols, do])
    for name, run in environment.filters.items():
        environment.filters[name] = comparably(run)
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)
    maker = Maker(rng)
    environment = make_environment()
    while count > 0:
        template = maker.body(2) if rng.random() < 0.6 else "{{ " + maker.expression(3) + " }}"
        case = {"template": template, "variables": VARIABLES}
        try:
            case["output"] = environment.from_string(template).render(**VARIABLES)
        except Incomparable:
            continue
        except Exception as error:
            case["error"] = f"{type(error).__name__}: {error}"
        if len(case.get("output", "")) > 100000:
            continue
        count -= 1
        print(json.dumps(case))


if __name__ == "__main__":
    main()
