#include "text/tokenizer/tokenizer.h"

#include "core/error.h"
#include "core/strings/utf8.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/longest_match.h"
#include "text/tokenizer/spm.h"
#include "text/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>

namespace ridge::text {
namespace {

constexpr size_t kMaxTextBytes = size_t{256} << 20; // offsets are 32 bits; Viterbi needs 16 bytes per byte of text

Vocabulary make_vocabulary(TokenizerData& data) {
  const size_t tokens = data.tokens.size();
  if (tokens == 0) throw_error("tokenizer.ggml.tokens: missing or empty");
  const auto check_count = [&](std::string_view key, size_t count) {
    if (count != 0 && count != tokens) throw_error("{}: {} values for {} tokens", key, count, tokens);
  };
  check_count("tokenizer.ggml.scores", data.scores.size());
  check_count("tokenizer.ggml.token_type", data.kinds.size());

  const bool scored = data.model == "llama" || data.model == "t5" || data.model == "plamo2";
  if (scored && data.scores.empty())
    throw_error("tokenizer.ggml.scores: missing, but required for a tokenizer of the model \"{}\"", data.model);
  for (size_t id = 0; scored && id < tokens; ++id)
    if (!std::isfinite(data.scores[id])) throw_error("tokenizer.ggml.scores[{}]: not a finite number", id);
  data.scores.resize(tokens);

  SpecialIds& special = data.special;
  const auto assume = [&](int32_t& id, int32_t usual) {
    if (id < 0 && usual < static_cast<int32_t>(tokens)) id = usual;
  };
  if (data.model == "llama") {
    assume(special.unknown, 0);
    assume(special.bos, 1);
    assume(special.eos, 2);
  } else if (data.model == "t5") {
    assume(special.padding, 0);
    assume(special.eos, 1);
    assume(special.unknown, 2);
  } else if (data.model == "plamo2") {
    assume(special.unknown, 0);
    assume(special.bos, 1);
    assume(special.eos, 2);
    assume(special.padding, 3);
  } else if (data.model == "bert") {
    assume(special.padding, 0);
    assume(special.unknown, 100);
    assume(special.bos, 101);
    assume(special.separator, 102);
    assume(special.mask, 103);
    special.eos = special.separator; // used in place of EOS
  }
  if (data.kinds.empty()) {
    data.kinds.assign(tokens, TokenKind::normal);
    for (size_t id = 0; id < tokens; ++id)
      if (data.model != "gpt2" && byte_of(data.tokens[id]) >= 0) data.kinds[id] = TokenKind::byte;
    for (const int32_t id : {special.bos, special.eos, special.padding})
      if (id >= 0) data.kinds[id] = TokenKind::control;
    if (special.unknown >= 0) data.kinds[special.unknown] = TokenKind::unknown;
  }
  return {data.tokens, std::move(data.kinds), std::move(data.scores)};
}

// End tokens by name: files often leave them unmarked.
struct EndToken {
  std::string_view text;
  bool applies_to_normal_tokens = false; // ordinary text never contains it
  bool ends_turn = false;                // is "eot" if the file names none
};
constexpr EndToken kEndTokens[] = {
    {"<|eot_id|>", true, true},
    {"<|im_end|>", true, true},
    {"<|end|>", true, true},
    {"<end_of_turn>", true, true},
    {"<|endoftext|>", true, true},
    {"<|end_of_text|>", true, true},
    {"< EOT >", false, true},
    {"<EOT>", false, true},
    {"_<EOT>", false, true},
    {"\u2581<EOT>", false, true}, // Code Llama
    {"[EOT]", false, true},
    {"<\uFF5Cend\u2581of\u2581sentence\uFF5C>", true, true}, // DeepSeek
    {"<end_of_utterance>", true, true},
    {"<|eom_id|>", true},
    {"<|return|>", true},
    {"<|call|>", true},
    {"<|calls|>", true},
    {"<|flush|>", true},
    {"<|fim_pad|>", true},
    {"<|repo_name|>", true},
    {"<|file_sep|>", true},
    {"<turn|>", true},
    {"<|tool_response>", true},
    {"</s>"},
    {"<eos>"},
    {"<|eot|>"},
    {"[EOS]"},
    {"<fim_pad>"}, // Granite; the next ones also pad or separate files
    {"<fim-pad>"},
    {"<reponame>"},
    {"<|fim_repo|>"},
    {"<fim-repo>"},
    {"<REPO>"},
    {"[e~["},
};

} // namespace

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (size_t found; (found = text.find(from)) != std::string_view::npos; text.remove_prefix(found + from.size()))
    (out += text.substr(0, found)) += to;
  return out += text;
}

