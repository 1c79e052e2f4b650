#include "text/grammar/grammar_matcher.h"

#include "core/error.h"

#include <algorithm>
#include <limits>

namespace ridge::text {

namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr size_t kMaxRememberedMasks = 1000; // 16 KB each at 128k tokens

std::vector<int32_t> resolve_tokens(const Grammar& grammar, const TokenTable& vocabulary) {
  std::vector<int32_t> ids;
  for (const Grammar::TokenReference& reference : grammar.tokens) {
    const int32_t id = reference.text.empty() ? reference.id : vocabulary.find(reference.text);
    if (id < 0) throw_error("grammar: {} is not one token of this model's vocabulary", reference.text);
    if (id >= vocabulary.size()) throw_error("grammar: <[{}]> is outside the vocabulary of {}", id, vocabulary.size());
    ids.push_back(id);
  }
  return ids;
}

} // namespace

TokenTable::TokenTable(std::span<const std::string> pieces, std::span<const int32_t> eog,
                       std::span<const Special> special)
    : eog_(eog.begin(), eog.end()), special_(special.begin(), special.end()) {
  for (const std::string& piece : pieces) {
    bytes_ += piece;
    if (piece.size() > std::numeric_limits<uint16_t>::max() || bytes_.size() > std::numeric_limits<uint32_t>::max()) {
      throw_error("token {} has a piece of {} bytes, too long for a grammar", ends_.size(), piece.size());
    }
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  std::sort(eog_.begin(), eog_.end());
  const auto check = [&](int32_t token) {
    if (token < 0 || token >= size()) throw_error("token {} is outside the vocabulary of {}", token, size());
  };
  for (const int32_t token : eog_) check(token);
  for (const Special& s : special_) check(s.token);
  build_trie();
}

void TokenTable::build_trie() {
  for (int32_t token = 0; token < size(); ++token) {
    if (!piece(token).empty() && !is_eog(token)) order_.push_back(token);
  }
  std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
    const int difference = piece(a).compare(piece(b));
    return difference != 0 ? difference < 0 : a < b;
  });
  std::vector<uint32_t> path;
  std::string_view previous;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
  };
  for (uint32_t i = 0; i < order_.size(); ++i) {
    const std::string_view bytes = piece(order_[i]);
    const auto [differs, _] = std::mismatch(bytes.begin(), bytes.end(), previous.begin(), previous.end());
    close(static_cast<size_t>(differs - bytes.begin()));
    for (size_t depth = path.size(); depth < bytes.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, i, static_cast<uint16_t>(depth), static_cast<uint8_t>(bytes[depth])});
    }
    max_depth_ = std::max(max_depth_, static_cast<uint32_t>(bytes.size()));
    previous = bytes;
  }
  close(0);
  nodes_.push_back({0, static_cast<uint32_t>(order_.size()), 0, 0});
}

std::string_view TokenTable::piece(int32_t token) const {
  const uint32_t begin = token == 0 ? 0 : ends_[token - 1];
  return std::string_view(bytes_).substr(begin, ends_[token] - begin);
}

bool TokenTable::is_eog(int32_t token) const { return std::binary_search(eog_.begin(), eog_.end(), token); }

int32_t TokenTable::find(std::string_view text) const {
  for (const Special& s : special_) {
    if (s.text == text) return s.token;
  }
  const auto found = std::lower_bound(order_.begin(), order_.end(), text,
                                      [&](int32_t token, std::string_view t) { return piece(token) < t; });
  return found != order_.end() && piece(*found) == text ? *found : -1;
}

GrammarMatcher::GrammarMatcher(const Grammar& grammar, const TokenTable& vocabulary)
    : vocabulary_(vocabulary), states_(grammar, resolve_tokens(grammar, vocabulary)), current_(states_.start()),
      sets_by_depth_(vocabulary.max_depth() + 2) {}

void GrammarMatcher::reset() {
  begin();
  current_ = states_.start();
}

void GrammarMatcher::begin() {
  bool forgotten = false;
  current_ = states_.begin(current_, forgotten);
  if (forgotten) {
    local_masks_.clear();
    masks_.clear();
  }
}

GrammarMatcher::SetId GrammarMatcher::after(int32_t token) {
  if (token < 0 || token >= vocabulary_.size()) return GrammarStates::kDead;
  if (vocabulary_.is_eog(token)) return can_end() ? states_.ended() : GrammarStates::kDead;
  const std::string_view piece = vocabulary_.piece(token);
  SetId set = piece.empty() ? GrammarStates::kDead : current_;
  for (const char byte : piece) set = states_.step(set, static_cast<uint8_t>(byte));
  return states_.unite(set, states_.step_token(current_, token));
}

bool GrammarMatcher::allows(int32_t token) {
  begin();
  return after(token) != GrammarStates::kDead;
}

void GrammarMatcher::accept(int32_t token) {
  begin();
  const SetId next = after(token);
  if (next == GrammarStates::kDead) throw_error("the grammar does not allow token {} here", token);
  current_ = next;
}

