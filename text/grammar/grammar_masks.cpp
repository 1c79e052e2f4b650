#include "text/grammar/grammar_masks.h"

#include "core/error.h"

#include <algorithm>

namespace ridge::text {

namespace {

constexpr size_t kCostlyLeaving = 200;

std::vector<int32_t> resolve_tokens(const Grammar& grammar, const TokenTable& vocabulary) {
  std::vector<int32_t> ids;
  for (const Grammar::TokenReference& reference : grammar.tokens) {
    const int32_t id = reference.text.empty() ? reference.id : vocabulary.find(reference.text);
    if (id < 0) throw_error("grammar: {} is not a single token of this model's vocabulary", reference.text);
    if (id >= vocabulary.size()) throw_error("grammar: <[{}]> is outside the vocabulary of {}", id, vocabulary.size());
    ids.push_back(id);
  }
  return ids;
}

void set_bit(TokenBits& bits, int32_t token) { bits[token / 64] |= uint64_t{1} << (token % 64); }

} // namespace

size_t GrammarMasks::LocalMask::bytes() const {
  return sizeof(*this) + tokens.capacity() * sizeof(tokens[0]) + leaving.capacity() * sizeof(leaving[0]) +
         (bits && !of_class ? bits->size() * sizeof(uint64_t) : 0);
}

GrammarMasks::GrammarMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTable> vocabulary)
    : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)),
      states_(*grammar_, resolve_tokens(*grammar_, *vocabulary_)), sets_by_depth_(vocabulary_->tree().max_depth() + 2) {
}

void GrammarMasks::fill(SetId set, TokenBits& allowed) {
  if (const auto known = costly_masks_.find(set); known != costly_masks_.end()) {
    allowed = known->second;
    return;
  }
  const bool can_end = states_.can_end(set);
  const GrammarStates::Cut cut = states_.cut(set);
  const LocalMask& local = local_mask(cut.local);
  if (local.bits)
    allowed = *local.bits;
  else
    allowed.assign((static_cast<size_t>(vocabulary_->size()) + 63) / 64, 0);
  for (const int32_t token : local.tokens) set_bit(allowed, token);
  const SetId outside = local.leaving.empty() ? GrammarStates::kDead : states_.resume(cut.base);
  if (outside != GrammarStates::kDead) {
    found_.clear();
    for (const Leaving& at : local.leaving) {
      for (const int32_t token : at.tree->tokens_at(at.node)) set_bit(allowed, token);
      walk(*at.tree, at.node + 1, at.tree->nodes()[at.node].end, outside, found_, nullptr);
    }
    for (const int32_t token : found_) set_bit(allowed, token);
  }
  std::vector<GrammarStates::TokenEdge> edges;
  states_.token_edges(set, edges);
  for (const auto& [id, negated] : edges)
    if (!negated) set_bit(allowed, id);
  for (int32_t token = 0; !edges.empty() && token < vocabulary_->size(); ++token) {
    const auto excludes = [&](const auto& edge) { return edge.negated && edge.id != token; };
    if (std::any_of(edges.begin(), edges.end(), excludes)) set_bit(allowed, token);
  }
  for (const int32_t token : vocabulary_->eog()) {
    const uint64_t bit = uint64_t{1} << (token % 64);
    allowed[token / 64] = can_end ? allowed[token / 64] | bit : allowed[token / 64] & ~bit;
  }
  if (local.leaving.size() < kCostlyLeaving) return;
  if (bytes_ > kMaxBytes) {
    bytes_ -= costly_masks_.size() * allowed.size() * sizeof(allowed[0]);
    costly_masks_.clear();
  }
  costly_masks_.emplace(set, allowed);
  bytes_ += allowed.size() * sizeof(allowed[0]);
}

const GrammarMasks::LocalMask& GrammarMasks::local_mask(SetId local) {
  const auto known = local_masks_.find(local);
  if (known != local_masks_.end()) return known->second;
  if (bytes_ > kMaxBytes) {
    local_masks_.clear();
    costly_masks_.clear();
    bytes_ = 0;
  }
  LocalMask made;
  if (!make_free_mask(local, made)) {
    const TokenTree& tree = vocabulary_->tree();
    walk(tree, 0, static_cast<uint32_t>(tree.nodes().size()), local, made.tokens, &made.leaving);
    const size_t words = (static_cast<size_t>(vocabulary_->size()) + 63) / 64;
    if (made.tokens.size() * sizeof(int32_t) > words * sizeof(uint64_t)) {
      TokenBits bits(words);
      for (const int32_t token : made.tokens) set_bit(bits, token);
      made.bits = std::make_shared<const TokenBits>(std::move(bits));
      made.tokens.clear();
    }
  }
  made.tokens.shrink_to_fit();
  made.leaving.shrink_to_fit();
  bytes_ += made.bytes();
  return local_masks_.emplace(local, std::move(made)).first->second;
}

