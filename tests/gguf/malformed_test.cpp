// Errors name offset and field.
#include "gguf/builder.h"

#include <doctest/doctest.h>

using namespace ridge;
using tests::Builder;
using tests::refusal;

namespace {

// In one printable line with all `words`.
void check_refused(const Builder& file, uint64_t offset, const std::vector<std::string>& words) {
  const std::string message = refusal(file.bytes());
  CAPTURE(message);
  CHECK(message.starts_with("test.gguf: offset " + std::to_string(offset) + ": "));
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(message.find(word) != std::string::npos);
  }
  CHECK(tests::one_printable_line(message));
}

} // namespace

TEST_CASE("versions other than 2 and 3, and big-endian files, are refused by name") {
  check_refused(Builder(0, 0, 1), 4, {"version", "found 1", "current GGUF version"});
  check_refused(Builder(0, 0, 0), 4, {"version", "found 0", "expected 2 or 3"});
  check_refused(Builder(0, 0, 4), 4, {"version", "found 4", "expected 2 or 3"});
  check_refused(Builder(0, 0, 0x03000000), 4, {"version", "big-endian"});
}

TEST_CASE("a file that is no GGUF is told for what it is") {
  const std::pair<std::string, const char*> kFiles[] = {
      {std::string("\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}", 27), "safetensors"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS"},
      {"<!DOCTYPE html>\n<html>", "HTML"},
      {"\n  <html lang=en>", "HTML"},
      {std::string("PK\x03\x04\x14\0", 6), "PyTorch"},
      {"\x80\x02}q", "pickle"},
      {"lmgg\1\0\0\0", "precedes GGUF"},
      {"tjgg\3\0\0\0", "precedes GGUF"},
      {"\x1f\x8b\x08", "compressed"},
      {"{\"error\": \"not found\"}", "JSON"},
      {"Entry not found\n", "text: \"Entry not found"},
      {std::string(4096, '\0'), "zero bytes"},
      {"\xde\xad\xbe\xef\x01", "de ad be ef"},
      {"FUGG", "byte-swapped"},
  };
  for (const auto& [bytes, word] : kFiles) {
    CAPTURE(word);
    check_refused(Builder().raw(bytes), 0, {"magic", "expected \"GGUF\"", word});
  }
  CHECK(refusal("") == "test.gguf: the file is empty, expected a GGUF file");
}

TEST_CASE("counts that the file cannot hold are refused before anything is allocated") {
  check_refused(Builder(uint64_t{1} << 60, 0), 8, {"tensor count", "found 1152921504606846976", "expected at most 0"});
  check_refused(Builder(0, UINT64_MAX), 16, {"metadata count", "found 18446744073709551615"});
  Builder array(0, 1);
  array.key("k", 9).u32(4);
  const uint64_t count = array.at();
  check_refused(array.u64(uint64_t{1} << 62).u32(0), count,
                {"value of 'k'", "expected at most 1, as only 4 bytes are left"});
  Builder strings(0, 1);
  strings.key("k", 9).u32(8);
  const uint64_t strings_count = strings.at();
  check_refused(strings.u64(2).string(""), strings_count, {"value of 'k'", "expected at most 1", "found 2"});
  Builder arrays(0, 1);
  arrays.key("k", 9).u32(9);
  const uint64_t arrays_count = arrays.at();
  check_refused(arrays.u64(2).u32(0).u64(0), arrays_count, {"value of 'k'", "expected at most 1", "found 2"});
}

TEST_CASE("a length past the end of the file says how much is missing") {
  Builder string(0, 1);
  string.key("k", 8).u64(100);
  const uint64_t text = string.at();
  check_refused(string.raw("only this"), text, {"value of 'k'", "expected 100 bytes, found 9", "91 bytes are missing"});
  Builder element(0, 1);
  element.key("list", 9).u32(8).u64(2).string("ok").u64(UINT64_MAX);
  check_refused(element, element.at(), {"value of 'list'[1]", "expected 18446744073709551615 bytes, found 0"});
}

TEST_CASE("bad keys are refused") {
  check_refused(Builder(0, 1).key("", 0).raw("xx"), 24, {"key[0]", "is empty"});
  check_refused(Builder(0, 1).key("bad\xff\n\x1b[2Jkey", 0).raw("x"), 24,
                {"key[0]", "'bad\\xff\\x0a\\x1b[2Jkey' is not UTF-8"});
  check_refused(Builder(0, 1).u64(65536).data(65536).u32(0).raw("x"), 24,
                {"key[0]", "65536 bytes long, expected at most 65535"});
  CHECK(refusal(Builder(0, 1).u64(65535).data(65535).u32(0).raw("x").bytes()).empty());
  Builder twice(0, 2);
  twice.key("same\n", 0).raw("1");
  const uint64_t second = twice.at() + 8;
  check_refused(twice.key("same\n", 0).raw("2"), second, {"key", "'same\\x0a' occurs twice"});
}

TEST_CASE("unknown value types and impossible booleans are refused") {
  Builder type(0, 1);
  type.string("k");
  const uint64_t at = type.at();
  check_refused(type.u32(13).u64(0), at, {"value type of 'k'", "from 0 to 12, found 13"});
  Builder element(0, 1);
  element.key("k", 9);
  const uint64_t element_at = element.at();
  check_refused(element.u32(99).u64(0), element_at, {"value of 'k'", "found 99"});
  Builder boolean(0, 1);
  boolean.key("k", 7);
  const uint64_t boolean_at = boolean.at();
  check_refused(boolean.raw("\x02"), boolean_at, {"value of 'k'", "expected a boolean, 0 or 1, found 2"});
  Builder booleans(0, 1);
  booleans.key("k", 9).u32(7).u64(3);
  const uint64_t booleans_at = booleans.at() + 2;
  check_refused(booleans.raw(std::string("\x00\x01\xff", 3)), booleans_at, {"value of 'k'", "found 255"});
}

TEST_CASE("arrays nest four deep and no deeper") {
  const auto nested = [](int depth) {
    Builder b(0, 1);
    b.key("k", 9);
    for (int i = 1; i < depth; ++i) b.u32(9).u64(1);
    return b.u32(0).u64(1).raw("x");
  };
  CHECK(refusal(nested(4).bytes()).empty());
  check_refused(nested(5), 24 + 8 + 1 + 4 + 4 * 12, {"value of 'k'[0]", "nest deeper than 4"});
  check_refused(nested(100000), 24 + 8 + 1 + 4 + 4 * 12, {"value of 'k'[0]", "nest deeper than 4"});
}

TEST_CASE("an alignment that is no power of two from 8 up is refused") {
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 0x80000001u}) {
    Builder b(0, 1);
    b.key("general.alignment", 4);
    const uint64_t at = b.at();
    check_refused(b.u32(alignment), at,
                  {"value of 'general.alignment'", "power of two", "found " + std::to_string(alignment)});
  }
  Builder negative(0, 1);
  negative.key("general.alignment", 5);
  const uint64_t at = negative.at();
  check_refused(negative.number(-32), at, {"value of 'general.alignment'", "found -32"});
  Builder text(0, 1);
  text.key("general.alignment", 8);
  const uint64_t text_at = text.at();
  check_refused(text.string("32"), text_at, {"value of 'general.alignment'", "expected an integer, found string"});
}

