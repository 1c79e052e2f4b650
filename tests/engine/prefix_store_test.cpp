// Compares the prefix store with a naive one.
#include "engine/prefixes/prefix_store.h"

#include "support/numerics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

using namespace ridge;
using engine::PrefixBlock;
using engine::PrefixPart;
using engine::PrefixState;
using engine::PrefixStates;
using engine::PrefixStore;

namespace {

constexpr int64_t kPositions = 8;

using Tokens = std::vector<int32_t>;

// Depends on all tokens up to the position.
uint32_t row_of(std::span<const int32_t> tokens) {
  uint32_t row = 1;
  for (const int32_t token : tokens) row = row * 31 + static_cast<uint32_t>(token) + 1;
  return row;
}

PrefixStore::Shape shape(int64_t state_elements = 0) {
  return {kPositions, kPositions * static_cast<int64_t>(sizeof(uint32_t)), state_elements};
}

PrefixBlock make_block() {
  const auto bytes = std::make_shared<std::vector<std::byte>>(kPositions * sizeof(uint32_t));
  return {bytes, bytes->data()};
}

// Rows after the tokens are old data.
PrefixStore::Fill rows_of(const Tokens& tokens) {
  return [&tokens](int64_t first, std::span<const PrefixBlock> blocks) {
    for (size_t b = 0; b < blocks.size(); ++b)
      for (int64_t i = 0; i < kPositions; ++i) {
        const int64_t position = (first + static_cast<int64_t>(b)) * kPositions + i;
        const uint32_t row = position < std::ssize(tokens) ? row_of(std::span(tokens).first(position + 1)) : 0xbad;
        std::memcpy(blocks[b].get() + i * sizeof(row), &row, sizeof(row));
      }
  };
}

PrefixState state_at(std::span<const int32_t> tokens) {
  return std::make_shared<const float>(static_cast<float>(row_of(tokens) >> 9));
}

bool right(const PrefixStore::Start& start, std::span<const int32_t> tokens) {
  for (int64_t position = 0; position < start.tokens; ++position) {
    uint32_t row = 0;
    std::memcpy(&row, start.blocks.at(position / kPositions).get() + position % kPositions * sizeof(row), sizeof(row));
    if (row != row_of(tokens.first(position + 1))) return false;
  }
  return !start.state || *start.state == *state_at(tokens.first(start.tokens));
}

Tokens numbered(int64_t count, int32_t from = 0) {
  Tokens tokens(count);
  for (int64_t i = 0; i < count; ++i) tokens[i] = from + static_cast<int32_t>(i);
  return tokens;
}

Tokens joined(Tokens tokens, const Tokens& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

int64_t bytes_of(int64_t tokens) { return (tokens + kPositions - 1) / kPositions * kPositions * 4 + tokens * 4; }

} // namespace

TEST_CASE("prefix store: sequences that begin alike share what they have in common") {
  PrefixStore store(shape(), 1 << 20, make_block);
  const Tokens system = numbered(37), one = joined(system, numbered(30, 100)), two = joined(system, numbered(30, 200));
  store.insert(one, {}, rows_of(one));
  CHECK(store.bytes() == bytes_of(67));
  store.insert(two, {}, rows_of(two));
  CHECK(store.nodes() == 3);
  CHECK(store.bytes() == bytes_of(67) + 5 * kPositions * 4 + 30 * 4); // from the block of position 37
  store.insert(two, {}, rows_of(two));
  CHECK(store.nodes() == 3);
  Tokens edited = one;
  edited[50] = 999;
  for (const Tokens& tokens : {one, two, system, edited, joined(two, {1, 2, 3})}) {
    const PrefixStore::Start start = store.find(tokens);
    CHECK(start.tokens == (tokens == edited ? 50 : std::min<int64_t>(67, std::ssize(tokens))));
    CHECK(right(start, tokens));
  }
  const Tokens other = numbered(15, 500);
  store.insert(other, {}, rows_of(other));
  CHECK(store.find(other).tokens == 0);
}

TEST_CASE("prefix store: leaves that were not used for longest make room, and no more is held than may be") {
  const Tokens a = numbered(32), b = numbered(32, 100), c = numbered(32, 200);
  PrefixStore store(shape(), 2 * bytes_of(32), make_block);
  std::vector<Tokens> gone;
  store.on_evict([&](const PrefixPart& part) { gone.push_back(part.tokens); });
  store.insert(a, {}, rows_of(a));
  store.insert(b, {}, rows_of(b));
  CHECK(store.find(a).tokens == 32);
  store.insert(c, {}, rows_of(c));
  CHECK(gone == std::vector<Tokens>{b});
  CHECK(store.common(b) == 0);
  CHECK(store.common(a) == 32);

  const Tokens longer = joined(a, numbered(100, 300));
  store.insert(longer, {}, rows_of(longer));
  CHECK(store.bytes() <= 2 * bytes_of(32));
  CHECK(store.common(longer) == 64);
  CHECK(right(store.find(longer), longer));
}

TEST_CASE("prefix store: where there is recurrent state, a start is where a copy of it is") {
  PrefixStore store(shape(1), 1 << 20, make_block);
  const Tokens tokens = numbered(60), branch = joined(numbered(30), numbered(40, 300));
  const std::span all(tokens);
  store.insert(tokens, {{20, state_at(all.first(20))}, {50, state_at(all.first(50))}}, rows_of(tokens));
  CHECK(store.common(tokens) == 60);
  CHECK(store.usable(tokens) == 50);
  CHECK(store.usable(all.first(49)) == 20);
  CHECK(store.usable(branch) == 20);
  store.insert(branch, {{30, state_at(all.first(30))}, {70, state_at(branch)}}, rows_of(branch));
  for (const auto& [path, usable] : {std::pair(tokens, 50), {branch, 70}, {numbered(45), 30}, {numbered(19), 0}}) {
    const PrefixStore::Start start = store.find(path);
    CHECK(start.tokens == usable);
    CHECK((start.state != nullptr) == (usable > 0));
    CHECK(right(start, path));
  }
}

TEST_CASE("prefix store: of more states than there is room for the last ones are kept") {
  PrefixStore store(shape(1), bytes_of(40) + 2 * sizeof(float), make_block);
  const Tokens tokens = numbered(40);
  PrefixStates states;
  for (const int64_t position : {10, 20, 30, 40}) states.emplace(position, state_at(std::span(tokens).first(position)));
  store.insert(tokens, states, rows_of(tokens));
  CHECK(store.usable(tokens) == 40);
  CHECK(store.usable(std::span(tokens).first(39)) == 30);
  CHECK(store.usable(std::span(tokens).first(29)) == 0);
  CHECK(right(store.find(tokens), tokens));
}

TEST_CASE("prefix store: random sequences against a naive store, with room for all and with little") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  for (const int64_t states : {0, 1})
    for (const int64_t budget : {int64_t{1} << 40, int64_t{1500}}) {
      CAPTURE(states);
      CAPTURE(budget);
      PrefixStore store(shape(states), budget, make_block);
      std::set<Tokens> present;
      std::set<Tokens> with_state = {{}};
      std::vector<Tokens> known = {{}};
      for (int round = 0; round < 600; ++round) {
        Tokens tokens = known[below(known.size())];
        tokens.resize(below(tokens.size() + 1));
        for (int64_t more = below(50); more > 0; --more) tokens.push_back(static_cast<int32_t>(below(3)));
        known.push_back(tokens);
        const std::span all(tokens);
        PrefixStates copies;
        for (int64_t n = states * below(3); n > 0; --n)
          if (const int64_t at = 1 + below(tokens.size() + 1); at <= std::ssize(tokens))
            copies.emplace(at, state_at(all.first(at)));
        const int64_t before = store.common(tokens);
        store.insert(tokens, copies, rows_of(tokens));
        CHECK(store.bytes() <= budget);
        const int64_t end = std::ssize(tokens);
        if (budget > 1500) {
          const int64_t added = end - before >= engine::kWorthKeeping ? end : before;
          for (int64_t i = before; i <= added; ++i) present.emplace(tokens.begin(), tokens.begin() + i);
          for (const auto& [at, state] : copies)
            if (at <= added) with_state.emplace(tokens.begin(), tokens.begin() + at);
        }
        const Tokens& asked = known[below(known.size())];
        const PrefixStore::Start start = store.find(asked);
        CHECK(right(start, asked));
        if (states > 0) CHECK((start.state != nullptr) == (start.tokens > 0));
        if (budget > 1500) {
          int64_t expected = std::ssize(asked);
          const std::set<Tokens>& usable = states == 0 ? present : with_state;
          while (expected > 0 && !usable.contains({asked.begin(), asked.begin() + expected})) --expected;
          CHECK(start.tokens == expected);
        }
      }
      // Two parts on a path may share a block.
      std::set<std::byte*> blocks;
      int64_t bytes = 0;
      store.for_each([&](const PrefixPart& part) {
        for (const PrefixBlock& block : part.blocks) blocks.insert(block.get());
        bytes += (std::ssize(part.tokens) - part.first + std::ssize(part.states)) * 4;
      });
      CHECK(store.bytes() == bytes + std::ssize(blocks) * kPositions * 4);
    }
}

