// tokenizer.json of Hugging Face's tokenizers: byte-level BPE and BPE over characters with byte fallback
// (SentencePiece's). Encoders: tokenizer_encoders.cpp.
#include "convert/import/tokenizers/tokenizer.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "text/tokenizer/pretokenize.h"

#include <algorithm>

namespace ridge::convert::import {
namespace {

using text::TokenKind;

constexpr std::string_view kSpace = "\u2581"; // SentencePiece's space
// ByteLevel with use_regex; the library's punctuation.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kPunctuation = R"([\p{P}$+<=>^`|~])";
constexpr size_t kMaxPatternBytes = 2000, kMaxPatterns = 16;
constexpr uint32_t kMatchLimit = 100'000;

// Distinguishes the families of pre-tokenizers.
constexpr std::string_view kProbe =
    "Hello hello HELLO HelloWorld helloWORLD don't DON'T We'll it'S I'd'VE 'tis 'Twas x'y'' end.\n"
    " 1 12 123 1234 12345 3.14159 1,234,567 a1b22c333 v2.0beta \u00bd\u00b2\u0663\u0664\u0665\u0666 \n\n\n  "
    "two\t\ttabs  \r\n"
    "\r\nspaces    end    \n   \n x!!! (a)[b]{c} <d> $5 +x =y ^z ~w |v `u` a/b a_b #tag @at %p &q *s ... --- !!\n/\n"
    "caf\u00e9 na\u00efve e\u0301te\u0301 \u00c9COLE \u01c5a \u4f60\u597d\u4e16\u754c\u3002 "
    "\u3053\u3093\u306b\u3061\u306f "
    "\u30ab\u30bf\u30ab\u30ca \ud55c\uad6d\uc5b4 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 "
    "\u0928\u092e\u0938\u094d\u0924\u0947 "
    "\u0645\u0631\u062d\u0628\u0627 \u041f\u0440\u0438\u0432\u0435\u0442\uff01 \uff08a\uff09 "
    "\U0001f600\U0001f468\u200d\U0001f469 "
    "a\u00a0b\u3000c\u2003d \u00a1\u00bfq? \u20ac5 \u2192\u2211 x\u0301 \u0300 1\u4e00 a\u4e00b\u3042c\n\t x";

struct PreTokenizer {
  std::vector<std::string> patterns;
  bool byte_level = false, space_prefix = false;
};

void read_pre_tokenizer(const Json& node, const std::string& where, PreTokenizer& out, int depth = 0) {
  if (node.is_null()) return;
  const Fields fields(node, where);
  const std::string type = fields.get_string("type");
  const auto unknown = [&](std::string_view what) {
    throw_error("{}: {}{} cannot be converted", where, core::printable(type), what);
  };
  if (type == "Sequence" && depth == 0) {
    const Json* parts = fields.find("pretokenizers");
    if (!parts || !parts->is_array()) throw_error("{}: expected a list", fields.where("pretokenizers"));
    for (const Json& part : *parts) read_pre_tokenizer(part, where, out, depth + 1);
  } else if (type == "ByteLevel") {
    out.byte_level = true;
    if (fields.get_bool("add_prefix_space", true)) unknown(" with add_prefix_space");
    if (fields.get_bool("use_regex", true)) out.patterns.push_back(kGpt2Pattern);
  } else if (type == "Split") {
    const Json* pattern = fields.find("pattern");
    if (!pattern) throw_error("{}: is missing", fields.where("pattern"));
    const std::string behavior = fields.get_string("behavior");
    const bool keeps_all = behavior == "Isolated" || (behavior == "Removed" && fields.get_bool("invert", false));
    const auto regex = Fields(*pattern, fields.where("pattern")).find_string("Regex");
    if (!regex || !keeps_all) unknown(fmt::format(" of behavior {}", core::printable(behavior)));
    out.patterns.push_back(*regex);
  } else if (type == "Digits") {
    out.patterns.push_back(fields.get_bool("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
  } else if (type == "Punctuation") {
    const bool runs = fields.find_string("behavior").value_or("Isolated") == "Contiguous";
    out.patterns.push_back(std::string(kPunctuation) + (runs ? "+" : ""));
  } else if (type == "Metaspace") {
    out.space_prefix =
        fields.find_string("prepend_scheme").value_or("always") != "never" && fields.get_bool("add_prefix_space", true);
  } else {
    unknown("");
  }
  if (out.patterns.size() > kMaxPatterns) throw_error("{}: more than {} patterns", where, kMaxPatterns);
}

// Throws for a normalizer that changes text. Sets `space_prefix` if it adds a space.
void read_normalizer(const Json& node, const std::string& where, bool& space_prefix, int depth = 0) {
  if (node.is_null()) return;
  const Fields fields(node, where);
  const std::string type = fields.get_string("type");
  if (type == "Sequence" && depth == 0) {
    const Json* parts = fields.find("normalizers");
    if (!parts || !parts->is_array()) throw_error("{}: expected a list", fields.where("normalizers"));
    for (const Json& part : *parts) read_normalizer(part, where, space_prefix, depth + 1);
  } else if (type == "Prepend") {
    space_prefix = true;
  } else if (type == "Replace") { // " " by "▁": standard
    const auto content = fields.find_string("content");
    if (content != std::string(kSpace)) throw_error("{}: Replace with anything but ▁ cannot be converted", where);
  } else if (type != "NFC") { // GGUF has no key for NFC; nearly all text is NFC
    throw_error("{}: {} cannot be converted", where, core::printable(type));
  }
}

// "a b", or (newer) ["a", "b"].
std::string merge_text(const Json& merge, const std::string& where) {
  if (merge.is_string()) return merge.get<std::string>();
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
    throw_error("{}: merges: expected pairs of strings", where);
  return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
}

// IDs that TemplateProcessing (possibly in a Sequence) adds.
void read_post_processor(const Json& node, const std::string& where, Vocabulary& out, int depth = 0) {
  out.add_bos = out.add_bos.value_or(false);
  out.add_eos = out.add_eos.value_or(false);
  if (node.is_null()) return;
  const Fields fields(node, where);
  const std::string type = fields.get_string("type");
  if (type == "Sequence" && depth == 0) {
    if (const Json* parts = fields.find("processors"); parts && parts->is_array())
      for (const Json& part : *parts) read_post_processor(part, where, out, depth + 1);
  } else if (type == "TemplateProcessing") {
    const Json* single = fields.find("single");
    if (!single || !single->is_array() || single->empty()) throw_error("{}: expected a list", fields.where("single"));
    const auto special = [&](const Json& part, const char* role) {
      if (!part.is_object() || !part.contains("SpecialToken")) return false;
      const auto id = Fields(part["SpecialToken"], where).find_string("id");
      if (id && out.find(*id) >= 0) out.special.emplace(role, out.find(*id));
      return true;
    };
    out.add_bos = special(single->front(), "bos");
    out.add_eos = single->size() > 1 && special(single->back(), "eos");
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    const auto marker = [&](const char* field, const char* role) {
      const Json* pair = fields.find(field);
      const bool named = pair && pair->is_array() && !pair->empty() && (*pair)[0].is_string();
      if (const int64_t id = named ? out.find((*pair)[0].get<std::string>()) : -1; id >= 0)
        out.special.emplace(role, id);
      return named;
    };
    out.add_bos = marker("cls", "bos");
    out.add_eos = marker("sep", "eos");
  }
}

void read_added_tokens(const Json& document, const std::string& where, int64_t limit, Vocabulary& out) {
  const auto at = document.find("added_tokens");
  if (at == document.end() || !at->is_array()) return;
  for (const Json& added : *at) {
    const Fields fields(added, where + ": added_tokens");
    const bool special = fields.get_bool("special", false);
    const int64_t id = fields.get_int("id", 0, INT32_MAX);
    const bool unknown = id < std::ssize(out.tokens) && out.tokens[id].kind == TokenKind::unknown;
    out.add(id,
            {fields.get_string("content"), 0,
             unknown   ? TokenKind::unknown
             : special ? TokenKind::control
                       : TokenKind::user_defined},
            limit, fields.where());
  }
}

} // namespace

std::string find_family(const std::vector<std::string>& patterns, bool ignore_merges) {
  const auto cut = [](const text::Pretokenizer& pretokenizer) {
    std::vector<uint32_t> ends;
    pretokenizer.split(kProbe, ends);
    return ends;
  };
  for (const std::string& pattern : patterns)
    if (pattern.size() > kMaxPatternBytes) return "";
  const std::vector<uint32_t> wanted = cut(text::Pretokenizer(patterns, kMatchLimit));
  for (const text::PretokenizerFamily& family : text::pretokenizer_families())
    if (family.byte_level && family.ignore_merges == ignore_merges && cut(text::Pretokenizer(family)) == wanted)
      return std::string(family.names.substr(0, family.names.find(' ')));
  return "";
}

Vocabulary read_tokenizer_json(const Json& document, const std::string& where, int64_t limit) {
  static const Json kNull;
  const auto part = [&](const char* key) -> const Json& {
    const auto at = document.find(key);
    return at == document.end() ? kNull : *at;
  };
  const Fields model(part("model"), where + ": model");
  const std::string type = model.find_string("type").value_or("BPE");
  if (type == "WordPiece" || type == "Unigram") {
    Vocabulary out = (type == "Unigram" ? read_unigram : read_word_piece)(document, model, where, limit);
    read_added_tokens(document, where, limit, out);
    read_post_processor(part("post_processor"), where + ": post_processor", out);
    if (type == "WordPiece")
      if (const auto end = out.special.extract("eos")) out.special["separator"] = end.mapped();
    return out;
  }
  if (type != "BPE")
    throw_error("{}: {} tokenizers cannot be converted; BPE, WordPiece and Unigram can", model.where("type"),
                core::printable(type));
  const Json* vocab = model.find("vocab");
  if (!vocab || !vocab->is_object()) throw_error("{}: expected an object", model.where("vocab"));

  Vocabulary out;
  for (const auto& [text, id] : vocab->items()) {
    if (!id.is_number_unsigned()) throw_error("{}: expected ids of at least 0", model.where("vocab"));
    const auto number = id.get<uint64_t>();
    out.set(number > INT64_MAX ? INT64_MAX : static_cast<int64_t>(number), {text}, limit, model.where("vocab"));
  }
  if (const auto unknown = model.find_string("unk_token"))
    if (const int64_t id = out.find(*unknown); id >= 0) {
      out.tokens[id].kind = TokenKind::unknown;
      out.special["unknown"] = id;
    }

  PreTokenizer pre;
  read_pre_tokenizer(part("pre_tokenizer"), where + ": pre_tokenizer", pre);
  bool space_prefix = pre.space_prefix;
  read_normalizer(part("normalizer"), where + ": normalizer", space_prefix);
  const Json* merges = model.find("merges");
  if (!merges || !merges->is_array()) throw_error("{}: expected a list", model.where("merges"));

  if (pre.byte_level) {
    out.model = "gpt2";
    const bool ignore_merges = model.get_bool("ignore_merges", false);
    out.pre = find_family(pre.patterns, ignore_merges);
    if (out.pre.empty()) out.pre = find_family(pre.patterns, !ignore_merges);
    if (out.pre.empty())
      throw_error("{}: pre_tokenizer: splits text like no known tokenizer family (`ridge tokenize` could not follow)",
                  where);
    for (const Json& merge : *merges) out.merges.push_back(merge_text(merge, where));
  } else if (model.get_bool("byte_fallback", false)) {
    out.model = "llama";
    out.add_space_prefix = space_prefix;
    // SentencePiece merges by score: order gives scores.
    for (Token& token : out.tokens) token.score = -static_cast<float>(merges->size());
    std::vector<bool> scored(out.tokens.size());
    for (size_t rank = 0; rank < merges->size(); ++rank) {
      std::string text = merge_text((*merges)[rank], where);
      if (const size_t gap = text.find(' '); gap != std::string::npos) text.erase(gap, 1);
      const int64_t id = out.find(text);
      if (id < 0 || scored[id]) continue;
      scored[id] = true;
      out.tokens[id].score = -static_cast<float>(rank);
    }
    for (Token& token : out.tokens)
      if (text::byte_of(token.text) >= 0) token.kind = TokenKind::byte;
  } else {
    throw_error("{}: BPE tokenizers that are neither byte-level nor have byte_fallback cannot be converted", where);
  }
  read_added_tokens(document, where, limit, out);
  read_post_processor(part("post_processor"), where + ": post_processor", out);
  return out;
}

} // namespace ridge::convert::import