std::unique_ptr<Tokenizer> Tokenizer::from_file(const gguf::File& file) {
  TokenizerData data = TokenizerData::from_file(file);
  try {
    return std::make_unique<Tokenizer>(std::move(data));
  } catch (const Error& error) {
    throw_error("{}: {}", file.path(), error.what());
  }
}

Tokenizer::Tokenizer(TokenizerData data)
    : model_(data.model), warnings_(std::move(data.warnings)), vocabulary_(make_vocabulary(data)),
      special_(data.special), end_of_generation_(vocabulary_.size()), special_takes_space_(data.special_takes_space) {
  mark_end_of_generation(data.ends);
  make_model(data);
  make_pieces();
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (kind(id) == TokenKind::user_defined) always_matched_.insert(token_text(id), id);
    if (kind(id) == TokenKind::user_defined || is_special(id)) special_matched_.insert(token_text(id), id);
  }
}

void Tokenizer::mark_end_of_generation(std::span<const int32_t> ends) {
  const auto is_there = [&](std::string_view text) { return find(text) >= 0; };
  // Two families use "<|end|>" between parts of a turn; in another, "</s>" is an ordinary word.
  const bool parts_end =
      (is_there("<|return|>") && is_there("<|call|>")) || (is_there("<|calls|>") && is_there("<|flush|>"));
  const bool tool_response = is_there("<|tool_response>");
  for (const EndToken& end : kEndTokens) {
    const int32_t id = find(end.text);
    if (id < 0 || (kind(id) == TokenKind::normal && !end.applies_to_normal_tokens)) continue;
    if ((parts_end && end.text == "<|end|>") || (tool_response && end.text == "</s>")) continue;
    end_of_generation_[id] = true;
    vocabulary_.set_kind(id, TokenKind::control);
    if (end.ends_turn && special_.eot < 0) special_.eot = id;
    if (end.text == "<|eom_id|>" && special_.eom < 0) special_.eom = id;
  }
  for (const int32_t id :
       {special_.eos, special_.eot, special_.eom, special_.fim_padding, special_.fim_repository, special_.fim_file})
    if (id >= 0 && !(parts_end && token_text(id) == "<|end|>")) end_of_generation_[id] = true;
  for (const int32_t id : ends) end_of_generation_[id] = true;
}

void Tokenizer::make_model(const TokenizerData& data) {
  bool add_bos = false, add_eos = false, needs_bos = false;
  if (model_ == "llama") {
    add_bos = true;
    add_space_prefix_ = data.add_space_prefix.value_or(true);
    text_model_ = std::make_unique<Spm>(vocabulary_, add_space_prefix_, special_.unknown);
  } else if (model_ == "t5") {
    add_eos = true;
    add_space_prefix_ = data.add_space_prefix.value_or(true);
    text_model_ = std::make_unique<Unigram>(
        vocabulary_, UnigramOptions{.add_space_prefix = add_space_prefix_,
                                    .remove_extra_whitespaces = data.remove_extra_whitespaces.value_or(false),
                                    .charsmap = data.charsmap,
                                    .unknown_id = special_.unknown});
  } else if (model_ == "bert") {
    add_bos = add_eos = add_space_prefix_ = true;
    text_model_ = std::make_unique<WordPiece>(
        vocabulary_, WordPieceOptions{.lowercase = data.lowercase,
                                      .strip_accents = data.strip_accents.value_or(data.lowercase),
                                      .unknown_id = special_.unknown});
  } else if (model_ == "rwkv") {
    text_model_ = std::make_unique<Rwkv>(vocabulary_, special_.unknown);
  } else if (model_ == "plamo2") {
    text_model_ = std::make_unique<Plamo>(vocabulary_);
  } else if (model_ == "gpt2" || model_ == "gemma4") {
    const std::string_view wanted = model_ == "gemma4" ? "gemma4" : data.pre;
    const PretokenizerFamily* family = find_pretokenizer(wanted);
    if (!family) {
      family = &pretokenizer_families().front();
      warnings_.push_back(
          wanted.empty() ? "the file does not name its pre-tokenizer (tokenizer.ggml.pre); using \"default\""
                         : fmt::format("unknown pre-tokenizer \"{}\" (tokenizer.ggml.pre); using \"default\"", wanted));
    }
    pre_ = family->names.substr(0, family->names.find(' '));
    auto bpe = std::make_unique<Bpe>(vocabulary_, data.merges, *family, special_.unknown);
    if (bpe->unusable_merges() > 0)
      warnings_.push_back(
          fmt::format("{} of {} merges contain pieces that are not tokens (tokenizer.ggml.merges); ignored",
                      bpe->unusable_merges(), data.merges.size()));
    text_model_ = std::move(bpe);
    add_bos = family->add_bos;
    needs_bos = family->needs_bos;
  } else {
    throw_error(
        "tokenizer.ggml.model: \"{}\" is not supported; supported are llama, gpt2, t5, gemma4, bert, rwkv and plamo2",
        model_);
  }
  add_bos_ = (needs_bos || data.add_bos.value_or(add_bos)) && special_.bos >= 0;
  add_eos_ = data.add_eos.value_or(add_eos) && special_.eos >= 0;
}

