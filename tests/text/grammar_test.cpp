#include "text/grammar/grammar.h"

#include "core/error.h"
#include "grammar_recognizer.h"
#include "grammar_walk.h"
#include "support/numerics.h"
#include "text/grammar/grammar_matcher.h"

#include <limits>
#include <map>

using namespace ridge::text;
using ridge::Error;
using ridge::tests::Recognizer;

namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

const std::map<std::string, std::string> kGrammars = {
    {"json", R"gbnf(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (
             string ":" ws value
             ("," ws string ":" ws value)*
           )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,3})? ws
# at most one blank, or a new line and some
ws ::= | " " | "\n" [ \t]{0,20}
)gbnf"},
    {"json_arr", R"gbnf(
root   ::= "[\n" ( value (",\n" value)* )? "]"
value  ::= array | string | "true" | "false" | [0-9]+
array  ::= "[" ( value ("," value)* )? "]"
string ::= "\"" [^"\\\x00-\x1F]* "\""
)gbnf"},
    {"arithmetic", R"gbnf(
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)gbnf"},
    {"chess", R"gbnf(
root    ::= (
    "1. " move " " move "\n"
    ([1-9] [0-9]? ". " move " " move "\n")+
)
move    ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn    ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle  ::= "O-O" "-O"?
)gbnf"},
    {"list", R"gbnf(root ::= item+
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n")gbnf"},
    {"c", R"gbnf(
root       ::= declaration+
declaration ::= type " " identifier "(" parameter? ("," ws parameter)* ")" ws "{" ws statement* "}" ws
type       ::= "int" | "float" | "char"
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*
parameter  ::= type " " identifier
statement  ::= type " " identifier ws "=" ws expression ";" ws |
               identifier ws "=" ws expression ";" ws |
               "return " expression ";" ws |
               "while" "(" condition ")" "{" statement* "}" ws
condition  ::= expression ("==" | "<" | ">=") expression
expression ::= term (ws ("+" | "-") ws term)*
term       ::= factor (ws ("*" | "/") ws factor)*
factor     ::= identifier | number | "-" factor | identifier "(" (expression ("," ws expression)*)? ")" | "(" expression ")"
number     ::= [0-9]+
ws         ::= ([ \t\n]+)?
)gbnf"},
    {"japanese", R"gbnf(
# words of kanji, hiragana and katakana with marks between them
root        ::= jp-char+ ([ \t\n] jp-char+)*
jp-char     ::= hiragana | katakana | punctuation | cjk
hiragana    ::= [ぁ-ゟ]
katakana    ::= [ァ-ヿ]
punctuation ::= [、-〾]
cjk         ::= [一-\u9FFF]
)gbnf"},
    {"english", R"gbnf(root ::= en-char+ ([ \t\n] en-char+)*
en-char ::= letter | digit | [!"'(),-./:;?]
letter ::= [a-zA-Z]
digit ::= [0-9])gbnf"},
    {"emoji", "root ::= [\\U0001F600-\\U0001F64F]{2,5} . [^a-z]?"},
    {"ambiguous", R"gbnf(root ::= a "!" | b "?" | a b "."
a ::= "x" a? | "xx" b? | "y"
b ::= ("x" | "y") b? "x"?)gbnf"},
};

std::string message_of(const std::string& grammar) {
  try {
    Grammar::parse(grammar);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct TestVocabulary {
  explicit TestVocabulary(std::vector<std::string> text, std::vector<TokenTable::Special> special = {})
      : pieces(std::move(text)), table(with_end(pieces), std::vector<int32_t>{0}, special) {}
  static std::vector<std::string>& with_end(std::vector<std::string>& pieces) {
    pieces.insert(pieces.begin(), "");
    return pieces;
  }
  std::vector<std::string> pieces;
  TokenTable table;
};

std::vector<std::string> allowed(GrammarMatcher& matcher, const TokenTable& table) {
  std::vector<float> logits(static_cast<size_t>(table.size()), 1.0f);
  matcher.apply(logits);
  std::vector<std::string> result;
  for (int32_t t = 0; t < table.size(); ++t) {
    const float logit = logits[static_cast<size_t>(t)];
    CHECK((logit == 1.0f || logit == kMasked));
    CHECK((logit == 1.0f) == matcher.allows(t));
    if (logit == 1.0f) result.push_back(table.is_eog(t) ? "<end>" : std::string(table.piece(t)));
  }
  return result;
}

using Pieces = std::vector<std::string>;

bool matches(const std::string& gbnf, const std::string& text) {
  const Grammar grammar = Grammar::parse(gbnf);
  std::vector<std::string> bytes;
  for (int b = 0; b < 256; ++b) bytes.push_back(std::string(1, static_cast<char>(b)));
  const TestVocabulary vocabulary(bytes);
  GrammarMatcher matcher(grammar, vocabulary.table);
  for (const char c : text) {
    const int32_t token = 1 + static_cast<uint8_t>(c);
    if (!matcher.allows(token)) return false;
    matcher.accept(token);
  }
  return matcher.can_end();
}

} // namespace

TEST_CASE("literals, escapes and code points mean what GBNF says") {
  CHECK(matches(R"(root ::= "a\n\t\r\"\\\[\]\-\x41\u00e9\U0001F600")", "a\n\t\r\"\\[]-Aé😀"));
  CHECK(matches("root ::= \"日本\"", "日本"));
  CHECK_FALSE(matches("root ::= \"日本\"", "日"));
  CHECK(matches("root ::= \"\"", ""));
  CHECK(matches("root ::= \"\\x80\"", "\u0080")); // a code point, not a byte
}

TEST_CASE("classes hold ranges of code points, negation and literal dashes") {
  CHECK(matches("root ::= [a-cx]+", "abcx"));
  CHECK_FALSE(matches("root ::= [a-cx]+", "d"));
  CHECK(matches("root ::= [a-]+", "a-a"));
  CHECK(matches("root ::= [-a]+", "a-"));
  CHECK(matches("root ::= [^a-c]+", "dé日😀\n"));
  CHECK_FALSE(matches("root ::= [^a-c]+", "b"));
  CHECK(matches("root ::= [ぁ-ゟ]", "ん"));
  CHECK_FALSE(matches("root ::= [ぁ-ゟ]", "ン"));
  CHECK(matches("root ::= [\\]\\[^]+", "][^"));
  CHECK(matches("root ::= .", "\n"));
}

TEST_CASE("any character is any valid UTF-8 and nothing else") {
  for (const char* valid :
       {"\x7f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"}) {
    CHECK(matches("root ::= .", valid));
    CHECK(matches("root ::= [^x]", valid));
  }
  for (const char* invalid : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                              "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe3\x81"}) {
    CHECK_FALSE(matches("root ::= .", invalid));
    CHECK_FALSE(matches("root ::= [^x]", invalid));
  }
}

