// WordPiece (BERT) and Unigram (XLM-RoBERTa, T5) tokenizers.
#include "convert/import/tokenizers/tokenizer.h"
#include "core/error.h"
#include "core/strings/base64.h"
#include "core/strings/printable.h"

#include <cmath>

namespace ridge::convert::import {
namespace {

using text::TokenKind;

constexpr std::string_view kWordBegin = "\u2581"; // precedes a word's first piece in GGUF

template <typename Use>
void for_each_part(const Json& node, const char* list, const std::string& where, Use&& use) {
  if (node.is_null()) return;
  const Fields fields(node, where);
  if (fields.get_string("type") != "Sequence") return use(fields);
  const Json* parts = fields.find(list);
  if (!parts || !parts->is_array()) throw_error("{}: expected a list", fields.where(list));
  for (const Json& part : *parts) use(Fields(part, where));
}

} // namespace

Vocabulary read_word_piece(const Json& document, const Fields& model, const std::string& where, int64_t limit) {
  Vocabulary out;
  out.model = "bert";
  const std::string rest = model.find_string("continuing_subword_prefix").value_or("##");
  const std::string unknown = model.find_string("unk_token").value_or("[UNK]");
  const Json* vocab = model.find("vocab");
  if (!vocab || !vocab->is_object()) throw_error("{}: expected an object", model.where("vocab"));
  for (const auto& [text, id] : vocab->items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
      throw_error("{}: expected ids of at least 0", model.where("vocab"));
    const bool marker = text.starts_with('[') && text.ends_with(']') && text.size() > 2;
    Token token = {marker ? text : text.starts_with(rest) ? text.substr(rest.size()) : std::string(kWordBegin) + text};
    if (text == unknown) out.special["unknown"] = id.get<int64_t>(), token = {text, 0, TokenKind::unknown};
    out.set(id.get<int64_t>(), std::move(token), limit, model.where("vocab"));
  }
  out.lowercase = true;
  for_each_part(document.value("normalizer", Json()), "normalizers", where + ": normalizer", [&](const Fields& part) {
    const std::string type = part.get_string("type");
    if (type != "BertNormalizer") throw_error("{}: {} cannot be converted", part.where(), core::printable(type));
    out.lowercase = part.get_bool("lowercase", true);
    out.strip_accents = part.find_bool("strip_accents");
  });
  return out;
}

Vocabulary read_unigram(const Json& document, const Fields& model, const std::string& where, int64_t limit) {
  Vocabulary out;
  out.model = "t5";
  const Json* vocab = model.find("vocab");
  if (!vocab || !vocab->is_array()) throw_error("{}: expected a list", model.where("vocab"));
  for (const Json& piece : *vocab) {
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number() ||
        !std::isfinite(piece[1].get<float>()))
      throw_error("{}: expected pieces with their scores", model.where("vocab"));
    out.set(std::ssize(out.tokens), {piece[0].get<std::string>(), piece[1].get<float>()}, limit, model.where("vocab"));
  }
  if (model.find("unk_id")) {
    const int64_t id = model.get_int("unk_id", 0, std::ssize(out.tokens) - 1);
    out.tokens[id].kind = TokenKind::unknown;
    out.special["unknown"] = id;
  }
  out.add_space_prefix = false;
  out.remove_extra_whitespaces = false;
  for_each_part(document.value("normalizer", Json()), "normalizers", where + ": normalizer", [&](const Fields& part) {
    const std::string type = part.get_string("type");
    if (type == "Precompiled") {
      const auto bytes = core::from_base64(part.get_string("precompiled_charsmap"));
      if (!bytes) throw_error("{}: not valid base64", part.where("precompiled_charsmap"));
      out.charsmap = *bytes;
      return;
    }
    if (type != "Replace" && type != "Strip")
      throw_error("{}: {} cannot be converted", part.where(), core::printable(type));
    out.remove_extra_whitespaces = true; // these collapse spaces and trim
  });
  for_each_part(document.value("pre_tokenizer", Json()), "pretokenizers", where + ": pre_tokenizer",
                [&](const Fields& part) {
                  const std::string type = part.get_string("type");
                  if (type == "WhitespaceSplit") {
                    out.remove_extra_whitespaces = true;
                  } else if (type == "Metaspace") {
                    out.add_space_prefix = part.find_string("prepend_scheme").value_or("always") != "never" &&
                                           part.get_bool("add_prefix_space", true);
                  } else {
                    throw_error("{}: {} cannot be converted", part.where(), core::printable(type));
                  }
                });
  return out;
}

} // namespace ridge::convert::import