TEST_CASE("bad tensor names are refused") {
  const auto one = [](std::string_view name) { return Builder(1, 0).tensor(name, {1}, 0, 0).pad().data(4); };
  check_refused(one(""), 24, {"tensor name[0]", "is empty"});
  check_refused(one("\xc0\xaf"), 24, {"tensor name[0]", "'\\xc0\\xaf' is not UTF-8"});
  check_refused(one(std::string(65536, 'n')), 24, {"tensor name[0]", "expected at most 65535"});
  Builder twice(2, 0);
  twice.tensor("t", {1}, 0, 0);
  const uint64_t second = twice.at() + 8;
  check_refused(twice.tensor("t", {1}, 0, 32).pad().data(36), second, {"tensor name", "'t' occurs twice"});
}

TEST_CASE("shapes that overflow, are empty or split blocks are refused") {
  const auto one = [](const std::vector<uint64_t>& dims, uint32_t type) {
    return Builder(1, 0).tensor("t", dims, type, 0).pad().data(64);
  };
  constexpr uint64_t kDimCount = 24 + 8 + 1, kDims = kDimCount + 4;
  const std::string field = "dimensions of 't'";
  check_refused(one({1, 1, 1, 1, 1}, 0), kDimCount, {"dimension count of 't'", "expected at most 4, found 5"});
  check_refused(Builder(1, 0).string("t").u32(UINT32_MAX).data(64), kDimCount,
                {"dimension count of 't'", "4294967295"});
  check_refused(one({4, 0}, 0), kDims, {field, "dimension 1 is 0, expected 1 or more"});
  check_refused(one({uint64_t(-8)}, 0), kDims, {field, "dimension 0 is -8"});
  check_refused(one({uint64_t{1} << 32, uint64_t{1} << 31}, 0), kDims, {field, "exceeds 2^63 weights"});
  check_refused(one({uint64_t{1} << 33, uint64_t{1} << 33, uint64_t{1} << 33}, 0), kDims, {field, "2^63 weights"});
  check_refused(one({uint64_t{1} << 62}, 0), kDims, {field, "exceed 2^63 bytes"});
  check_refused(one({33}, 8), kDims,
                {field, "dimension 0 is 33, expected a multiple of the 32 weights of a Q8_0 block"});
  check_refused(one({}, 8), kDims, {field, "multiple of the 32"});
  CHECK(refusal(one({}, 0).bytes()).empty());
}

