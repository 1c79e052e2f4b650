// Text to tokens and back, in the way that the model file names: SentencePiece BPE, byte-level BPE, SentencePiece
// Unigram, WordPiece, RWKV's.
//
//   const auto tokenizer = text::Tokenizer::from_file(file);
//   std::vector<int32_t> ids = tokenizer->encode("Hello", {.add_special = true});
//   std::string text = tokenizer->decode(ids);
//
// A Tokenizer never changes after it is made; any number of threads may use it.
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

struct SpecialIds { // tokens of the vocabulary; -1: the model has none
  int32_t bos = -1, eos = -1, eot = -1, eom = -1, unknown = -1, separator = -1, padding = -1, mask = -1;
  int32_t fim_prefix = -1, fim_suffix = -1, fim_middle = -1;    // of fill-in-the-middle: stand before its three parts
  int32_t fim_padding = -1, fim_repository = -1, fim_file = -1; // of fill-in-the-middle: end the generated part
};

// The parts of a tokenizer, read from a file of any kind. The views must live until the Tokenizer is made.
struct TokenizerData {
  std::string_view model; // "llama", "gpt2", "t5", "gemma4", "bert", "rwkv", "plamo2"
  std::string_view pre;   // family of pre-tokenizer; empty: not stated
  std::vector<std::string_view> tokens;
  std::vector<float> scores;            // one per token, or none
  std::vector<TokenKind> kinds;         // one per token, or none
  std::vector<std::string_view> merges; // of "gpt2" and "gemma4"
  std::vector<int32_t> ends;            // further tokens that end an answer
  std::string_view charsmap;            // of "t5": compiled normalization rules
  SpecialIds special;                   // -1: not stated
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces; // nothing: the model's usual
  bool lowercase = true;                                                            // of "bert"
  std::optional<bool> strip_accents;                                                // of "bert"; nothing: as lowercase
  bool special_takes_space = false;                                                 // Phi-3; see Tokenizer::encode
  std::vector<std::string> warnings;                                                // found while reading

  // Reads the tokenizer.ggml.* keys; the views are into the file. Throws Error where there is no tokenizer or a key has
  // the wrong type or length.
  static TokenizerData from_file(const gguf::File& file);
};

struct EncodeOptions {
  bool add_special = false;   // BOS before and EOS after, where the model wants them
  bool parse_special = false; // "<|eot_id|>" in the text becomes that token; else it is only characters
  // With parse_special: sorted, disjoint ranges of the text that no control token may overlap. "<|eot_id|>" in such a
  // range is ordinary text. User-defined tokens are matched there as everywhere.
  std::span<const ByteSpan> data = {};
};

struct DecodeOptions {
  bool render_special = false; // control tokens show as their text; else they are left out
  bool continues = false;      // the ids go on from other text: the first keeps its leading space
};

class Tokenizer {
 public:
  static std::unique_ptr<Tokenizer> from_file(const gguf::File& file); // Errors name the file
  explicit Tokenizer(TokenizerData data); // throws Error where the data do not fit together
  Tokenizer(const Tokenizer&) = delete;   // its parts refer to each other
  Tokenizer& operator=(const Tokenizer&) = delete;

  // At most 256 MiB. Where special tokens take space (Phi-3), white space behind one of them is part of it.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;
  // Gives back what encode() was given, for well-formed text without U+2581. Ids outside the vocabulary throw Error.
  std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  int32_t vocab_size() const { return vocabulary_.size(); }
  // What a model chooses may lie past the vocabulary, where its matrix has more rows: it adds nothing and ends nothing.
  bool has(int32_t id) const { return id >= 0 && id < vocab_size(); }
  std::string_view piece(int32_t id) const { // the bytes that the token adds to a text; special tokens: their text
    if (!has(id)) return {};
    return std::string_view(pieces_).substr(piece_offsets_[id], piece_offsets_[id + 1] - piece_offsets_[id]);
  }
  bool is_eog(int32_t id) const { return has(id) && end_of_generation_[id]; } // generation stops here
  // Ids below are in [0, vocab_size()).
  std::string_view token_text(int32_t id) const { return vocabulary_.text(id); } // as stored: "Ġthe", "▁the", "<0x0A>"
  TokenKind kind(int32_t id) const { return vocabulary_.kind(id); }
  bool is_special(int32_t id) const { return kind(id) == TokenKind::control || kind(id) == TokenKind::unknown; }
  int32_t find(std::string_view token_text) const { return vocabulary_.find(token_text); } // -1: no such token

  const SpecialIds& special() const { return special_; }
  int32_t bos() const { return special_.bos; }
  int32_t eos() const { return special_.eos; }
  int32_t eot() const { return special_.eot; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool add_space_prefix() const { return add_space_prefix_; } // text is encoded as if a space stood before it

  std::string_view model() const { return model_; }                   // "llama", "gpt2", …
  std::string_view pretokenizer() const { return pre_; }              // family in use; empty: the model has none
  std::span<const std::string> warnings() const { return warnings_; } // problems of this vocabulary, for the user

 private:
  friend class StreamDecoder;
  void mark_end_of_generation(std::span<const int32_t> ends);
  void make_model(const TokenizerData& data);
  void make_pieces();
  // The special token that `text` starts with. A control token may take up only the first `own_bytes`.
  TokenTrie::Match find_special(std::string_view text, size_t own_bytes) const;
  // Appends the token's bytes. `strip_space`: whether the token stands where encode() adds a space; kept up to date.
  void append_piece(int32_t id, bool render_special, bool& strip_space, std::string& text) const;

  bool takes_space(int32_t id) const;

  std::string model_, pre_;
  std::vector<std::string> warnings_;
  Vocabulary vocabulary_;
  SpecialIds special_;
  std::vector<bool> end_of_generation_;
  bool add_bos_ = false, add_eos_ = false, add_space_prefix_ = false, special_takes_space_ = false;
  std::unique_ptr<TextModel> text_model_;
  std::string pieces_;                         // of all tokens, one after the other
  std::vector<uint32_t> piece_offsets_;        // vocab_size() + 1
  TokenTrie always_matched_, special_matched_; // user-defined tokens; these and control tokens
};

// Turns tokens into text as they arrive. It never returns half a character; invalid bytes become U+FFFD.
class StreamDecoder {
 public:
  // By default the tokens continue a text, as generated ones do; the tokenizer must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {.continues = true});

  std::string push(int32_t id); // text that is complete now
  std::string finish();         // the rest; an incomplete character becomes U+FFFD

 private:
  std::string take(bool at_end);

  const Tokenizer& tokenizer_;
  bool render_special_, continues_;
  bool strip_space_;      // the next piece stands where encode() adds a space
  std::string undecoded_; // bytes of a character that is not complete
};

} // namespace ridge::text
