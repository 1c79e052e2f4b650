// Blocks, runs, formulas, highlighting.
#include "text/markdown/document.h"
#include "text/markdown/formulas.h"
#include "text/markdown/syntax.h"

#include <doctest/doctest.h>

#include <random>

using namespace ridge::text;
using Kind = MarkdownBlock::Kind;

namespace {

std::string text_of(const MarkdownRuns& runs) {
  std::string text;
  for (const MarkdownRun& run : runs) {
    std::string marks;
    if (run.style & kBold) marks += 'b';
    if (run.style & kItalic) marks += 'i';
    if (run.style & kStruck) marks += 's';
    if (run.style & kCode) marks += 'c';
    if (run.style & kLink) marks += "a " + run.address;
    if (run.style & kFormula) marks += 'f';
    if (run.style & kLatex) marks += 'l';
    if (run.display) marks += 'd';
    text += marks.empty() ? run.text : "<" + marks + ">" + run.text + "</>";
  }
  return text;
}

std::string marked(const std::string& markdown) {
  std::string all;
  for (const MarkdownBlock& block : parse_markdown(markdown)) all += (all.empty() ? "" : "|") + text_of(block.runs);
  return all;
}

std::vector<std::string> formulas(std::string_view text) {
  std::vector<std::string> found;
  for (const FormulaPlace& place : find_formulas(text)) found.emplace_back(place.latex(text));
  return found;
}

using Texts = std::vector<std::string>;

} // namespace

TEST_CASE("emphasis, links, code, entities and struck text become runs in their styles") {
  CHECK(marked("a *b* **c** ***d*** ~~e~~ `f`") == "a <i>b</> <b>c</> <bi>d</> <s>e</> <c>f</>");
  CHECK(marked("[text](https://a.b/c_d) and https://x.y/z?q=1") ==
        "<a https://a.b/c_d>text</> and <a https://x.y/z?q=1>https://x.y/z?q=1</>");
  CHECK(marked("![a cat](cat.png)") == "<a cat.png>a cat</>");
  CHECK(marked("1 &lt; 2 &amp; 3 &#x41; &#0; &unknown;") == "1 < 2 & 3 A &#0; &unknown;");
  CHECK(marked("one\ntwo  \nthree") == "one two\nthree");
  CHECK(marked("<b>no html</b>") == "<b>no html</b>");
  CHECK(marked("**not closed") == "**not closed");
}

TEST_CASE("lists, quotes, headings, rules, tasks and code become blocks with what they stand in") {
  const auto blocks = parse_markdown("# One\n\n3. first\n   - inner\n4. second\n\n> said\n>\n> more\n\n---\n\n"
                                     "- [ ] open\n- [x] done\n\n```cpp\nint a;\n\n  b();\n```\n");
  REQUIRE(blocks.size() == 10);
  CHECK(blocks[0].kind == Kind::heading);
  CHECK(blocks[0].level == 1);
  CHECK(blocks[1].margins.at(0).mark == "3.");
  CHECK(blocks[2].margins.size() == 2);
  CHECK(blocks[2].margins[0].mark.empty());
  CHECK(blocks[2].margins[1].mark == "•");
  CHECK(blocks[2].close);
  CHECK(blocks[3].margins.at(0).mark == "4.");
  CHECK(blocks[4].margins.at(0).quote);
  CHECK(text_of(blocks[5].runs) == "more");
  CHECK(blocks[6].kind == Kind::rule);
  CHECK(blocks[7].margins.at(0).mark == "☐");
  CHECK(blocks[8].margins.at(0).mark == "☑");
  CHECK(blocks[9].kind == Kind::code);
  CHECK(blocks[9].language == "cpp");
  CHECK(blocks[9].code == "int a;\n\n  b();");
  CHECK(blocks[9].lines.size() == 3);
  CHECK(parse_markdown("```\nstill being written").at(0).code == "still being written");
  CHECK(parse_markdown("-\n- b").at(0).margins.at(0).mark == "•");
}

TEST_CASE("a table has rows of cells and alignments") {
  const auto blocks = parse_markdown("| a | b |\n|:--|--:|\n| *1* | $x|y$ |\n");
  REQUIRE(blocks.size() == 1);
  REQUIRE(blocks[0].rows.size() == 2);
  CHECK(blocks[0].aligns == std::vector{MarkdownBlock::Align::left, MarkdownBlock::Align::right});
  CHECK(text_of(blocks[0].rows[0][1]) == "<b>b</>");
  CHECK(text_of(blocks[0].rows[1][0]) == "<i>1</>");
  CHECK(text_of(blocks[0].rows[1][1]) == "<f>x|y</>");
}

TEST_CASE("runs that are as in the source say where they stand there") {
  const std::string source = "# Größe\n\n- see **bold** and `x = 1` &amp; \\(a_1\\) end\n\n```\nline\n  two\n```\n";
  for (const MarkdownBlock& block : parse_markdown(source)) {
    for (const MarkdownRun& run : block.runs)
      if (run.verbatim) CHECK(source.substr(run.source, run.text.size()) == run.text);
    for (const MarkdownBlock::Line& line : block.lines) {
      const size_t end = std::min(block.code.find('\n', line.begin), block.code.size());
      CHECK(source.substr(line.source, end - line.begin) == block.code.substr(line.begin, end - line.begin));
    }
  }
  CHECK(marked(source) == "Größe|see <b>bold</> and <c>x = 1</> & <f>a₁</> end|");
}

