// Converts text to tokens and back: SentencePiece BPE and Unigram, byte-level BPE, WordPiece, RWKV. A Tokenizer is
// immutable and thread-safe.
#pragma once

#include "gguf/gguf.h"
#include "text/byte_span.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/token_trie.h"
#include "text/tokenizer/token_vocabulary.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

struct SpecialIds { // -1: none
  int32_t bos = -1, eos = -1, eot = -1, eom = -1, unknown = -1, separator = -1, padding = -1, mask = -1;
  int32_t fim_prefix = -1, fim_suffix = -1, fim_middle = -1;    // precede the three parts of fill-in-the-middle
  int32_t fim_padding = -1, fim_repository = -1, fim_file = -1; // end the generated part of fill-in-the-middle
};

// Input of a Tokenizer. The views must live until it is constructed.
struct TokenizerData {
  std::string_view model; // "llama", "gpt2", "t5", "gemma4", "bert", "rwkv", "plamo2"
  std::string_view pre;   // pre-tokenizer family, may be empty
  std::vector<std::string_view> tokens;
  std::vector<float> scores; // one per token, or empty (also kinds)
  std::vector<TokenKind> kinds;
  std::vector<std::string_view> merges; // for "gpt2" and "gemma4"
  std::vector<int32_t> ends;
  std::string_view charsmap; // for "t5": compiled normalization rules
  SpecialIds special;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces; // nullopt: model's default
  bool lowercase = true;                                                            // for "bert"
  std::optional<bool> strip_accents; // for "bert"; nullopt: same as lowercase
  bool special_takes_space = false;  // Phi-3; see encode()
  std::vector<std::string> warnings;

  // Reads tokenizer.ggml.*; the views point into the file. Throws Error if keys are missing or have a wrong type or
  // length.
  static TokenizerData from_file(const gguf::File& file);
};

struct EncodeOptions {
  bool add_special = false;   // add BOS and EOS if the model uses them
  bool parse_special = false; // "<|eot_id|>" in the text becomes that token
  bool continues = false;     // the text continues another: add no leading space
  // For parse_special: sorted, disjoint ranges in which control tokens stay text. User-defined tokens still match
  // there.
  std::span<const ByteSpan> data = {};
};

struct DecodeOptions {
  bool render_special = false; // include the text of control tokens
  bool continues = false;      // the IDs continue a text: keep the leading space
};

class Tokenizer {
 public:
  static std::unique_ptr<Tokenizer> from_file(const gguf::File& file);
  explicit Tokenizer(TokenizerData data); // throws Error for inconsistent data
  Tokenizer(const Tokenizer&) = delete;   // members refer to each other
  Tokenizer& operator=(const Tokenizer&) = delete;

  // At most 256 MiB. Special tokens may include following white space (Phi-3).
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;
  // Inverse of encode() for valid UTF-8 without U+2581. Throws Error for unknown IDs.
  std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  int32_t vocab_size() const { return vocabulary_.size(); }
  // Logits may have more rows than the vocabulary; those IDs have no text and do not end the output.
  bool has(int32_t id) const { return id >= 0 && id < vocab_size(); }
  std::string_view piece(int32_t id) const { // the bytes that the token adds to a text
    if (!has(id)) return {};
    return std::string_view(pieces_).substr(piece_offsets_[id], piece_offsets_[id + 1] - piece_offsets_[id]);
  }
  bool is_eog(int32_t id) const { return has(id) && end_of_generation_[id]; }
  // Requires has(id).
  std::string_view token_text(int32_t id) const { return vocabulary_.text(id); } // as stored: "Ġthe", "▁the", "<0x0A>"
  TokenKind kind(int32_t id) const { return vocabulary_.kind(id); }
  bool is_special(int32_t id) const { return kind(id) == TokenKind::control || kind(id) == TokenKind::unknown; }
  int32_t find(std::string_view token_text) const { return vocabulary_.find(token_text); }

  const SpecialIds& special() const { return special_; }
  int32_t bos() const { return special_.bos; }
  int32_t eos() const { return special_.eos; }
  int32_t eot() const { return special_.eot; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool add_space_prefix() const { return add_space_prefix_; } // encode as if a space preceded the text

  std::string_view model() const { return model_; }
  std::string_view pretokenizer() const { return pre_; }
  std::span<const std::string> warnings() const { return warnings_; }

 private:
  friend class StreamDecoder;
  void mark_end_of_generation(std::span<const int32_t> ends);
  void make_model(const TokenizerData& data);
  void make_pieces();
  // The special token at the start of `text`; control tokens must fit in the first `trusted_bytes`.
  TokenTrie::Match find_special(std::string_view text, size_t trusted_bytes) const;
  // `strip_space` (in/out): whether encode() would add a space at this place.
  void append_piece(int32_t id, bool render_special, bool& strip_space, std::string& text) const;

  bool takes_space(int32_t id) const;

  std::string model_, pre_;
  std::vector<std::string> warnings_;
  Vocabulary vocabulary_;
  SpecialIds special_;
  std::vector<bool> end_of_generation_;
  bool add_bos_ = false, add_eos_ = false, add_space_prefix_ = false, special_takes_space_ = false;
  std::unique_ptr<TextModel> text_model_;
  std::string pieces_;
  std::vector<uint32_t> piece_offsets_;
  TokenTrie always_matched_, special_matched_; // user-defined tokens; those and control tokens
};

// Streaming decoder: complete characters only; invalid bytes become U+FFFD.
class StreamDecoder {
 public:
  // The tokenizer must outlive it.
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {.continues = true});

  std::string push(int32_t id);
  std::string finish(); // incomplete: U+FFFD

 private:
  std::string take(bool at_end);

  const Tokenizer& tokenizer_;
  bool render_special_, continues_;
  bool strip_space_;
  std::string undecoded_;
};

} // namespace ridge::text