// False if the text is not free here.
bool GrammarMasks::make_free_mask(SetId local, LocalMask& mask) {
  const uint32_t free = states_.free_class(local);
  if (free == 0) return false;
  const auto& edges = grammar_->class_nodes[free];
  const auto byte = std::ranges::find(edges, Grammar::kMatched);
  if (byte == edges.end()) return false; // no ASCII
  const auto character = static_cast<uint8_t>(byte - edges.begin());

  // sets[n]: behind n characters of the class
  std::vector<SetId> sets = {local};
  const std::shared_ptr<const ClassTokens> tokens = vocabulary_->of_class(*grammar_, free);
  bool loops = false;
  while (sets.size() <= tokens->most()) {
    const SetId next = states_.step(sets.back(), character);
    if (states_.reaches_bottom(next)) return false;
    loops = next == sets.back();
    if (loops) break;
    sets.push_back(next);
    if (states_.free_class(next) == free) continue;
    if (states_.reads_class(next, free)) return false;
    break;
  }
  const TokenTree& vocabulary = vocabulary_->tree();
  for (const uint32_t node : tokens->outside())
    walk(vocabulary, node, vocabulary.nodes()[node].end, local, mask.tokens, &mask.leaving);
  const auto walk_all = [&](const TokenTree& tree, SetId set) {
    walk(tree, 0, static_cast<uint32_t>(tree.nodes().size()), set, mask.tokens, &mask.leaving);
  };
  if (loops && sets.size() == 1) {
    walk_all(tokens->behind_any(), local);
  } else {
    for (size_t n = 0; n <= tokens->most(); ++n)
      if (loops || n < sets.size()) walk_all(tokens->behind(n), sets[std::min(n, sets.size() - 1)]);
  }
  mask.bits = tokens->of_at_most(loops ? tokens->most() : sets.size() - 1);
  mask.of_class = tokens;
  return true;
}

// Finds the tokens of nodes [first, end) that the grammar can read from `set`. The range consists of whole subtrees of
// one level. `leaving` collects nodes that reach the unknown bottom.
void GrammarMasks::walk(const TokenTree& tree, uint32_t first, uint32_t end, SetId set, std::vector<int32_t>& allowed,
                        std::vector<Leaving>* leaving) {
  if (first == end) return;
  const std::span<const TokenTree::Node> nodes = tree.nodes();
  sets_by_depth_[nodes[first].depth] = set;
  for (uint32_t i = first; i < end;) {
    const TokenTree::Node& node = nodes[i];
    const SetId next = states_.step(sets_by_depth_[node.depth], node.byte);
    if (next == GrammarStates::kDead) {
      i = node.end;
      continue;
    }
    sets_by_depth_[node.depth + 1] = next;
    if (leaving != nullptr && states_.reaches_bottom(next)) leaving->push_back({&tree, i});
    if (states_.has_configurations(next) || states_.can_end(next)) {
      const auto tokens = tree.tokens_at(i);
      allowed.insert(allowed.end(), tokens.begin(), tokens.end());
    }
    ++i;
  }
}

std::shared_ptr<GrammarMasks> SharedGrammar::masks(const std::shared_ptr<const TokenTable>& vocabulary) const {
  const std::scoped_lock lock(mutex_);
  const auto usable = [&] {
    if (!masks_ || masks_->vocabulary() != vocabulary) return false;
    const std::scoped_lock of_masks(masks_->mutex());
    return !masks_->states().is_full();
  };
  if (!usable()) masks_ = std::make_shared<GrammarMasks>(grammar_, vocabulary);
  return masks_;
}

size_t SharedGrammar::bytes() const {
  const size_t of_grammar = grammar_->states.size() * sizeof(grammar_->states[0]) +
                            grammar_->class_nodes.size() * sizeof(grammar_->class_nodes[0]);
  const std::scoped_lock lock(mutex_);
  if (!masks_) return of_grammar;
  const std::scoped_lock of_masks(masks_->mutex());
  return of_grammar + masks_->bytes();
}

} // namespace ridge::text
