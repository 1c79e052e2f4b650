// Tokenizes prompts with pictures.
#pragma once

#include "engine/pictures/picture_reader.h"
#include "engine/pictures/text_pictures.h"
#include "text/jinja/tainted_text.h"
#include "text/tokenizer/tokenizer.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

inline constexpr std::string_view kPictureMark = "<__media__>";

struct PicturePrompt {
  std::vector<int32_t> tokens;
  TextPictures pictures;
};

class PicturePromptBuilder {
 public:
  explicit PicturePromptBuilder(const text::Tokenizer& tokenizer, std::vector<int32_t> begun = {});

  void add_text(std::string_view text) { add_text(text, {}); } // parses control tokens
  void add_text(const text::jinja::TaintedText& text);         // parses control tokens of the template only
  void add_pieces(std::span<const PictureReader::Piece> pieces);
  PicturePrompt finish() && { return std::move(prompt_); }

 private:
  void add_text(std::string_view text, std::span<const text::ByteSpan> data);

  const text::Tokenizer& tokenizer_;
  PicturePrompt prompt_;
};

// Parses control tokens. Throws Error if the numbers of marks and media differ.
PicturePrompt picture_prompt(const text::Tokenizer& tokenizer, PictureReader& reader, std::string_view text,
                             std::span<const media::Medium> media);

} // namespace ridge::engine
