// Recomputed from all tokens of the stream.
#include "support/naive.h"

#include <cstring>

namespace ridge::tests {

void naive_ngram_embed(Naive& naive, const core::Op& op) {
  const auto& p = std::get<core::NgramParams>(op.params);
  std::vector<int32_t> hash(2 * (p.length + p.heads()));
  std::memcpy(hash.data(), naive.program().weights[op.weights[1]].data, 4 * hash.size());
  naive.for_rows(op, [&](size_t t) {
    Naive::Matrix& stream = naive.states(p.state, t); // its tokens
    stream.push_back({static_cast<double>(naive.batch().tokens[t])});
    std::vector<uint64_t> ngram;
    for (int64_t i = 0; i < p.length; ++i) { // backwards; an end token hides earlier ones
      const int64_t at = std::ssize(stream) - 1 - i;
      const bool ends = at < 0 || (i > 1 && ngram.back() == static_cast<uint64_t>(p.end_token));
      ngram.push_back(static_cast<uint64_t>(ends ? p.end_token : stream[at][0]));
    }
    Naive::Row y;
    for (int64_t head = 0; head < p.heads(); ++head) {
      uint64_t mixed = 0;
      for (int64_t i = 0; i < 2 + head / p.heads_per_length; ++i) {
        uint64_t factor;
        std::memcpy(&factor, hash.data() + 2 * i, sizeof factor);
        mixed ^= ngram[i] * factor;
      }
      const int32_t* rows = hash.data() + 2 * (p.length + head);
      const Naive::Row row =
          naive.weight_row(op.weights[0], rows[0] + static_cast<int64_t>(mixed % static_cast<uint64_t>(rows[1])));
      y.insert(y.end(), row.begin(), row.end());
    }
    return y;
  });
}

} // namespace ridge::tests
