// A GGUF reader independent of gguf/, written from the format's description. Checks header, metadata, tensor table,
// alignment and gapless extents.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace ridge::tests {

struct CheckedTensor {
  std::vector<uint64_t> dims;
  uint32_t type;
  uint64_t offset;
};

struct CheckedGguf {
  std::map<std::string, uint32_t> metadata_types;
  std::map<std::string, uint32_t> u32;
  std::map<std::string, CheckedTensor> tensors;

  explicit CheckedGguf(const std::string& bytes) : bytes_(bytes) {
    REQUIRE(bytes.substr(0, 4) == "GGUF");
    at_ = 4;
    CHECK(number<uint32_t>() == 3);
    const auto tensor_count = number<uint64_t>(), pair_count = number<uint64_t>();
    for (uint64_t i = 0; i < pair_count; ++i) {
      const std::string key = text();
      const auto type = number<uint32_t>();
      CHECK(metadata_types.emplace(key, type).second);
      if (type == 4) u32[key] = peek<uint32_t>();
      skip_value(type);
    }
    std::vector<CheckedTensor> order;
    for (uint64_t i = 0; i < tensor_count; ++i) {
      const std::string name = text();
      CHECK(name.size() < 64);
      CheckedTensor tensor;
      tensor.dims.resize(number<uint32_t>());
      REQUIRE(tensor.dims.size() >= 1);
      REQUIRE(tensor.dims.size() <= 4);
      for (uint64_t& dim : tensor.dims) dim = number<uint64_t>();
      tensor.type = number<uint32_t>();
      tensor.offset = number<uint64_t>();
      order.push_back(tensor);
      CHECK(tensors.emplace(name, tensor).second);
    }
    const uint64_t alignment = u32.contains("general.alignment") ? u32["general.alignment"] : 32;
    const auto aligned = [&](uint64_t n) { return (n + alignment - 1) / alignment * alignment; };
    const uint64_t data = aligned(at_);
    for (uint64_t i = at_; i < data; ++i) CHECK(bytes_[i] == 0);
    uint64_t end = 0;
    for (const CheckedTensor& tensor : order) { // padded, without gaps
      CHECK(tensor.offset == aligned(end));
      end = tensor.offset + bytes_of(tensor);
    }
    CHECK(data + aligned(end) >= bytes_.size());
    CHECK(data + end <= bytes_.size());
  }

  // From ggml's table of block sizes.
  static uint64_t bytes_of(const CheckedTensor& tensor) {
    static const std::map<uint32_t, std::pair<uint64_t, uint64_t>> kBlocks = {
        {0, {1, 4}},      {1, {1, 2}},      {2, {32, 18}},   {3, {32, 20}},    {6, {32, 22}},
        {7, {32, 24}},    {8, {32, 34}},    {10, {256, 84}}, {11, {256, 110}}, {12, {256, 144}},
        {13, {256, 176}}, {14, {256, 210}}, {20, {32, 18}},  {23, {256, 136}}, {30, {1, 2}}};
    REQUIRE(kBlocks.contains(tensor.type));
    const auto [weights, bytes] = kBlocks.at(tensor.type);
    uint64_t count = 1;
    for (const uint64_t dim : tensor.dims) count *= dim;
    REQUIRE(tensor.dims[0] % weights == 0);
    return count / weights * bytes;
  }

 private:
  template <typename T>
  T peek() const {
    REQUIRE(at_ + sizeof(T) <= bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    return value;
  }
  template <typename T>
  T number() {
    const T value = peek<T>();
    at_ += sizeof(T);
    return value;
  }
  std::string text() {
    const auto length = number<uint64_t>();
    REQUIRE(length <= bytes_.size() - at_);
    at_ += length;
    return bytes_.substr(at_ - length, length);
  }
  void skip_value(uint32_t type) {
    constexpr uint64_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; // 8: string, 9: array
    REQUIRE(type <= 12);
    if (type == 8) {
      text();
    } else if (type == 9) {
      const auto element = number<uint32_t>();
      const auto count = number<uint64_t>();
      for (uint64_t i = 0; i < count; ++i) skip_value(element);
    } else {
      at_ += kSizes[type];
      REQUIRE(at_ <= bytes_.size());
    }
  }

  const std::string& bytes_;
  uint64_t at_ = 0;
};

} // namespace ridge::tests
