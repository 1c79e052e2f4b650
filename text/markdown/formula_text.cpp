// LaTeX to one line: (a+b)/2, √(x²+1), xₙ.
#include "core/strings/utf8.h"
#include "text/markdown/formulas.h"

#include <algorithm>
#include <unordered_map>

namespace ridge::text {
namespace {

using Table = std::unordered_map<std::string_view, std::string_view>;

const Table& symbols() {
  static const Table kSymbols = {{"alpha", "α"},
                                 {"beta", "β"},
                                 {"gamma", "γ"},
                                 {"delta", "δ"},
                                 {"epsilon", "ϵ"},
                                 {"varepsilon", "ε"},
                                 {"zeta", "ζ"},
                                 {"eta", "η"},
                                 {"theta", "θ"},
                                 {"vartheta", "ϑ"},
                                 {"iota", "ι"},
                                 {"kappa", "κ"},
                                 {"lambda", "λ"},
                                 {"mu", "μ"},
                                 {"nu", "ν"},
                                 {"xi", "ξ"},
                                 {"pi", "π"},
                                 {"varpi", "ϖ"},
                                 {"rho", "ρ"},
                                 {"varrho", "ϱ"},
                                 {"sigma", "σ"},
                                 {"varsigma", "ς"},
                                 {"tau", "τ"},
                                 {"upsilon", "υ"},
                                 {"phi", "ϕ"},
                                 {"varphi", "φ"},
                                 {"chi", "χ"},
                                 {"psi", "ψ"},
                                 {"omega", "ω"},
                                 {"Gamma", "Γ"},
                                 {"Delta", "Δ"},
                                 {"Theta", "Θ"},
                                 {"Lambda", "Λ"},
                                 {"Xi", "Ξ"},
                                 {"Pi", "Π"},
                                 {"Sigma", "Σ"},
                                 {"Upsilon", "Υ"},
                                 {"Phi", "Φ"},
                                 {"Psi", "Ψ"},
                                 {"Omega", "Ω"},
                                 {"cdot", "·"},
                                 {"times", "×"},
                                 {"div", "÷"},
                                 {"pm", "±"},
                                 {"mp", "∓"},
                                 {"ast", "∗"},
                                 {"star", "⋆"},
                                 {"circ", "∘"},
                                 {"bullet", "•"},
                                 {"oplus", "⊕"},
                                 {"ominus", "⊖"},
                                 {"otimes", "⊗"},
                                 {"odot", "⊙"},
                                 {"le", "≤"},
                                 {"leq", "≤"},
                                 {"ge", "≥"},
                                 {"geq", "≥"},
                                 {"ne", "≠"},
                                 {"neq", "≠"},
                                 {"ll", "≪"},
                                 {"gg", "≫"},
                                 {"approx", "≈"},
                                 {"equiv", "≡"},
                                 {"sim", "∼"},
                                 {"simeq", "≃"},
                                 {"cong", "≅"},
                                 {"propto", "∝"},
                                 {"in", "∈"},
                                 {"notin", "∉"},
                                 {"ni", "∋"},
                                 {"subset", "⊂"},
                                 {"subseteq", "⊆"},
                                 {"supset", "⊃"},
                                 {"supseteq", "⊇"},
                                 {"cup", "∪"},
                                 {"cap", "∩"},
                                 {"setminus", "∖"},
                                 {"emptyset", "∅"},
                                 {"varnothing", "∅"},
                                 {"forall", "∀"},
                                 {"exists", "∃"},
                                 {"nexists", "∄"},
                                 {"neg", "¬"},
                                 {"lnot", "¬"},
                                 {"land", "∧"},
                                 {"wedge", "∧"},
                                 {"lor", "∨"},
                                 {"vee", "∨"},
                                 {"top", "⊤"},
                                 {"bot", "⊥"},
                                 {"perp", "⊥"},
                                 {"parallel", "∥"},
                                 {"mid", "∣"},
                                 {"vdash", "⊢"},
                                 {"models", "⊨"},
                                 {"therefore", "∴"},
                                 {"because", "∵"},
                                 {"to", "→"},
                                 {"rightarrow", "→"},
                                 {"leftarrow", "←"},
                                 {"gets", "←"},
                                 {"leftrightarrow", "↔"},
                                 {"mapsto", "↦"},
                                 {"Rightarrow", "⇒"},
                                 {"Leftarrow", "⇐"},
                                 {"Leftrightarrow", "⇔"},
                                 {"implies", "⇒"},
                                 {"iff", "⇔"},
                                 {"longrightarrow", "⟶"},
                                 {"uparrow", "↑"},
                                 {"downarrow", "↓"},
                                 {"rightleftharpoons", "⇌"},
                                 {"sum", "∑"},
                                 {"prod", "∏"},
                                 {"coprod", "∐"},
                                 {"int", "∫"},
                                 {"iint", "∬"},
                                 {"iiint", "∭"},
                                 {"oint", "∮"},
                                 {"partial", "∂"},
                                 {"nabla", "∇"},
                                 {"infty", "∞"},
                                 {"hbar", "ℏ"},
                                 {"ell", "ℓ"},
                                 {"Re", "ℜ"},
                                 {"Im", "ℑ"},
                                 {"aleph", "ℵ"},
                                 {"angle", "∠"},
                                 {"triangle", "△"},
                                 {"prime", "′"},
                                 {"degree", "°"},
                                 {"dagger", "†"},
                                 {"ldots", "…"},
                                 {"dots", "…"},
                                 {"cdots", "⋯"},
                                 {"vdots", "⋮"},
                                 {"ddots", "⋱"},
                                 {"langle", "⟨"},
                                 {"rangle", "⟩"},
                                 {"lfloor", "⌊"},
                                 {"rfloor", "⌋"},
                                 {"lceil", "⌈"},
                                 {"rceil", "⌉"},
                                 {"lbrace", "{"},
                                 {"rbrace", "}"},
                                 {"lvert", "|"},
                                 {"rvert", "|"},
                                 {"vert", "|"},
                                 {"lVert", "‖"},
                                 {"rVert", "‖"},
                                 {"Vert", "‖"},
                                 {"backslash", "\\"},
                                 {"colon", ":"},
                                 {"checkmark", "✓"},
                                 {"square", "□"},
                                 {"sin", "sin"},
                                 {"cos", "cos"},
                                 {"tan", "tan"},
                                 {"cot", "cot"},
                                 {"sec", "sec"},
                                 {"csc", "csc"},
                                 {"arcsin", "arcsin"},
                                 {"arccos", "arccos"},
                                 {"arctan", "arctan"},
                                 {"sinh", "sinh"},
                                 {"cosh", "cosh"},
                                 {"tanh", "tanh"},
                                 {"log", "log"},
                                 {"ln", "ln"},
                                 {"exp", "exp"},
                                 {"lim", "lim"},
                                 {"max", "max"},
                                 {"min", "min"},
                                 {"sup", "sup"},
                                 {"inf", "inf"},
                                 {"det", "det"},
                                 {"dim", "dim"},
                                 {"ker", "ker"},
                                 {"gcd", "gcd"},
                                 {"deg", "deg"},
                                 {"arg", "arg"},
                                 {"Pr", "Pr"},
                                 {"mod", "mod"},
                                 {"bmod", "mod"},
                                 {"quad", "  "},
                                 {"qquad", "    "},
                                 {"limits", ""},
                                 {"nolimits", ""},
                                 {"displaystyle", ""},
                                 {"textstyle", ""},
                                 {"nonumber", ""}};
  return kSymbols;
}

constexpr std::u32string_view kRaisedFrom = U"0123456789+-−=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVW∘′",
                              kRaised = U"⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂ°′",
                              kLoweredFrom = U"0123456789+-−=()aehijklmnoprstuvxβγρφχ",
                              kLowered = U"₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ";
static_assert(kRaisedFrom.size() == kRaised.size() && kLoweredFrom.size() == kLowered.size());

// Character by character; nullopt: one has no counterpart.
std::optional<std::string> replaced(std::string_view text, std::u32string_view from, std::u32string_view to) {
  std::string result;
  while (!text.empty()) {
    const char32_t c = core::take_character(text);
    if (c == ' ') continue;
    const size_t at = from.find(c);
    if (at == from.npos) return std::nullopt;
    core::append_utf8(result, to[at]);
  }
  return result;
}

constexpr std::pair<std::string_view, std::string_view> kOverLetters[] = {
    {"hat", "\u0302"}, {"widehat", "\u0302"}, {"bar", "\u0304"},   {"overline", "\u0304"}, {"vec", "\u20d7"},
    {"dot", "\u0307"}, {"ddot", "\u0308"},    {"tilde", "\u0303"}, {"widetilde", "\u0303"}};
constexpr std::string_view kPlainText[] = {"text",       "textbf",       "textit",  "textrm", "mathrm",
                                           "mathbf",     "mathit",       "mathsf",  "mathtt", "bm",
                                           "boldsymbol", "operatorname", "mathcal", "mbox"};
constexpr std::string_view kSizes[] = {"left", "right", "big",  "Big",  "bigg",  "Bigg",
                                       "bigl", "bigr",  "Bigl", "Bigr", "middle"};
constexpr std::string_view kLines[] = {"aligned", "align", "align*",   "gathered", "gather",
                                       "gather*", "split", "equation", "equation*"};
constexpr int kDeepest = 24;

struct NotUnicode {};

class Reader {
 public:
  explicit Reader(std::string_view latex) : rest_(latex) {}