TEST_CASE("prefix store: what is held stays, and what is said to fit does") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  for (const int64_t states : {0, 1}) {
    CAPTURE(states);
    constexpr int64_t kBudget = 2500;
    PrefixStore store(shape(states), kBudget, make_block);
    std::vector<std::pair<Tokens, PrefixStore::Hold>> held;
    int64_t fitting = 0, refused = 0;
    for (int round = 0; round < 1000; ++round) {
      CAPTURE(round);
      Tokens tokens;
      if (!held.empty()) tokens = held[below(held.size())].first;
      tokens.resize(below(tokens.size() + 1));
      for (int64_t more = 1 + below(50); more > 0; --more) tokens.push_back(static_cast<int32_t>(below(3)));
      PrefixStates copies;
      if (states > 0) copies.emplace(std::ssize(tokens), state_at(tokens));
      if (below(3) > 0) {
        store.insert(tokens, copies, rows_of(tokens));
      } else if (store.fits(tokens, states)) {
        ++fitting;
        store.insert(tokens, copies, rows_of(tokens), 1);
        CHECK(store.usable(tokens) == std::ssize(tokens));
        held.emplace_back(tokens, store.hold(tokens));
      } else {
        ++refused;
      }
      for (const auto& [kept, hold] : held) {
        const PrefixStore::Start start = store.find(kept);
        CHECK(start.tokens == std::ssize(kept));
        CHECK(right(start, kept));
      }
      CHECK(store.bytes() <= kBudget);
      if (below(6) == 0 && !held.empty()) held.erase(held.begin() + below(held.size()));
    }
    CHECK(fitting > 50);
    CHECK(refused > 50);
    const std::vector<Tokens> once = {held.empty() ? numbered(20) : held[0].first};
    held.clear();
    for (int32_t i = 1; i < 100; ++i) {
      const Tokens other = numbered(40, 1000 * i);
      store.insert(other, {{40, state_at(other)}}, rows_of(other));
    }
    CHECK(store.common(once[0]) == 0);
  }
}