TEST_CASE("repetitions count") {
  const auto counts = [](const std::string& repetition) {
    std::string result;
    for (int n = 0; n < 8; ++n)
      result += matches("root ::= \"ab\"" + repetition,
                        [&] {
                          std::string text;
                          for (int i = 0; i < n; ++i) text += "ab";
                          return text;
                        }())
                    ? static_cast<char>('0' + n)
                    : '-';
    return result;
  };
  CHECK(counts("*") == "01234567");
  CHECK(counts("+") == "-1234567");
  CHECK(counts("?") == "01------");
  CHECK(counts("{3}") == "---3----");
  CHECK(counts("{3,}") == "---34567");
  CHECK(counts("{2,4}") == "--234---");
  CHECK(counts("{ 0 , 2 }") == "012-----");
  CHECK(counts("{0}") == "0-------");
  CHECK(counts("{2}{2}") == "----4---");
  CHECK(counts("?*") == "01234567");
  CHECK(matches("root ::= (\"\" | \"a\"*)* \"b\"", "aab"));
  CHECK(matches("root ::= (\"\"){1000000000} \"b\"", "b"));
}

TEST_CASE("groups, comments and line ends stand where GBNF allows them") {
  CHECK(matches("# first\r\nroot ::= # second\r\n  a | # third\n  \"b\"\n\n\na ::= (\n\"a\" # fourth\n|\n \"c\")\t",
                "c"));
  CHECK(matches("root ::= x_1 | Y-2\nx_1 ::= \"x\"\nY-2 ::= \"y\"", "y"));
  CHECK(matches("root ::= | \"a\"", ""));
  CHECK(matches("root ::= (\"a\" |) \"b\"", "b"));
}