  std::string whole() {
    std::string text = until('\0');
    const size_t first = text.find_first_not_of(" \n");
    if (first == text.npos) return "";
    return text.substr(first, text.find_last_not_of(" \n") + 1 - first);
  }

 private:
  // Consumes `closing`; '\0': to the end.
  std::string until(char closing) {
    if (++depth_ > kDeepest) throw NotUnicode();
    std::string text;
    while (!rest_.empty() && !(closing && rest_[0] == closing)) add_next(text);
    if (closing) {
      if (rest_.empty()) throw NotUnicode();
      rest_.remove_prefix(1);
    }
    --depth_;
    return text;
  }

  void add_next(std::string& text) {
    const char c = rest_[0];
    if (c == '\\') {
      add_command(text);
      return;
    }
    if (c == '^' || c == '_') {
      rest_.remove_prefix(1);
      add_script(text, c);
      return;
    }
    if (c == '}') throw NotUnicode();
    if (static_cast<unsigned char>(c) >= 0x80) {
      core::append_utf8(text, core::take_character(rest_));
      return;
    }
    rest_.remove_prefix(1);
    switch (c) {
    case '{': text += until('}'); break;
    case '-': text += "−"; break;
    case '\'': text += "′"; break;
    case '&': break;
    case '~':
    case ' ':
    case '\t':
    case '\n':
      if (!text.empty() && text.back() != ' ' && text.back() != '\n') text += ' ';
      break;
    default: text += c;
    }
  }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\t"), rest_.size())); }

