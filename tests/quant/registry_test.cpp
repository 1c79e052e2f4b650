// The formats' table; properties for arbitrary bytes.
#include "quant/all_formats.h"
#include "quant/registry.h"
#include "support/numerics.h"

#include <cctype>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

using namespace ridge;
using namespace ridge::quant;

namespace {

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || core::bits_from_f32(a) == core::bits_from_f32(b);
}

// Alone on the heap, so that sanitizers see overruns.
template <typename Format, typename Fill>
std::unique_ptr<Format> make_block(Fill fill) {
  auto block = std::make_unique<Format>();
  auto* bytes = reinterpret_cast<uint8_t*>(block.get());
  for (size_t i = 0; i < sizeof(Format); ++i) bytes[i] = static_cast<uint8_t>(fill());
  return block;
}

template <typename Format>
void check_groups(const Format& block, const FormatInfo& info) {
  const auto decoded = std::make_unique<float[]>(Format::kWeights);
  info.decode(reinterpret_cast<const std::byte*>(&block), Format::kWeights, decoded.get());
  for (int g = 0; g < Format::kWeights / kGroupWeights; ++g) {
    CAPTURE(g);
    Group group;
    block.unpack(g, group);
    if (Format::kScaleWeights == 32) {
      REQUIRE(same(group.scale[0], group.scale[1]));
      REQUIRE(same(group.offset[0], group.offset[1]));
    }
    for (int i = 0; i < kGroupWeights; ++i) {
      CAPTURE(i);
      REQUIRE(group.code[i] >= (info.type == Type::Q8_0 || info.type == Type::AFFINE8 ? -128 : -127));
      if (!Format::kHasOffset) REQUIRE(core::bits_from_f32(group.offset[i / 16]) == 0);
      float expected = group.scale[i / 16] * static_cast<float>(group.code[i]);
      if (Format::kHasOffset) expected += group.offset[i / 16];
      REQUIRE(same(decoded[g * kGroupWeights + i], expected));
    }
  }
}

template <typename Format>
void check_any_bytes(Type type, std::mt19937_64& random) {
  const FormatInfo& info = format(type);
  CAPTURE(info.name);
  const auto check = [&](const Format& block) {
    if constexpr (PackedFormat<Format>) {
      check_groups(block, info);
    } else {
      float decoded[Format::kWeights];
      info.decode(reinterpret_cast<const std::byte*>(&block), Format::kWeights, decoded);
      for (int i = 0; i < Format::kWeights; ++i) REQUIRE(same(decoded[i], block.value(i)));
    }
  };
  check(*make_block<Format>([] { return 0x00; }));
  check(*make_block<Format>([] { return 0xff; }));
  check(*make_block<Format>([] { return 0x80; }));
  for (int i = 0; i < 50; ++i) check(*make_block<Format>(std::ref(random)));
}

} // namespace

TEST_CASE("format ids and names are unique and blocks are whole groups") {
  std::set<Type> ids;
  std::set<std::string_view> names;
  for (const FormatInfo& info : formats()) {
    CAPTURE(info.name);
    CHECK(ids.insert(info.type).second);
    CHECK(names.insert(info.name).second);
    if (info.packed) CHECK(info.block_weights % kGroupWeights == 0);
    CHECK(256 % info.block_weights == 0); // a row of super-blocks fits every format
    CHECK(info.row_bytes(512) * 8 == doctest::Approx(info.bits_per_weight() * 512));
  }
}

TEST_CASE("a format is found by type id and by name in any case, and nothing else is found") {
  for (const FormatInfo& info : formats()) {
    std::string lower(info.name);
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    CHECK(find_format(static_cast<uint32_t>(info.type)) == &info);
    CHECK(find_format(info.name) == &info);
    CHECK(find_format(lower) == &info);
    CHECK(&format(info.type) == &info);
  }
  CHECK(find_format(15u) == nullptr); // Q8_K: activations only, never in files
  CHECK(find_format(4u) == nullptr);  // removed from GGUF
  CHECK(find_format(0xffffffffu) == nullptr);
  CHECK(find_format("") == nullptr);
  CHECK(find_format("Q4_") == nullptr);
  CHECK(find_format("Q4_K_M") == nullptr);
}

TEST_CASE("a block of any bytes decodes to what its groups say, within the bounds of a group") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
#define RIDGE_FORMAT(name, id, weights, bytes) check_any_bytes<name>(Type::name, random);
#include "quant/formats.def"
#undef RIDGE_FORMAT
}

TEST_CASE("a row decodes like its blocks one by one") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (const FormatInfo& info : formats()) {
    CAPTURE(info.name);
    const int64_t weights = 768, blocks = weights / info.block_weights;
    std::vector<uint64_t> storage(info.row_bytes(weights) / 8 + 1);
    for (uint64_t& word : storage) word = random();
    const auto* row = reinterpret_cast<const std::byte*>(storage.data());
    std::vector<float> whole(weights), single(info.block_weights);
    info.decode(row, weights, whole.data());
    for (int64_t b = 0; b < blocks; ++b) {
      info.decode(row + b * info.block_bytes, info.block_weights, single.data());
      for (int64_t i = 0; i < info.block_weights; ++i) REQUIRE(same(whole[b * info.block_weights + i], single[i]));
    }
  }
}