TEST_CASE("errors name line, column and what was expected") {
  CHECK(message_of("root ::= \"a\"\nb :: \"c\"") ==
        "grammar line 2, column 3: expected `::=` after the rule's name, found `:`");
  CHECK(message_of("root ::= (\"é\" \"b\"") ==
        "grammar line 1, column 18: expected a symbol, `|` or `)`, found the end");
  CHECK(message_of("root ::= \"a") == "grammar line 1, column 10: the literal has no closing `\"`");
  CHECK(message_of("root ::= [a") == "grammar line 1, column 10: the character class has no closing `]`");
  CHECK(message_of("root ::= []").ends_with("column 10: the character class is empty"));
  CHECK(message_of("root ::= [z-a]").ends_with("column 11: the range ends before it begins"));
  CHECK(message_of("root ::= \"\\q\"").find("column 11: unknown escape") != std::string::npos);
  CHECK(message_of("root ::= \"\\x4\"").find("expected 2 hexadecimal digits, found `\"`") != std::string::npos);
  CHECK(message_of("root ::= \"\\ud800\"").find("surrogate") != std::string::npos);
  CHECK(message_of("root ::= \"\\U00110000\"").find("above U+10FFFF") != std::string::npos);
  CHECK(message_of("root ::= *").ends_with("column 10: `*` has nothing before it to repeat"));
  CHECK(message_of("root ::= \"a\"{").find("expected a number, found the end") != std::string::npos);
  CHECK(message_of("root ::= \"a\"{3,2}").find("wrong order") != std::string::npos);
  CHECK(message_of("root ::= \"a\"{99999999999}").find("the number is too large") != std::string::npos);
  CHECK(message_of("root ::= a\nb ::= c") == "grammar line 1, column 10: rule `a` is used but not defined");
  CHECK(message_of("root ::= \"a\"\nroot ::= \"b\"") ==
        "grammar line 2, column 1: rule `root` is defined a second time");
  CHECK(message_of("start ::= \"a\"").find("the rule `root`") != std::string::npos);
  CHECK(message_of("").find("the rule `root`") != std::string::npos);
  CHECK(message_of("root ::= \"\xff\"").find("not UTF-8") != std::string::npos);
  CHECK(message_of("root ::= \"a\" )").find("found `)`") != std::string::npos);
  CHECK(message_of("root ::= <[x]>").find("expected a number") != std::string::npos);
}

TEST_CASE("left recursion is refused by the rule's name, however it hides") {
  CHECK(message_of("root ::= expr\nexpr ::= expr \"+\" \"1\" | \"1\"")
            .find("rule `expr` is left-recursive (expr → expr)") != std::string::npos);
  CHECK(message_of("root ::= a\na ::= b \"x\"\nb ::= a | \"y\"").find("left-recursive (a → b → a)") !=
        std::string::npos);
  CHECK(message_of("root ::= e root | \"x\"\ne ::= \"\" | \"y\"").find("`root` is left-recursive") !=
        std::string::npos);
  CHECK(message_of("root ::= \"x\"? root").find("`root` is left-recursive") != std::string::npos);
  CHECK(message_of("root ::= \"x\" a\na ::= (b c)* \"y\"\nb ::= \"z\"{0,2}\nc ::= a | \"w\"").find("left-recursive") !=
        std::string::npos);
  CHECK(message_of("root ::= \"x\" root | \"\"") == "");
  CHECK(message_of("root ::= \"(\" root \")\" root | \"\"") == "");
}

