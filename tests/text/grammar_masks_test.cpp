// Masks equal what the bytes of each token allow, whatever shortcut made them.
#include "text/grammar/grammar_masks.h"

#include "grammar_walk.h"
#include "support/numerics.h"
#include "text/grammar/grammar_cache.h"
#include "text/grammar/json_schema/json_schema.h"
#include "text/schema/schema.h"

using namespace ridge::text;
using Json = nlohmann::ordered_json;

namespace {

Json random_schema(std::mt19937_64& random, int depth) {
  const auto number = [&](int most) { return static_cast<int>(random() % static_cast<uint64_t>(most + 1)); };
  switch (random() % (depth > 0 ? 9 : 6)) {
  case 0: return {{"type", "string"}};
  case 1: {
    const int least = number(3);
    return {{"type", "string"}, {"minLength", least}, {"maxLength", least + number(12)}};
  }
  case 2: return {{"enum", {"a", "ab", "abc", "the end", 12, nullptr}}};
  case 3: {
    static const char* const kPatterns[] = {"^[a-z]{2,6}$", "^[^,]*,x$", "^(a|b[^b]+)c*$", "^[A-Za-z0-9_. -]+$", "é+x"};
    return {{"type", "string"}, {"pattern", kPatterns[random() % std::size(kPatterns)]}};
  }
  case 4: {
    static const char* const kFormats[] = {"date", "email", "uuid", "uri", "ipv4", "hostname"};
    return {{"type", "string"}, {"format", kFormats[random() % std::size(kFormats)]}};
  }
  case 5:
    return {{"type", random() % 2 ? "integer" : "number"}, {"minimum", number(20) - 10}, {"maximum", 10 + number(200)}};
  case 6: return {{"type", "array"}, {"items", random_schema(random, depth - 1)}, {"maxItems", 1 + number(3)}};
  case 7: return {{"type", "object"}, {"additionalProperties", random_schema(random, depth - 1)}};
  default: {
    Json schema = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
    for (const char* name : {"a", "ab", "name", "é", "x y"}) {
      if (random() % 2) continue;
      schema["properties"][name] = random_schema(random, depth - 1);
      if (random() % 2) schema["required"].push_back(name);
    }
    if (random() % 3 == 0) schema["additionalProperties"] = true;
    return schema;
  }
  }
}

// Follows random tokens, and at each step asks for each token alone.
void check_masks(const Grammar& grammar, const TokenTable& table, std::mt19937_64& random, int steps) {
  GrammarMatcher matcher(grammar, table);
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    const auto mask = matcher.mask();
    const TokenBits bits(mask.begin(), mask.end());
    std::vector<int32_t> allowed;
    std::string wrong;
    for (int32_t token = 0; token < table.size(); ++token) {
      const bool is_allowed = bits[static_cast<size_t>(token) / 64] >> (token % 64) & 1;
      if (is_allowed != matcher.allows(token)) wrong += std::to_string(token) + " ";
      if (is_allowed && !table.is_eog(token)) allowed.push_back(token);
    }
    REQUIRE(wrong == "");
    if (allowed.empty()) return;
    matcher.accept(allowed[random() % allowed.size()]);
  }
}

TokenTable random_table(std::mt19937_64& random) {
  std::vector<std::string> pieces = ridge::tests::odd_vocabulary(random, "abcdexy_-.,:\"{}[] 012é\\\n/@");
  for (int i = 0; i < 200; ++i) { // words with what may stand behind a string
    std::string piece;
    for (uint64_t n = random() % 12; n > 0; --n) piece += "abx é日"[random() % 9];
    static const char* const kEnds[] = {"", "\"", "\",", "\", \"", "\"}", "\\n", "\n", "\x7f", "\": \"", "\xe6\x97"};
    pieces.push_back(piece + kEnds[random() % std::size(kEnds)]);
  }
  return TokenTable(pieces, std::vector<int32_t>{0});
}

} // namespace

TEST_CASE("the mask of a random schema is what the bytes of each token allow") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TokenTable table = random_table(random);
  for (int round = 0; round < 60; ++round) {
    const Json schema = random_schema(random, 3);
    CAPTURE(round);
    CAPTURE(schema.dump());
    check_masks(Grammar::parse(gbnf_from_json_schema(clean_schema(schema))), table, random, 25);
  }
}

TEST_CASE("the mask of a text that is free for a while is what the bytes of each token allow") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const TokenTable table = random_table(random);
  for (const char* gbnf : {
           R"(root ::= [^"]{2,5} "\"" [a-z]*)",                  // bounds, then another class
           R"(root ::= [^"]* "\"" | [^b]{3} "x")",               // two classes at once
           R"(root ::= word ("," word)*  word ::= [a-zé]+)",     // the class may end the rule
           R"(root ::= word ("," word)*  word ::= [^,x]{2,40})", // more than the longest token
           R"(root ::= [^a-z"]{0,3} ([b-y]+ "z")? "\"")",        // a class follows that it excludes
           R"(root ::= ("a" | [^"])* "\"")",                     // a byte that the class has, too
           R"(root ::= [日é]+ "!")",                             // no ASCII
           R"(root ::= .{3,} "end")",                            // everything
       }) {
    std::string text(gbnf);
    if (const size_t at = text.find("  word"); at != std::string::npos) text.replace(at, 2, "\n");
    CAPTURE(text);
    const Grammar grammar = Grammar::parse(text);
    for (int round = 0; round < 8; ++round) check_masks(grammar, table, random, 15);
  }
}

