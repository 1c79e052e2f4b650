#include "text/grammar/token_table.h"

#include "core/error.h"

#include <algorithm>
#include <limits>

namespace ridge::text {

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
  std::vector<TokenTree::Entry> entries;
  for (int32_t token = 0; token < size(); ++token)
    if (!piece(token).empty() && !is_eog(token)) entries.push_back({piece(token), token});
  tree_ = TokenTree(std::move(entries));
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
  const auto found = std::lower_bound(tree_.order().begin(), tree_.order().end(), text,
                                      [&](int32_t token, std::string_view t) { return piece(token) < t; });
  return found != tree_.order().end() && piece(*found) == text ? *found : -1;
}

std::shared_ptr<const ClassTokens> TokenTable::of_class(const Grammar& grammar, uint32_t char_class) const {
  const std::vector<CodePointRange>& ranges = grammar.classes.at(char_class);
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(classes_, ranges, &Class::first);
  if (known != classes_.end()) {
    classes_.splice(classes_.begin(), classes_, known);
    return known->second;
  }
  auto made = std::make_shared<const ClassTokens>(tree_, static_cast<size_t>(size()), grammar.class_nodes, char_class);
  classes_.push_front({ranges, made});
  class_bytes_ += made->bytes();
  while (class_bytes_ > kMaxClassBytes && classes_.size() > 1) {
    class_bytes_ -= classes_.back().second->bytes();
    classes_.pop_back();
  }
  return made;
}

std::shared_ptr<const TokenTable> make_token_table(const Tokenizer& tokenizer) {
  std::vector<std::string> pieces(tokenizer.vocab_size());
  std::vector<int32_t> ends;
  std::vector<TokenTable::Special> special;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_eog(id)) ends.push_back(id);
    if (tokenizer.is_special(id)) {
      special.push_back({std::string(tokenizer.token_text(id)), id});
    } else {
      pieces[id] = tokenizer.piece(id);
    }
  }
  return std::make_shared<const TokenTable>(pieces, ends, special);
}

} // namespace ridge::text