TEST_CASE("hostile grammars meet a limit") {
  CHECK(message_of("root ::= \"a\"{1000000000}").find("states after expanding") != std::string::npos);
  CHECK(message_of("root ::= ((\"a\"{1000}){1000}){1000}").find("states after expanding") != std::string::npos);
  CHECK(message_of("root ::= " + std::string(100000, '(')).find("nested deeper than") != std::string::npos);
  CHECK(message_of("root ::= \"a\"" + std::string(100000, '*')).find("repetitions in a row") != std::string::npos);
  CHECK(message_of("root ::= " + std::string(2000000, '.')).find("symbols") != std::string::npos);
  std::string classes = "root ::= ";
  for (int i = 0; i < 40000; ++i) classes += fmt::format("[\\U{:08X}\\U{:08X}]", 0x800 + 3 * i, 0x10000 + 3 * i);
  CHECK(message_of(classes).find("character classes need more than") != std::string::npos);

  // A chain of rules, each pushing the stack.
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 50000; ++i) chain += fmt::format("r{} ::= r{} \"x\"?\n", i, i + 1);
  CHECK(matches(chain + "r50000 ::= \"y\"", "yxx"));

  // Every rule doubles the stacks.
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 40; ++i) doubling += fmt::format("r{} ::= r{} \"x\" | r{} \"y\"\n", i, i + 1, i + 1);
  CHECK_THROWS_WITH_AS(matches(doubling + "r40 ::= \"z\"", "z"), doctest::Contains("too ambiguous"), Error);

  const Grammar grammar = Grammar::parse("root ::= a*\na ::= \"x\" | \"x\" a | a2 a\na2 ::= \"x\" \"x\"? | \"x\" a2");
  const TestVocabulary vocabulary({"x", "xx", std::string(1000, 'x')});
  GrammarMatcher matcher(grammar, vocabulary.table);
  try {
    for (int i = 0; i < 100; ++i) matcher.accept(3);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("too ambiguous") != std::string::npos);
  }
  matcher.reset(); // usable after an Error
  matcher.accept(1);
  CHECK(matcher.can_end());
}

TEST_CASE("the mask allows exactly the tokens that can follow, and the end only where the output is complete") {
  const Grammar grammar = Grammar::parse(R"(root ::= "ab" ("c" | "dé"))");
  const TestVocabulary vocabulary(
      {"a", "ab", "abc", "abd", "abx", "b", "c", "cc", "d", "d\xc3", "dé", "dè", "\xa9", "é", ""});
  GrammarMatcher matcher(grammar, vocabulary.table);
  CHECK(allowed(matcher, vocabulary.table) == Pieces{"a", "ab", "abc", "abd"});
  matcher.accept(2);
  CHECK_FALSE(matcher.can_end());
  CHECK(allowed(matcher, vocabulary.table) == Pieces{"c", "d", "d\xc3", "dé"});
  matcher.accept(10);
  CHECK(allowed(matcher, vocabulary.table) == Pieces{"\xa9"});
  matcher.accept(13);
  CHECK(matcher.can_end());
  CHECK(allowed(matcher, vocabulary.table) == Pieces{"<end>"});
  matcher.accept(0);
  CHECK(allowed(matcher, vocabulary.table) == Pieces{"<end>"});
  CHECK_THROWS_WITH_AS(matcher.accept(1), doctest::Contains("does not allow token 1"), Error);
  matcher.reset();
  CHECK(allowed(matcher, vocabulary.table) == Pieces{"a", "ab", "abc", "abd"});
}