TEST_CASE("types that no file may hold are refused with what is known of them") {
  const auto one = [](uint32_t type) { return Builder(1, 0).tensor("w", {256}, type, 0).pad().data(4096); };
  constexpr uint64_t kType = 24 + 8 + 1 + 4 + 8;
  check_refused(one(1000), kType, {"type of 'w'", "unknown type 1000", "F32=0", "Q4_K=12", "I8=24"});
  for (const uint32_t removed : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u})
    check_refused(one(removed), kType, {"type of 'w'", std::to_string(removed) + " (", "removed from GGUF"});
  check_refused(one(9), kType, {"type of 'w'", "9 (Q8_1)", "in-memory"});
  check_refused(one(15), kType, {"type of 'w'", "15 (Q8_K)", "in-memory"});
}

TEST_CASE("tensor offsets that are unaligned, far away or within another tensor are refused") {
  constexpr uint64_t kOffset = 24 + 8 + 1 + 4 + 8 + 4;
  const std::string field = "tensor offset of 't'";
  const auto one = [](uint64_t offset) { return Builder(1, 0).tensor("t", {8}, 0, offset).pad().data(64); };
  check_refused(one(4), kOffset, {field, "multiple of the alignment 32, found 4"});
  check_refused(one(uint64_t{1} << 63), kOffset, {field, "far past the end"});
  check_refused(one(64), kOffset,
                {field, "its data ends at 160, but the file ends at 128: 32 bytes are missing", "download"});
  check_refused(one(uint64_t{1} << 61), kOffset, {field, "bytes are missing"});

  Builder overlap(2, 0);
  overlap.tensor("u", {9}, 0, 0).tensor("t", {8}, 0, 32);
  check_refused(overlap.pad().data(64), kOffset + 33, {field, "its data starts at 128, inside 'u', which ends at 132"});
}

TEST_CASE("of a truncated model the message counts the missing bytes of all tensors") {
  Builder b(2, 0);
  b.tensor("first", {1024}, 0, 0).tensor("last", {1024}, 0, 4096).pad();
  const uint64_t start = b.at();
  const std::string message = refusal(b.data(100).bytes());
  CHECK(message.find("'last'") != std::string::npos);
  CHECK(message.find("ends at " + std::to_string(start + 8192)) != std::string::npos);
  CHECK(message.find("8092 bytes are missing; the download is incomplete") != std::string::npos);
}
