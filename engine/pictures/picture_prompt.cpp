#include "engine/pictures/picture_prompt.h"

#include "core/error.h"

namespace ridge::engine {

PicturePromptBuilder::PicturePromptBuilder(const text::Tokenizer& tokenizer, PictureReader& reader)
    : tokenizer_(tokenizer), reader_(reader) {
  if (tokenizer.add_bos()) prompt_.tokens.push_back(tokenizer.bos());
}

void PicturePromptBuilder::add_text(std::string_view text) {
  if (text.empty()) return;
  const std::vector<int32_t> ids = tokenizer_.encode(text, {.parse_special = true});
  prompt_.tokens.insert(prompt_.tokens.end(), ids.begin(), ids.end());
}

void PicturePromptBuilder::add_picture(const media::Picture& picture) {
  for (PictureReader::Piece& piece : reader_.read(picture))
    if (piece.tile)
      prompt_.pictures.append(prompt_.tokens, std::move(piece.tile));
    else
      add_text(piece.text);
}

PicturePrompt PicturePromptBuilder::finish() && {
  if (tokenizer_.add_eos()) prompt_.tokens.push_back(tokenizer_.eos());
  return std::move(prompt_);
}

PicturePrompt picture_prompt(const text::Tokenizer& tokenizer, PictureReader& reader, std::string_view text,
                             std::span<const media::Picture> pictures) {
  PicturePromptBuilder builder(tokenizer, reader);
  size_t next = 0;
  for (;;) {
    const size_t mark = text.find(kPictureMark);
    builder.add_text(text.substr(0, mark));
    if (mark == text.npos) break;
    if (next == pictures.size())
      throw_error("the text has a {} more than there are pictures, which are {}", kPictureMark, pictures.size());
    builder.add_picture(pictures[next++]);
    text.remove_prefix(mark + kPictureMark.size());
  }
  if (next < pictures.size())
    throw_error("the text has {} times {}, but there are {} pictures", next, kPictureMark, pictures.size());
  return std::move(builder).finish();
}

} // namespace ridge::engine