TEST_CASE("matchers that share a grammar's states do not disturb each other, also when these are full") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::vector<std::string> pieces = ridge::tests::odd_vocabulary(random, "ab(),");
  const auto table = std::make_shared<const TokenTable>(pieces, std::vector<int32_t>{0});
  // Each depth of brackets is a state of its own.
  const SharedGrammar shared(Grammar::parse(R"gbnf(root ::= item*
item ::= [a-b]+ | "(" item* ")" | ",")gbnf"));
  std::vector<GrammarMatcher> matchers, alone;
  for (int i = 0; i < 3; ++i) matchers.emplace_back(shared.masks(table)), alone.emplace_back(shared.grammar(), *table);
  CHECK(shared.masks(table) == shared.masks(table));
  const auto first = shared.masks(table);
  const int32_t open = table->find("("), close = table->find(")");
  for (int step = 0; shared.masks(table) == first; ++step) {
    REQUIRE(step < 100'000);
    matchers[0].accept(open); // fills them
    if (step % 1000 != 0) continue;
    for (size_t i = 1; i < matchers.size(); ++i) {
      const auto a = matchers[i].mask(), b = alone[i].mask();
      REQUIRE(std::ranges::equal(a, b));
      const int32_t token = random() % 2 || !alone[i].allows(close) ? open : close;
      matchers[i].accept(token), alone[i].accept(token);
    }
  }
  matchers[0].accept(open); // goes on in new states
  CHECK(matchers[0].allows(close));
  for (size_t i = 1; i < matchers.size(); ++i) CHECK(std::ranges::equal(matchers[i].mask(), alone[i].mask()));
}

TEST_CASE("masks of many states with the same text ahead take no more memory than they may") {
  std::vector<std::string> pieces = {"", "[", "]"};
  for (int i = 0; i < 1000; ++i) pieces.push_back(std::to_string(i)); // where a number may end
  while (pieces.size() < 66'000) pieces.push_back("x" + std::to_string(pieces.size()));
  const auto table = std::make_shared<const TokenTable>(pieces, std::vector<int32_t>{0});
  const auto grammar = std::make_shared<const Grammar>(Grammar::parse(R"(root ::= "[" root "]" | [0-9]+)"));
  const auto masks = std::make_shared<GrammarMasks>(grammar, table);
  GrammarMatcher matcher(masks);
  for (int depth = 0; depth < 1500; ++depth) { // a mask has 8 kB
    matcher.accept_text("[");
    matcher.mask();
  }
  CHECK(masks->bytes() - masks->states().bytes() < GrammarMasks::kMaxBytes + (1u << 20));
}

TEST_CASE("a grammar forces the text that alone may follow") {
  const std::vector<std::string> pieces = {"", "a", "{", "\"", "name", "\":"};
  const TokenTable table(pieces, std::vector<int32_t>{0});
  const Grammar grammar = Grammar::parse(R"(root ::= "{\"name\": " ("true" | "tree" | "[" [0-9] "]") "}")");
  GrammarMatcher matcher(grammar, table);
  CHECK(matcher.forced_text() == "{\"name\": ");
  matcher.accept_text("{\"na");
  CHECK(matcher.forced_text() == "me\": ");
  matcher.accept_text("me\": ");
  CHECK(matcher.forced_text() == "");
  matcher.accept_text("t");
  CHECK(matcher.forced_text() == "r");
  matcher.accept_text("re");
  CHECK(matcher.forced_text() == "e}");
  matcher.accept_text("e}");
  CHECK(matcher.forced_text() == ""); // the end
}

TEST_CASE("a cache makes a grammar once and drops those that were not used for long") {
  GrammarCache cache;
  int made = 0;
  const auto get = [&](const std::string& key) {
    return cache.get(key, [&] {
      ++made;
      return Grammar::parse("root ::= \"a\"");
    });
  };
  const auto first = get("a");
  CHECK(get("a") == first);
  CHECK(made == 1);
  const std::string large(GrammarCache::kMaxBytes / 8, 'x'); // counts twice
  for (const char* key : {"1", "2", "3"}) get(large + key);
  CHECK(get("a") == first);
  get(large + "4");
  CHECK(get("a") == first); // used lately
  CHECK(made == 5);
  get(large + "1");
  CHECK(made == 6);
  CHECK_THROWS_AS(cache.get("bad", [] { return Grammar::parse("nothing"); }), ridge::Error);
  CHECK(get("bad") != nullptr); // errors are not kept
}