GrammarMatcher::SetId GrammarMatcher::after_text(std::string_view text) {
  SetId set = current_;
  for (const char byte : text) set = states_.step(set, static_cast<uint8_t>(byte));
  return set;
}

bool GrammarMatcher::allows_text(std::string_view text) {
  begin();
  return after_text(text) != GrammarStates::kDead;
}

void GrammarMatcher::accept_text(std::string_view text) {
  begin();
  const SetId next = after_text(text);
  if (next == GrammarStates::kDead) throw_error("the grammar does not allow '{}' here", text);
  current_ = next;
}

void GrammarMatcher::apply(std::span<float> logits) {
  const auto vocab = static_cast<size_t>(vocabulary_.size());
  if (logits.size() < vocab) throw_error("{} logits for a grammar's vocabulary of {}", logits.size(), vocab);
  begin();
  const Bits& allowed = mask();
  for (size_t word = 0; word < allowed.size(); ++word) {
    const size_t first = word * 64, count = std::min<size_t>(64, vocab - first);
    if (allowed[word] == 0) {
      std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(first), count, kMasked);
    } else if (allowed[word] != ~uint64_t{0}) {
      for (size_t i = 0; i < count; ++i) {
        if ((allowed[word] >> i & 1) == 0) logits[first + i] = kMasked;
      }
    }
  }
  std::fill(logits.begin() + static_cast<std::ptrdiff_t>(vocab), logits.end(), kMasked);
}

const GrammarMatcher::Bits& GrammarMatcher::mask() {
  const auto known = masks_.find(current_);
  if (known != masks_.end()) return known->second;
  if (masks_.size() >= kMaxRememberedMasks) masks_.clear();

  const GrammarStates::Cut cut = states_.cut(current_);
  const LocalMask& local = local_mask(cut.local);
  Bits allowed = local.allowed;
  const SetId outside = local.leaving.empty() ? GrammarStates::kDead : states_.resume(cut.base);
  if (outside != GrammarStates::kDead) {
    for (const uint32_t node : local.leaving) {
      set_bits(node, allowed);
      walk(node + 1, vocabulary_.nodes()[node].end, outside, allowed, nullptr);
    }
  }
  std::vector<GrammarStates::TokenEdge> edges;
  states_.token_edges(current_, edges);
  for (const auto& [id, negated] : edges) {
    if (!negated) allowed[id / 64] |= uint64_t{1} << (id % 64);
  }
  for (int32_t token = 0; !edges.empty() && token < vocabulary_.size(); ++token) {
    const auto excludes = [&](const auto& edge) { return edge.negated && edge.id != token; };
    if (std::any_of(edges.begin(), edges.end(), excludes)) allowed[token / 64] |= uint64_t{1} << (token % 64);
  }
  for (const int32_t token : vocabulary_.eog()) {
    const uint64_t bit = uint64_t{1} << (token % 64);
    allowed[token / 64] = can_end() ? allowed[token / 64] | bit : allowed[token / 64] & ~bit;
  }
  return masks_.emplace(current_, std::move(allowed)).first->second;
}

const GrammarMatcher::LocalMask& GrammarMatcher::local_mask(SetId local) {
  const auto known = local_masks_.find(local);
  if (known != local_masks_.end()) return known->second;
  if (local_masks_.size() >= kMaxRememberedMasks) local_masks_.clear();
  LocalMask found{Bits((static_cast<size_t>(vocabulary_.size()) + 63) / 64), {}};
  walk(0, static_cast<uint32_t>(vocabulary_.nodes().size()), local, found.allowed, &found.leaving);
  return local_masks_.emplace(local, std::move(found)).first->second;
}

// Allows the tokens of trie nodes [first, end) that the grammar can read from `set`. The range consists of whole
// subtrees of one level. `leaving` collects nodes that reach the unknown bottom.
void GrammarMatcher::walk(uint32_t first, uint32_t end, SetId set, Bits& allowed, std::vector<uint32_t>* leaving) {
  if (first == end) return;
  const std::span<const TokenTable::Node> nodes = vocabulary_.nodes();
  sets_by_depth_[nodes[first].depth] = set;
  for (uint32_t i = first; i < end;) {
    const TokenTable::Node& node = nodes[i];
    const SetId next = states_.step(sets_by_depth_[node.depth], node.byte);
    if (next == GrammarStates::kDead) {
      i = node.end;
      continue;
    }
    sets_by_depth_[node.depth + 1] = next;
    if (leaving != nullptr && states_.reaches_bottom(next)) leaving->push_back(i);
    if (states_.has_configurations(next) || states_.can_end(next)) set_bits(i, allowed);
    ++i;
  }
}

void GrammarMatcher::set_bits(uint32_t node, Bits& allowed) const {
  for (const int32_t token : vocabulary_.tokens_at(node)) allowed[token / 64] |= uint64_t{1} << (token % 64);
}

} // namespace ridge::text
