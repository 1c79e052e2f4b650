// tests/golden/NAME.bin: 4×512 weights packed by ggml, then as decoded; in-memory formats: random blocks and NumPy's
// floats (tests/cross_check/golden_memory_formats.py).
#include "quant/registry.h"
#include "support/reference.h"

#include <bit>

using namespace ridge;

TEST_CASE("packed weights decode to the golden floats, bit for bit") {
  for (const quant::FormatInfo& format : quant::formats()) {
    if (format.type == quant::Type::F32) continue;
    CAPTURE(format.name);
    const std::string bytes = tests::read_file(RIDGE_SOURCE_DIR "/tests/golden/" + std::string(format.name) + ".bin");
    const int64_t weights = 4 * 512, packed_bytes = format.row_bytes(weights);
    REQUIRE(bytes.size() == static_cast<size_t>(packed_bytes + 4 * weights));
    std::vector<float> decoded(weights), golden(weights);
    format.decode(reinterpret_cast<const std::byte*>(bytes.data()), weights, decoded.data());
    std::memcpy(golden.data(), bytes.data() + packed_bytes, 4 * weights);
    for (int64_t i = 0; i < weights; ++i) {
      CAPTURE(i);
      REQUIRE(std::bit_cast<uint32_t>(decoded[i]) == std::bit_cast<uint32_t>(golden[i]));
    }
  }
}

TEST_CASE("every golden file belongs to a format") {
  for (const auto& file : std::filesystem::directory_iterator(RIDGE_SOURCE_DIR "/tests/golden")) {
    if (file.path().extension() != ".bin") continue;
    CAPTURE(file.path());
    CHECK(quant::find_format(file.path().stem().string()) != nullptr);
  }
}
