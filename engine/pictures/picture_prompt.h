// Prompts with pictures, as tokens.
#pragma once

#include "engine/pictures/picture_reader.h"
#include "engine/pictures/text_pictures.h"
#include "text/tokenizer/tokenizer.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Stands for a picture in a text.
inline constexpr std::string_view kPictureMark = "<__media__>";

struct PicturePrompt {
  std::vector<int32_t> tokens;
  TextPictures pictures;
};

// Puts a prompt together: text, of which each piece becomes tokens by itself, and pictures.
class PicturePromptBuilder {
 public:
  PicturePromptBuilder(const text::Tokenizer& tokenizer, PictureReader& reader);

  void add_text(std::string_view text);
  void add_picture(const media::Picture& picture);
  PicturePrompt finish() &&;

 private:
  const text::Tokenizer& tokenizer_;
  PictureReader& reader_;
  PicturePrompt prompt_;
};

// A text with a mark for each picture. Control tokens in it count. Throws Error where there are more or fewer pictures
// than marks.
PicturePrompt picture_prompt(const text::Tokenizer& tokenizer, PictureReader& reader, std::string_view text,
                             std::span<const media::Picture> pictures);

} // namespace ridge::engine