void Tokenizer::make_pieces() {
  piece_offsets_.reserve(vocab_size() + 1);
  piece_offsets_.push_back(0);
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const std::string_view text = token_text(id);
    const int byte = kind(id) == TokenKind::byte ? byte_of(text) : -1;
    if (byte >= 0)
      pieces_.push_back(static_cast<char>(byte));
    else if (kind(id) == TokenKind::normal || kind(id) == TokenKind::unused)
      pieces_ += text_model_->piece(text);
    else
      pieces_ += text;
    piece_offsets_.push_back(static_cast<uint32_t>(pieces_.size()));
  }
}

TokenTrie::Match Tokenizer::find_special(std::string_view text, size_t trusted_bytes) const {
  const TokenTrie::Match own = special_matched_.longest(text.substr(0, trusted_bytes));
  if (trusted_bytes >= text.size()) return own;
  const TokenTrie::Match anywhere = always_matched_.longest(text);
  return anywhere.bytes > own.bytes ? anywhere : own;
}

bool Tokenizer::takes_space(int32_t id) const {
  const std::string_view text = token_text(id);
  return special_takes_space_ && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes) throw_error("a text of {} bytes is too long to tokenize at once", text.size());
  std::vector<int32_t> ids;
  if (options.add_special && add_bos_) ids.push_back(special_.bos);
  const bool has_matches = !(options.parse_special ? special_matched_ : always_matched_).empty();
  auto data = options.data.begin();
  bool starts_text = !options.continues;
  size_t done = 0;
  const auto encode_until = [&](size_t end) {
    if (end == done) return;
    text_model_->encode(text.substr(done, end - done), starts_text, ids);
    starts_text = false;
  };
  const auto trusted_bytes = [&](size_t position) -> size_t {
    if (!options.parse_special) return 0;
    while (data != options.data.end() && data->end <= position) ++data;
    if (data == options.data.end()) return text.size() - position;
    return data->begin > position ? data->begin - position : 0;
  };
  for (size_t position = 0; has_matches && position < text.size();) {
    const TokenTrie::Match match = find_special(text.substr(position), trusted_bytes(position));
    if (match.id < 0) {
      ++position;
      continue;
    }
    encode_until(position);
    ids.push_back(match.id);
    starts_text = true;
    position += match.bytes;
    if (takes_space(match.id)) position = std::min(text.find_first_not_of(" \t\n\v\f\r", position), text.size());
    done = position;
  }
  encode_until(text.size());
  if (options.add_special && add_eos_) ids.push_back(special_.eos);
  return ids;
}

void Tokenizer::append_piece(int32_t id, bool render_special, bool& strip_space, std::string& text) const {
  if (!has(id)) throw_error("token id {}: the vocabulary has {} tokens", id, vocab_size());
  const bool splits =
      is_special(id) || kind(id) == TokenKind::user_defined; // the following text is encoded as a start of text
  std::string_view bytes = piece(id);
  if (is_special(id) && !render_special) bytes = {};
  if (strip_space && !splits && bytes.starts_with(' ')) bytes.remove_prefix(1);
  text += bytes;
  strip_space = add_space_prefix_ && splits;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::string text;
  bool strip_space = add_space_prefix_ && !options.continues;
  for (const int32_t id : ids) append_piece(id, options.render_special, strip_space, text);
  return text;
}

} // namespace ridge::text