TEST_CASE("formulas are found outside of code, and prices are none") {
  CHECK(formulas("let $x_1$ and \\(y\\) be\n\\[ z \\]\nor $$w\n+ 1$$") == Texts{"x_1", "y", " z ", "w\n+ 1"});
  CHECK(formulas("$5 and $10, US$3$, $ a$, \\$x$ y").empty());
  CHECK(formulas("`$a$` and ``\\(b\\)``").empty());
  CHECK(formulas("```\n$a$\n```\n$b$") == Texts{"b"});
  CHECK(formulas("- code\n  ~~~py\n  $a$\n  ~~~\n- $b$") == Texts{"b"});
  CHECK(formulas("\\(not\n\nclosed\\)").empty());
  CHECK(formulas("$a \\$ b$") == Texts{"a \\$ b"});
}

TEST_CASE("formulas become Unicode where it has what they need") {
  const auto text = [](const char* latex) { return formula_as_unicode(latex).value_or("-"); };
  CHECK(text("E = mc^2") == "E = mc²");
  CHECK(text("x^{n+1}_{i}") == "xⁿ⁺¹ᵢ");
  CHECK(text("\\frac{a+b}{2} - \\frac12") == "(a+b)/2 − 1/2");
  CHECK(text("\\sqrt{x^2+1} \\cdot \\sqrt[3]{y}") == "√(x²+1) · ³√y");
  CHECK(text("\\sum_{i=1}^{n} i \\le \\infty") == "∑ᵢ₌₁ⁿ i ≤ ∞");
  CHECK(text("e^{i\\pi}") == "e^iπ");
  CHECK(text("\\alpha \\in \\mathbb{R}, \\text{if } x > 0") == "α ∈ ℝ, if x > 0");
  CHECK(text("\\left( \\frac{1}{n} \\right)") == "( 1/n )");
  CHECK(text("\\hat{x} = \\mathrm{argmax}\\{y\\}") == "x̂ = argmax{y}");
  CHECK(text("\\begin{aligned} a &= b \\\\ &= c \\end{aligned}").find('\n') != std::string::npos);
  for (const char* none :
       {"\\begin{pmatrix} a & b \\end{pmatrix}", "\\unknown{x}", "{a", "a}", "x^", "\\frac{a}", "\\"})
    CHECK(text(none) == "-");
  CHECK(text(std::string(1000, '{').c_str()) == "-");
}

TEST_CASE("code has keywords, strings, numbers and comments by language") {
  const auto parts = [](std::string_view code, std::string_view language) {
    std::string all;
    for (const CodePart& part : code_parts(code, language)) {
      constexpr std::string_view kLetters = "pksnc";
      all += kLetters[static_cast<size_t>(part.kind)];
      all += std::string(code.substr(part.begin, part.end - part.begin)) + "|";
    }
    return all;
  };
  CHECK(parts("int main() { return 0x1F; } // end", "cpp") == "kint|kreturn|n0x1F|c// end|");
  CHECK(parts("def f(x='a\\'b'):\n  \"\"\"doc\n\"\"\"\n  # no", "python") == "kdef|s'a\\'b'|s\"\"\"doc\n\"\"\"|c# no|");
  CHECK(parts("SELECT * FROM t -- all", "sql") == "kSELECT|kFROM|c-- all|");
  CHECK(parts("<!-- a --> <b class=\"c\">", "html") == "c<!-- a -->|s\"c\"|");
  CHECK(parts("fn f<'a>() {}", "rust") == "kfn|");
  CHECK(parts("echo \"$x\" # y", "bash") == "kecho|s\"$x\"|c# y|");
  CHECK(parts("if \"a\" 1", "text") == "");
  CHECK(parts("if \"a\" 1", "nonesuch") == "s\"a\"|n1|");
  CHECK(parts("/* open", "c") == "c/* open|");
}

TEST_CASE("any text can be parsed, and parts of it are found where they say") {
  std::mt19937_64 random(7);
  constexpr std::string_view kPieces[] = {"$",    "$$",   "\\(", "\\)",  "\\[", "\\]",  "`",  "```\n",
                                          "\n",   "\n\n", "> ",  "- ",   "1. ", "*",    "**", "|",
                                          "|--|", "[x](", ")",   "&lt;", "a",   " b ",  "#",  "\x02",
                                          "\xff", "你",   "~~",  "\\",   "\t",  "    ", "_",  "<b>"};
  for (int round = 0; round < 3000; ++round) {
    std::string source;
    for (size_t i = random() % 40; i > 0; --i) source += kPieces[random() % std::size(kPieces)];
    CAPTURE(source);
    for (const MarkdownBlock& block : parse_markdown(source)) {
      for (const MarkdownRun& run : block.runs)
        if (run.verbatim && source.substr(run.source, run.text.size()) != run.text) FAIL("a run is elsewhere");
      size_t end = 0;
      for (const CodePart& part : code_parts(block.code, "cpp")) {
        if (part.begin < end || part.end <= part.begin || part.end > block.code.size()) FAIL("parts overlap");
        end = part.end;
      }
    }
  }
}