TEST_CASE("tokens of equal bytes are allowed together, and ids beyond the vocabulary never") {
  const Grammar grammar = Grammar::parse("root ::= \"a\"+");
  const TestVocabulary vocabulary({"a", "b", "a"});
  GrammarMatcher matcher(grammar, vocabulary.table);
  std::vector<float> logits(10, 1.0f);
  matcher.apply(logits);
  CHECK(logits == std::vector<float>{kMasked, 1, kMasked, 1, kMasked, kMasked, kMasked, kMasked, kMasked, kMasked});
  CHECK_FALSE(matcher.allows(4));
  CHECK_FALSE(matcher.allows(-1));
  std::vector<float> too_short(2);
  CHECK_THROWS_AS(matcher.apply(too_short), Error);
}

TEST_CASE("a grammar can ask for tokens by number, by text and by negation") {
  const TestVocabulary vocabulary({"a", "b", "", ""}, {{"<think>", 3}, {"</think>", 4}});
  const auto first = [&](const std::string& gbnf, std::vector<int32_t> before) {
    const Grammar grammar = Grammar::parse(gbnf);
    GrammarMatcher matcher(grammar, vocabulary.table);
    for (const int32_t token : before) matcher.accept(token);
    std::vector<int32_t> result;
    for (int32_t t = 0; t < vocabulary.table.size(); ++t) {
      if (matcher.allows(t)) result.push_back(t);
    }
    allowed(matcher, vocabulary.table);
    return result;
  };
  using Tokens = std::vector<int32_t>;
  const std::string thinking = "root ::= <think> !</think>* </think> .*";
  CHECK(first(thinking, {}) == Tokens{3});
  CHECK(first(thinking, {3}) == Tokens{1, 2, 3, 4});
  CHECK(first(thinking, {3, 1, 3, 4}) == Tokens{0, 1, 2});
  CHECK(first("root ::= <[4]> \"b\"", {}) == Tokens{4});
  CHECK(first("root ::= <[4]> \"b\"", {4}) == Tokens{2});
  CHECK(first("root ::= !<[1]>", {}) == Tokens{2, 3, 4});
  const Grammar unknown = Grammar::parse("root ::= <nothing>");
  CHECK_THROWS_WITH_AS(GrammarMatcher(unknown, vocabulary.table), doctest::Contains("<nothing> is not a single token"),
                       Error);
  const Grammar beyond = Grammar::parse("root ::= <[99]>");
  CHECK_THROWS_AS(GrammarMatcher(beyond, vocabulary.table), Error);
}

TEST_CASE("whatever is drawn under a grammar's masks parses under the grammar") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr int kOutputs = 60;
  for (const auto& [name, gbnf] : kGrammars) {
    CAPTURE(name);
    const Grammar grammar = Grammar::parse(gbnf);
    Recognizer recognizer(gbnf);
    const auto pieces = ridge::tests::odd_vocabulary(random, "ab01{}[]\",: \n()+=-xye4.");
    const TokenTable table(pieces, std::vector<int32_t>{0});
    GrammarMatcher matcher(grammar, table);
    int complete = 0;
    for (int i = 0; i < kOutputs; ++i) {
      const auto walk =
          ridge::tests::random_walk(matcher, table, random, 12, name == "list" ? "\n" : ridge::tests::kClosers);
      CAPTURE(walk.text);
      if (!walk.is_complete) continue;
      ++complete;
      REQUIRE(recognizer.accepts(walk.text));
    }
    CHECK(complete > 0);
  }
}

