#include "text/fill/fill_tokens.h"

#include "core/error.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace ridge::text {
namespace {

struct KnownMark {
  int32_t FillTokens::*id;
  std::string_view text;
};
constexpr KnownMark kKnownMarks[] = {
    {&FillTokens::prefix, "<|fim_prefix|>"}, // Qwen, CodeGemma
    {&FillTokens::prefix, "<fim_prefix>"},   // StarCoder, Granite
    {&FillTokens::prefix, "<fim-prefix>"},
    {&FillTokens::prefix, "<\uFF5Cfim\u2581begin\uFF5C>"}, // DeepSeek
    {&FillTokens::prefix, "\u2581<PRE>"},                  // Code Llama
    {&FillTokens::prefix, "<PRE>"},
    {&FillTokens::prefix, "<|code_prefix|>"}, // GLM
    {&FillTokens::suffix, "<|fim_suffix|>"},
    {&FillTokens::suffix, "<fim_suffix>"},
    {&FillTokens::suffix, "<fim-suffix>"},
    {&FillTokens::suffix, "<\uFF5Cfim\u2581hole\uFF5C>"},
    {&FillTokens::suffix, "\u2581<SUF>"},
    {&FillTokens::suffix, "<SUF>"},
    {&FillTokens::suffix, "<|code_suffix|>"},
    {&FillTokens::middle, "<|fim_middle|>"},
    {&FillTokens::middle, "<fim_middle>"},
    {&FillTokens::middle, "<fim-middle>"},
    {&FillTokens::middle, "<\uFF5Cfim\u2581end\uFF5C>"},
    {&FillTokens::middle, "\u2581<MID>"},
    {&FillTokens::middle, "<MID>"},
    {&FillTokens::middle, "<|code_middle|>"},
    {&FillTokens::repository, "<|repo_name|>"},
    {&FillTokens::repository, "<repo_name>"},
    {&FillTokens::repository, "<reponame>"},
    {&FillTokens::repository, "<|fim_repo|>"},
    {&FillTokens::repository, "<fim-repo>"},
    {&FillTokens::file, "<|file_sep|>"},
    {&FillTokens::file, "<|file_separator|>"},
    {&FillTokens::file, "<file_sep>"},
    {&FillTokens::file, "<filename>"},
};

using Tokens = std::vector<int32_t>;

void append(Tokens& to, std::span<const int32_t> tokens) { to.insert(to.end(), tokens.begin(), tokens.end()); }

// The other files and the marker of the current one. Default names are llama.cpp's. Without a file token, line breaks
// separate files.
Tokens other_files(const Tokenizer& tokenizer, const FillTokens& tokens, std::span<const FillFile> files) {
  Tokens all;
  const auto name = [&](int32_t mark, const std::string& text) {
    if (mark >= 0) all.push_back(mark);
    append(all, tokenizer.encode(mark >= 0 ? text + "\n" : "\n\n--- snippet ---\n\n"));
  };
  if (tokens.repository >= 0) name(tokens.repository, "myproject");
  for (const FillFile& file : files) {
    name(tokens.file, file.name);
    append(all, tokenizer.encode(file.text));
  }
  if (tokens.file >= 0) name(tokens.file, "filename");
  return all;
}

} // namespace

FillTokens find_fill_tokens(const Tokenizer& tokenizer) {
  const SpecialIds& named = tokenizer.special();
  FillTokens tokens = {named.fim_prefix, named.fim_suffix, named.fim_middle, named.fim_repository, named.fim_file};
  for (const KnownMark& known : kKnownMarks)
    if (int32_t& id = tokens.*known.id; id < 0) id = tokenizer.find(known.text);
  return tokens;
}

std::vector<int32_t> fill_prompt(const Tokenizer& tokenizer, const FillTokens& tokens, const FillText& text,
                                 int64_t most) {
  Tokens prompt;
  if (tokenizer.add_bos() && tokenizer.bos() >= 0) prompt.push_back(tokenizer.bos());
  const int64_t room = most - std::ssize(prompt) - 3 - std::ssize(text.begun);
  if (room < 0)
    throw_error("the beginning of the gap's text has {} tokens, which do not fit the context", text.begun.size());
  const int64_t prefix = std::ssize(text.prefix), suffix = std::ssize(text.suffix);
  const int64_t behind = std::min(suffix, std::max(room / 4, room - prefix));
  const int64_t before = std::min(prefix, room - behind);
  if (!text.files.empty()) {
    const Tokens files = other_files(tokenizer, tokens, text.files);
    append(prompt, std::span(files).last(std::min(std::ssize(files), room - before - behind)));
  }
  prompt.push_back(tokens.prefix);
  append(prompt, std::span(text.prefix).last(before));
  append(prompt, text.begun);
  prompt.push_back(tokens.suffix);
  append(prompt, std::span(text.suffix).first(behind));
  prompt.push_back(tokens.middle);
  return prompt;
}

} // namespace ridge::text
