// Damaged files must not crash, hang or be read out of bounds (sanitizers).
#include "gguf/builder.h"
#include "gguf/touch.h"
#include "support/numerics.h"

using namespace ridge;

namespace {

bool survives(std::string_view bytes) {
  try {
    const gguf::File file = tests::open_bytes(bytes);
    tests::touch(file);
    return true;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    REQUIRE(tests::one_printable_line(message));
    REQUIRE(message.starts_with("test.gguf: "));
    return false;
  }
}

} // namespace

TEST_CASE("a file cut short anywhere is refused with the number of missing bytes or items") {
  const std::string whole = tests::small_file();
  REQUIRE(survives(whole));
  for (size_t length = 1; length < whole.size(); ++length) {
    CAPTURE(length);
    const std::string message = tests::refusal(whole.substr(0, length));
    CAPTURE(message);
    CHECK(message.find(": offset ") != std::string::npos);
    CHECK(message.find("the download is incomplete") != std::string::npos);
  }
}

TEST_CASE("no single flipped bit of a file does harm") {
  const std::string whole = tests::small_file();
  int refused = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    refused += !survives(damaged);
  }
  CHECK(refused > 1000);
}

TEST_CASE("random damage does no harm") {
  const std::string whole = tests::small_file();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  constexpr uint64_t kTelling[] = {0, 1, 8, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, uint64_t{1} << 62, UINT64_MAX};
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = whole;
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(damaged.size());
      switch (below(4)) {
      case 0: damaged[at] = static_cast<char>(random()); break;
      case 1: {
        const uint64_t number = kTelling[below(std::size(kTelling))];
        std::memcpy(damaged.data() + at, &number, std::min<size_t>(8, damaged.size() - at));
        break;
      }
      case 2: damaged.erase(at, 1 + below(16)); break;
      case 3: damaged.insert(at, damaged.substr(below(damaged.size()), 1 + below(16))); break;
      }
      if (damaged.empty()) damaged = whole;
    }
    survives(damaged);
  }
}
