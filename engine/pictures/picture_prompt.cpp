#include "engine/pictures/picture_prompt.h"

#include "core/error.h"

namespace ridge::engine {

PicturePromptBuilder::PicturePromptBuilder(const text::Tokenizer& tokenizer, std::vector<int32_t> begun)
    : tokenizer_(tokenizer), prompt_{std::move(begun), {}} {}

void PicturePromptBuilder::add_text(std::string_view text, std::span<const text::ByteSpan> data) {
  if (text.empty()) return;
  const std::vector<int32_t> ids = tokenizer_.encode(text, {.parse_special = true, .data = data});
  prompt_.tokens.insert(prompt_.tokens.end(), ids.begin(), ids.end());
}

void PicturePromptBuilder::add_text(const text::jinja::TaintedText& text) { add_text(text.bytes(), text.data()); }

void PicturePromptBuilder::add_pieces(std::span<const PictureReader::Piece> pieces) {
  for (const PictureReader::Piece& piece : pieces)
    if (piece.tile)
      prompt_.pictures.append(prompt_.tokens, piece.tile);
    else if (!piece.otherwise.empty() && tokenizer_.encode(piece.text, {.parse_special = true}).size() != 1)
      add_text(piece.otherwise);
    else
      add_text(piece.text);
}

PicturePrompt picture_prompt(const text::Tokenizer& tokenizer, PictureReader& reader, std::string_view text,
                             std::span<const media::Medium> media) {
  std::vector<int32_t> begun;
  if (tokenizer.add_bos()) begun.push_back(tokenizer.bos());
  PicturePromptBuilder builder(tokenizer, std::move(begun));
  size_t next = 0;
  for (;;) {
    const size_t mark = text.find(kPictureMark);
    builder.add_text(text.substr(0, mark));
    if (mark == text.npos) break;
    if (next == media.size())
      throw_error("the text contains more {} markers than there are images and audio files ({})", kPictureMark,
                  media.size());
    builder.add_pieces(reader.read(media[next++]));
    text.remove_prefix(mark + kPictureMark.size());
  }
  if (next < media.size())
    throw_error("the text contains {} times {}, but there are {} images and audio files", next, kPictureMark,
                media.size());
  PicturePrompt prompt = std::move(builder).finish();
  if (tokenizer.add_eos()) prompt.tokens.push_back(tokenizer.eos());
  return prompt;
}

} // namespace ridge::engine
