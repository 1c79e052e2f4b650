#include "text/markdown/syntax.h"

#include "core/strings/lower.h"

#include <algorithm>
#include <string>

namespace ridge::text {
namespace {

// Space-separated.
struct Language {
  std::string_view names, keywords;
  std::string_view line_comment, second_line_comment;
  std::string_view comment_begin, comment_end;
  std::string_view quotes;
  bool triple_quotes = false; // """ and ''' for multi-line strings
  bool multiline_strings = false;
  bool any_case = false;
};

constexpr std::string_view kCWords =
    "if else for while do switch case default break continue return goto struct union enum typedef sizeof static "
    "extern const volatile inline void int long short char float double unsigned signed bool true false auto register "
    "#include #define #ifdef #ifndef #endif #if #else #pragma NULL";
constexpr std::string_view kCppWords =
    "if else for while do switch case default break continue return goto struct union enum typedef sizeof static "
    "extern const volatile inline void int long short char float double unsigned signed bool true false auto class "
    "public private protected virtual override final template typename namespace using new delete this throw try catch "
    "constexpr consteval constinit noexcept nullptr operator friend explicit mutable concept requires co_await "
    "co_return co_yield static_cast dynamic_cast reinterpret_cast const_cast decltype static_assert #include #define "
    "#ifdef #ifndef #endif #if #else #pragma __global__ __device__ __shared__ __host__";
constexpr std::string_view kJavaWords =
    "abstract assert boolean break byte case catch char class const continue default do double else enum extends final "
    "finally float for if implements import instanceof int interface long native new package private protected public "
    "return short static super switch synchronized this throw throws transient try void volatile while true false null "
    "var record sealed permits yield fun val when object companion override open data is in as out string bool "
    "namespace using get set async await foreach internal readonly struct delegate event partial where base";
constexpr std::string_view kScriptWords =
    "async await break case catch class const continue debugger default delete do else export extends finally for from "
    "function if import in instanceof let new of return static super switch this throw try typeof var void while yield "
    "true false null undefined interface type enum implements private public protected readonly as keyof namespace "
    "declare abstract string number boolean any never unknown";
constexpr std::string_view kPythonWords =
    "and as assert async await break class continue def del elif else except finally for from global if import in is "
    "lambda nonlocal not or pass raise return try while with yield True False None match case self";
constexpr std::string_view kRustWords =
    "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move "
    "mut pub ref return self Self static struct super trait true type unsafe use where while u8 u16 u32 u64 usize i8 "
    "i16 i32 i64 isize f32 f64 bool char str String Vec Option Result Some None Ok Err";
constexpr std::string_view kGoWords =
    "break case chan const continue default defer else fallthrough for func go goto if import interface map package "
    "range return select struct switch type var true false nil string int int64 int32 uint64 float64 bool byte error "
    "make new len append";
constexpr std::string_view kShellWords =
    "if then else elif fi for while until do done case esac in function return exit local export readonly set unset "
    "shift break continue source alias echo cd sudo";
constexpr std::string_view kSqlWords =
    "select from where and or not insert into values update set delete create table drop alter add primary key foreign "
    "references join left right inner outer full on as group by order having limit offset union all distinct case when "
    "then else end null is in like between exists count sum avg min max index view with asc desc int integer text "
    "varchar default unique check";
constexpr std::string_view kRubyWords =
    "alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or redo "
    "rescue retry return self super then true undef unless until when while yield require attr_accessor puts local "
    "function repeat";

constexpr Language kLanguages[] = {
    {" c h opencl ", kCWords, "//", "", "/*", "*/", "\"'"},
    {" cpp c++ cc cxx hpp cu cuda glsl hlsl ", kCppWords, "//", "", "/*", "*/", "\"'"},
    {" java kotlin kt scala csharp cs c# dart swift groovy ", kJavaWords, "//", "", "/*", "*/", "\"'"},
    {" js javascript jsx ts typescript tsx mjs ", kScriptWords, "//", "", "/*", "*/", "\"'", false, true},
    {" py python python3 ", kPythonWords, "#", "", "", "", "\"'", true},
    {" rust rs ", kRustWords, "//", "", "/*", "*/", "\""},
    {" go golang ", kGoWords, "//", "", "/*", "*/", "\"'", false, true},
    {" sh bash shell zsh console dockerfile makefile make ", kShellWords, "#", "", "", "", "\"'"},
    {" sql mysql postgresql sqlite ", kSqlWords, "--", "", "/*", "*/", "'\"", false, false, true},
    {" rb ruby ", kRubyWords, "#", "", "", "", "\"'"},
    {" lua ", kRubyWords, "--", "", "", "", "\"'"},
    {" json jsonc json5 ", "true false null", "//", "", "", "", "\""},
    {" yaml yml toml ini ", "true false null yes no on off", "#", "", "", "", "\"'", true},
    {" css scss less ", "@media @import @keyframes important", "", "", "/*", "*/", "\"'"},
    {" html xml svg vue ", "", "", "", "<!--", "-->", "\""},
    {" r julia jl ",
     "function if else for while repeat in next break TRUE FALSE NULL NA end return using struct module "
     "true false nothing begin let do library",
     "#", "", "", "", "\"'"},
    {" matlab octave latex tex ", "function end if else elseif for while return", "%", "", "", "", "\""},
    {" php ", kScriptWords, "//", "#", "/*", "*/", "\"'"},
};
constexpr Language kUnknown = {"", "", "", "", "", "", "\""};

const Language* language_of(std::string_view name) {
  const std::string lower = core::lower(name.substr(0, name.find_first_of(" ,{:")));
  if (lower == "text" || lower == "txt" || lower == "plain" || lower == "plaintext" || lower == "markdown" ||
      lower == "md" || lower == "diff" || lower.empty())
    return nullptr;
  for (const Language& language : kLanguages)
    if (language.names.find(" " + lower + " ") != std::string_view::npos) return &language;
  return &kUnknown;
}

bool is_numeral(char c) { return c >= '0' && c <= '9'; }
bool is_of_word(char c) {
  return is_numeral(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<signed char>(c) < 0;
}

class Lexer {
 public:
  Lexer(std::string_view code, const Language& language) : code_(code), language_(language) {}

  std::vector<CodePart> parts() {
    while (at_ < code_.size())
      if (!comment() && !string() && !number() && !word()) ++at_;
    return std::move(parts_);
  }

 private:
  bool begins(std::string_view mark) const { return !mark.empty() && code_.substr(at_).starts_with(mark); }
  void add(size_t end, CodeKind kind) {
    parts_.push_back({at_, end, kind});
    at_ = end;
  }
  size_t behind(std::string_view mark, size_t from) const {
    const size_t end = code_.find(mark, from);
    return end == code_.npos ? code_.size() : end + mark.size();
  }

  bool comment() {
    if (begins(language_.comment_begin)) {
      add(behind(language_.comment_end, at_ + language_.comment_begin.size()), CodeKind::comment);
      return true;
    }
    const bool word_before = at_ > 0 && (is_of_word(code_[at_ - 1]) || code_[at_ - 1] == '$' || code_[at_ - 1] == ':');
    if (word_before || !(begins(language_.line_comment) || begins(language_.second_line_comment))) return false;
    add(std::min(code_.find('\n', at_), code_.size()), CodeKind::comment);
    return true;
  }

  bool string() {
    const char quote = code_[at_];
    if (quote == '`' && language_.multiline_strings) {
      add(behind("`", at_ + 1), CodeKind::string);
      return true;
    }
    if (language_.quotes.find(quote) == std::string_view::npos) return false;
    const std::string three(3, quote);
    if (language_.triple_quotes && begins(three)) {
      add(behind(three, at_ + 3), CodeKind::string);
      return true;
    }
    size_t end = at_ + 1;
    while (end < code_.size() && code_[end] != quote && code_[end] != '\n') end += code_[end] == '\\' ? 2 : 1;
    end = std::min(end, code_.size());
    const bool closed = end < code_.size() && code_[end] == quote;
    if (!closed && quote == '\'') return false; // an apostrophe or a lifetime
    add(closed ? end + 1 : end, CodeKind::string);
    return true;
  }

  bool number() {
    if (!is_numeral(code_[at_])) return false;
    size_t end = at_;
    while (end < code_.size() && (is_of_word(code_[end]) || code_[end] == '.' || code_[end] == '\'')) ++end;
    while (code_[end - 1] == '.' || code_[end - 1] == '\'') --end;
    add(end, CodeKind::number);
    return true;
  }

  bool word() {
    const bool marked =
        (code_[at_] == '#' || code_[at_] == '@') && at_ + 1 < code_.size() && is_of_word(code_[at_ + 1]);
    if (!is_of_word(code_[at_]) && !marked) return false;
    size_t end = at_ + 1;
    while (end < code_.size() && is_of_word(code_[end])) ++end;
    std::string word(code_.substr(at_, end - at_));
    if (language_.any_case) word = core::lower(word);
    is_keyword(word) ? add(end, CodeKind::keyword) : void(at_ = end);
    return true;
  }

  bool is_keyword(std::string_view word) const {
    for (size_t at = language_.keywords.find(word); at != std::string_view::npos;
         at = language_.keywords.find(word, at + 1)) {
      const size_t end = at + word.size();
      if ((at == 0 || language_.keywords[at - 1] == ' ') &&
          (end == language_.keywords.size() || language_.keywords[end] == ' '))
        return true;
    }
    return false;
  }

  std::string_view code_;
  const Language& language_;
  size_t at_ = 0;
  std::vector<CodePart> parts_;
};

} // namespace

std::vector<CodePart> code_parts(std::string_view code, std::string_view language) {
  const Language* known = language_of(language);
  return known ? Lexer(code, *known).parts() : std::vector<CodePart>();
}

} // namespace ridge::text