TEST_CASE("a mask forbids only tokens after which no output is possible") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const auto& [name, gbnf] : kGrammars) {
    CAPTURE(name);
    const Grammar grammar = Grammar::parse(gbnf);
    Recognizer recognizer(gbnf);
    auto pieces = ridge::tests::odd_vocabulary(random, "ab01{}[]\",: \n()+=-xyeO4.!?");
    // The recognizer needs complete characters.
    std::erase_if(pieces, [](const std::string& piece) {
      try {
        Recognizer::decode(piece);
        return piece == "\xed\xa0\x80" || piece == "\xf4\x90\x80\x80";
      } catch (const std::runtime_error&) {
        return true;
      }
    });
    const TokenTable table(pieces, std::vector<int32_t>{0});
    GrammarMatcher matcher(grammar, table);
    std::string text;
    for (int step = 0; step < 12; ++step) {
      CAPTURE(text);
      CHECK(matcher.can_end() == recognizer.accepts(text));
      std::vector<float> logits(pieces.size(), 0.0f);
      matcher.apply(logits);
      std::vector<int32_t> possible;
      for (int32_t t = 1; t < table.size(); ++t) {
        CAPTURE(t);
        const bool is_allowed = logits[static_cast<size_t>(t)] == 0.0f;
        REQUIRE(is_allowed == (!table.piece(t).empty() && recognizer.is_prefix(text + std::string(table.piece(t)))));
        REQUIRE(is_allowed == matcher.allows(t));
        if (is_allowed) possible.push_back(t);
      }
      if (possible.empty()) break;
      const int32_t token = possible[random() % possible.size()];
      matcher.accept(token);
      text += table.piece(token);
    }
  }
}

TEST_CASE("masks stay right when the matcher has to forget its states") {
  // Deep nesting creates more stacks than the cache keeps.
  const Grammar grammar = Grammar::parse("root ::= \"[\" root* \"]\" | \"{\" root \"}\" | \"(\" root \")\"");
  const TestVocabulary vocabulary({"[", "]", "{", "}", "(", ")", "}]", "[[", "{(", ")}"});
  GrammarMatcher matcher(grammar, vocabulary.table);
  std::mt19937_64 random(5);
  std::vector<char> open;
  std::vector<float> logits(11);
  for (int i = 0; i < 60000; ++i) {
    const int32_t token = i == 0 ? 1 : 1 + 2 * static_cast<int32_t>(random() % 3);
    matcher.accept(token);
    open.push_back("?[?{?("[token]);
    if (i % 50 == 0) {
      std::fill(logits.begin(), logits.end(), 0.0f);
      matcher.apply(logits);
    }
  }
  while (!open.empty()) {
    const int32_t closing = open.back() == '[' ? 2 : open.back() == '{' ? 4 : 6;
    if (closing != 2 && open.size() == 60000) {
      CHECK_FALSE(matcher.allows(closing));
      matcher.accept(1);
      matcher.accept(2);
    }
    for (const int32_t other : {2, 4, 6}) {
      if (other != closing) REQUIRE_FALSE(matcher.allows(other));
    }
    REQUIRE_FALSE(matcher.can_end());
    matcher.accept(closing);
    open.pop_back();
  }
  CHECK(matcher.can_end());
}

TEST_CASE("the sampler keeps to a grammar and asks for a whole mask only when it must") {
  const Grammar grammar = Grammar::parse("root ::= [a-c]{3}");
  const TestVocabulary vocabulary({"a", "b", "c", "d", "ab", "abcd"});
  ridge::core::SamplerParams params;
  params.temp = 1.5f;
  for (int64_t seed = 0; seed < 200; ++seed) {
    params.seed = seed;
    ridge::core::Sampler sampler(params, vocabulary.table.size());
    GrammarMatcher matcher(grammar, vocabulary.table);
    std::string text;
    for (;;) {
      const int32_t token = sampler.sample(std::vector<float>{0, 1, 1, 1, 4, 2, 3}, &matcher);
      matcher.accept(token);
      sampler.accept(token);
      if (vocabulary.table.is_eog(token)) break;
      text += vocabulary.table.piece(token);
    }
    REQUIRE(text.size() == 3);
    REQUIRE(text.find_first_not_of("abc") == std::string::npos);
  }
}
