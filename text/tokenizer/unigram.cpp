#include "text/tokenizer/unigram.h"

#include "core/error.h"
#include "core/strings/utf8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ridge::text {
namespace {

constexpr double kUnknownPenalty = 10; // SentencePiece: unknown characters score this below the worst token

struct Arrival {
  double score = -std::numeric_limits<double>::infinity();
  uint32_t start = 0;
  int32_t id = -1;
};

} // namespace

Unigram::Unigram(const Vocabulary& vocabulary, const UnigramOptions& options)
    : vocabulary_(vocabulary), add_space_prefix_(options.add_space_prefix),
      remove_extra_whitespaces_(options.remove_extra_whitespaces), unknown_id_(options.unknown_id),
      charsmap_(options.charsmap), byte_ids_(vocabulary.byte_tokens()) {
  float worst = 0;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenKind kind = vocabulary.kind(id);
    if (kind == TokenKind::normal) worst = std::min(worst, vocabulary.score(id));
    if (kind == TokenKind::normal || kind == TokenKind::unused || kind == TokenKind::user_defined)
      pieces_.insert(vocabulary.text(id), id);
  }
  unknown_score_ = worst - kUnknownPenalty;
}

std::string Unigram::normalized(std::string_view text) const {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    if (const Charsmap::Rule rule = charsmap_.find(text); rule.bytes > 0) {
      plain += rule.replacement;
      text.remove_prefix(rule.bytes);
      continue;
    }
    const core::Utf8Head head = core::utf8_head(text);
    plain += head.status == core::Utf8Status::valid ? text.substr(0, head.bytes) : core::kReplacementCharacter;
    text.remove_prefix(head.bytes);
  }
  if (remove_extra_whitespaces_) {
    const auto repeats = [](char a, char b) { return a == ' ' && b == ' '; };
    plain.erase(std::unique(plain.begin(), plain.end(), repeats), plain.end());
    if (plain.starts_with(' ')) plain.erase(0, 1);
    if (plain.ends_with(' ')) plain.pop_back();
  }
  return plain;
}

void Unigram::encode(std::string_view raw, bool starts_text, std::vector<int32_t>& ids) const {
  const std::string plain = normalized(raw);
  if (plain.empty()) return;
  std::string marked(starts_text && add_space_prefix_ ? kSpaceMark : "");
  marked += replaced(plain, " ", kSpaceMark);
  const std::string_view text = marked;

  std::vector<Arrival> arrivals(text.size() + 1);
  arrivals[0].score = 0;
  const auto arrive = [&](size_t start, size_t end, int32_t id, double score) {
    const double total = arrivals[start].score + score;
    if (total > arrivals[end].score) arrivals[end] = {total, static_cast<uint32_t>(start), id};
  };
  for (size_t start = 0; start < text.size();) {
    const size_t character = core::utf8_step(text.substr(start));
    bool has_token = false;
    int32_t node = 0;
    for (size_t end = start; end < text.size();) {
      node = pieces_.child(node, static_cast<unsigned char>(text[end++]));
      if (node < 0) break;
      const int32_t id = pieces_.id_at(node);
      if (id < 0) continue;
      has_token = has_token || end == start + character;
      arrive(start, end, id, vocabulary_.kind(id) == TokenKind::user_defined ? 0.0 : vocabulary_.score(id));
    }
    if (!has_token) arrive(start, start + character, -1, unknown_score_);
    start += character;
  }

  std::vector<std::pair<size_t, size_t>> spans;
  for (size_t end = text.size(); end > 0; end = arrivals[end].start) spans.emplace_back(arrivals[end].start, end);
  for (size_t i = spans.size(); i-- > 0;) {
    auto [start, end] = spans[i];
    if (arrivals[end].id >= 0) {
      ids.push_back(arrivals[end].id);
      continue;
    }
    while (i > 0 && arrivals[spans[i - 1].second].id < 0) end = spans[--i].second;
    append_unknown(text.substr(start, end - start), ids);
  }
}

void Unigram::append_unknown(std::string_view characters, std::vector<int32_t>& ids) const {
  if (std::ranges::find(byte_ids_, -1) != byte_ids_.end()) { // not all bytes have tokens
    if (unknown_id_ >= 0) ids.push_back(unknown_id_);
    return;
  }
  for (const char c : characters) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
}

Plamo::Plamo(const Vocabulary& vocabulary) : vocabulary_(vocabulary), byte_ids_(vocabulary.byte_tokens()) {
  if (std::ranges::find(byte_ids_, -1) != byte_ids_.end())
    throw_error("tokenizer.ggml.tokens: a tokenizer of the model \"plamo2\" needs a token for each byte");
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    if (const TokenKind kind = vocabulary.kind(id); kind == TokenKind::normal || kind == TokenKind::user_defined)
      pieces_.insert(vocabulary.text(id), id);
}

void Plamo::encode(std::string_view text, bool, std::vector<int32_t>& ids) const {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max(), kBytesCost = 10'000'000;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  struct Way {
    int64_t cost = kNone;
    size_t bytes = 0;
    int32_t id = -1;
  };
  std::vector<size_t> characters;
  for (size_t at = 0; at < text.size(); at += core::utf8_step(text.substr(at))) characters.push_back(at);
  std::vector<Way> ways(text.size() + 1);
  ways[text.size()].cost = 0;
  for (size_t i = characters.size(); i-- > 0;) {
    const size_t start = characters[i];
    const size_t next = i + 1 < characters.size() ? characters[i + 1] : text.size();
    Way& way = ways[start] = {ways[next].cost + kBytesCost, next - start, -1};
    int32_t node = 0;
    for (size_t end = start; end < text.size();) {
      node = pieces_.child(node, static_cast<unsigned char>(text[end++]));
      if (node < 0) break;
      const int32_t id = pieces_.id_at(node);
      if (id < 0 || ways[end].cost == kNone) continue;
      const int64_t cost = ways[end].cost - std::llround(1e4 * std::clamp<double>(vocabulary_.score(id), -1e9, 1e9));
      if (cost <= way.cost) way = {cost, end - start, id};
    }
  }
  for (size_t at = 0; at < text.size(); at += ways[at].bytes) {
    if (ways[at].id >= 0) {
      ids.push_back(ways[at].id);
      continue;
    }
    for (const char c : text.substr(at, ways[at].bytes)) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  }
}

} // namespace ridge::text