  std::string argument() {
    skip_spaces();
    if (rest_.empty()) throw NotUnicode();
    std::string text;
    add_next(text);
    return text;
  }

  // Verbatim, between braces.
  std::string raw_argument() {
    skip_spaces();
    const size_t end = rest_.find('}');
    if (rest_.empty() || rest_[0] != '{' || end == rest_.npos) throw NotUnicode();
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string command_name() {
    rest_.remove_prefix(1);
    if (rest_.empty()) throw NotUnicode();
    size_t end = 0;
    while (end < rest_.size() && ((rest_[end] | 32) >= 'a' && (rest_[end] | 32) <= 'z')) ++end;
    std::string name(rest_.substr(0, std::max<size_t>(end, 1)));
    rest_.remove_prefix(name.size());
    return name;
  }

  void add_command(std::string& text) {
    const std::string name = command_name();
    if (const auto known = symbols().find(name); known != symbols().end()) {
      text += known->second;
    } else if (name.size() == 1 && std::string_view("{}$%&#_ ").find(name[0]) != std::string_view::npos) {
      text += name;
    } else if (name == "," || name == ";" || name == ":") {
      text += ' ';
    } else if (name == "!") {
      return;
    } else if (name == "|") {
      text += "‖";
    } else if (name == "\\") {
      text += '\n';
    } else if (name == "frac" || name == "dfrac" || name == "tfrac" || name == "cfrac") {
      const std::string above = argument(), below = argument();
      text += in_brackets(above) + "/" + in_brackets(below);
    } else if (name == "sqrt") {
      add_root(text);
    } else if (name == "mathbb") {
      add_double_struck(text);
    } else if (name == "begin" || name == "end") {
      if (std::ranges::find(kLines, raw_argument()) == std::end(kLines)) throw NotUnicode();
    } else if (name == "pmod") {
      text += "(mod " + argument() + ")";
    } else if (name == "boxed") {
      text += argument();
    } else if (name == "tag") {
      text += " (" + raw_argument() + ")";
    } else if (std::ranges::find(kPlainText, name) != std::end(kPlainText)) {
      skip_spaces();
      text += name.starts_with("text") || name == "mbox" ? raw_argument() : argument();
    } else if (std::ranges::find(kSizes, name) != std::end(kSizes)) {
      skip_spaces();
      if (rest_.starts_with('.')) rest_.remove_prefix(1);
    } else {
      add_over(text, name);
    }
  }

  void add_over(std::string& text, const std::string& name) {
    const auto over = std::ranges::find(kOverLetters, name, [](const auto& each) { return each.first; });
    if (over == std::end(kOverLetters)) throw NotUnicode();
    std::string letters = argument();
    if (core::utf8_length(letters) != 1) throw NotUnicode();
    text += letters += over->second;
  }

  void add_root(std::string& text) {
    skip_spaces();
    if (rest_.starts_with('[')) {
      rest_.remove_prefix(1);
      const auto degree = replaced(until(']'), kRaisedFrom, kRaised);
      if (!degree) throw NotUnicode();
      text += *degree;
    }
    text += "√" + in_brackets(argument());
  }

  void add_double_struck(std::string& text) {
    constexpr std::pair<char, std::string_view> kLetters[] = {{'N', "ℕ"}, {'Z', "ℤ"}, {'Q', "ℚ"}, {'R', "ℝ"},
                                                              {'C', "ℂ"}, {'P', "ℙ"}, {'H', "ℍ"}};
    for (const char c : argument()) {
      const auto letter = std::ranges::find(kLetters, c, [](const auto& each) { return each.first; });
      letter == std::end(kLetters) ? text += c : text += letter->second;
    }
  }

  void add_script(std::string& text, char mark) {
    const std::string script = argument();
    const bool up = mark == '^';
    if (const auto small = up ? replaced(script, kRaisedFrom, kRaised) : replaced(script, kLoweredFrom, kLowered))
      text += *small;
    else
      text += mark + in_brackets(script);
  }

  // Adds brackets around compound expressions.
  static std::string in_brackets(const std::string& text) {
    const bool one = text.find_first_of(" +/=,*") == text.npos && text.find("−") == text.npos &&
                     text.find("·") == text.npos && text.find("×") == text.npos && text.find("±") == text.npos;
    const bool has_brackets = text.starts_with('(') && text.find(')') == text.size() - 1;
    return one || has_brackets ? text : "(" + text + ")";
  }

  std::string_view rest_;
  int depth_ = 0;
};

} // namespace

std::optional<std::string> formula_as_unicode(std::string_view latex) try {
  return Reader(latex).whole();
} catch (const NotUnicode&) {
  return std::nullopt;
}

} // namespace ridge::text
