#include "engine/constraint.h"

#include <vector>

namespace ridge::engine {

std::shared_ptr<const text::TokenTable> make_token_table(const text::Tokenizer& tokenizer) {
  std::vector<std::string> pieces(tokenizer.vocab_size());
  std::vector<int32_t> ends;
  std::vector<text::TokenTable::Special> special;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_eog(id)) ends.push_back(id);
    if (tokenizer.is_special(id)) {
      special.push_back({std::string(tokenizer.token_text(id)), id});
    } else {
      pieces[id] = tokenizer.piece(id);
    }
  }
  return std::make_shared<const text::TokenTable>(pieces, ends, special);
}

} // namespace ridge::engine
