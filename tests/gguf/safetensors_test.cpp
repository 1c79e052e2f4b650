// safetensors: well-formed and hostile files.
#include "gguf/safetensors.h"

#include "core/error.h"
#include "support/numerics.h"
#include "support/safetensors_writer.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <random>

using namespace ridge;
using gguf::Safetensors;
using tests::SafeFile;

namespace {

std::span<const std::byte> view(const std::string& bytes) {
  return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

std::string problem_of(const std::string& bytes) {
  try {
    Safetensors::from_span(view(bytes), "x.safetensors");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string problem_of_header(const std::string& header, size_t data_bytes = 16) {
  return problem_of(SafeFile::with_header(header, std::string(data_bytes, 'x')));
}

std::string problem_of_folder(const std::string& folder) {
  try {
    Safetensors::open(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& message, std::string_view part) {
  CAPTURE(message);
  return message.find(part) != std::string::npos;
}

std::string one(const std::string& fields) { return "{\"a\":{" + fields + "}}"; }

} // namespace

TEST_CASE("safetensors: tensors are views with their type and shape, by name") {
  SafeFile file;
  file.add<float>("b", "F32", {2, 3}, {1, 2, 3, 4, 5, 6});
  file.add<uint8_t>("a", "U8", {}, {7});
  file.add<float>("none", "F32", {0, 5}, {});
  const std::string bytes = file.bytes();
  const Safetensors read = Safetensors::from_span(view(bytes), "x");
  REQUIRE(read.tensors().size() == 3);
  const gguf::SafeTensor* b = read.find("b");
  REQUIRE(b);
  CHECK(b->dtype == gguf::Dtype::F32);
  CHECK(b->shape == std::vector<int64_t>{2, 3});
  CHECK(b->elements() == 6);
  float last;
  std::memcpy(&last, b->data.data() + 20, 4);
  CHECK(last == 6);
  CHECK(read.find("a")->elements() == 1);
  CHECK(read.find("none")->data.empty());
  CHECK(read.find("c") == nullptr);
}

TEST_CASE("safetensors: what is wrong with a file is named") {
  CHECK(says(problem_of("abc"), "too few"));
  CHECK(says(problem_of(SafeFile::with_header("not json", "")), "does not begin with '{'"));
  CHECK(says(problem_of(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)), "expected at most 100000000"));
  CHECK(says(problem_of(std::string("\x00\x01\0\0\0\0\0\0{}", 10)), "incomplete"));
  CHECK(says(problem_of_header("{\"a\":"), "not valid JSON"));
  CHECK(says(problem_of_header("{\"a\":1}"), "'a': did not expect a number here"));
  CHECK(says(problem_of_header(one(R"("dtype":"F32","shape":[4])")), "missing"));
  CHECK(says(problem_of_header(one(R"("dtype":"F33","shape":[4],"data_offsets":[0,16])")), "unknown dtype 'F33'"));
  CHECK(says(problem_of_header(one(R"("dtype":"F32","shape":[4],"data_offsets":[0,15])")), "15 bytes"));
  CHECK(says(problem_of_header(one(R"("dtype":"F32","shape":[8],"data_offsets":[0,32])")), "16 bytes are missing"));
  CHECK(says(problem_of_header(one(R"("dtype":"F32","shape":[4],"data_offsets":[16,0])")), "expected [begin, end]"));
  CHECK(says(problem_of_header(one(R"("dtype":"F32","shape":[4],"data_offsets":[0,16,16])")), "expected [begin, end]"));
  CHECK(says(problem_of_header(one(R"("dtype":"F32","shape":[-4],"data_offsets":[0,16])")), "negative"));
  CHECK(says(problem_of_header(one(R"("dtype":"F32","shape":[4.5],"data_offsets":[0,16])")), "fraction"));
  CHECK(says(problem_of_header(one(R"("dtype":"F32","shape":[[4]],"data_offsets":[0,16])")), "an array"));
  CHECK(says(problem_of_header(one(R"("dtype":{"x":1})")), "an object"));
  CHECK(says(problem_of_header(one(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,16])")), "2^63"));
  CHECK(says(problem_of_header(one(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,16],"data_offsets":[0,16])")),
             "more than 8"));
  CHECK(says(problem_of_header(R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]},)"
                               R"("b":{"dtype":"U8","shape":[9],"data_offsets":[7,16]}})"),
             "overlap"));
  CHECK(says(problem_of_header(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                               R"("a":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})"),
             "twice"));
  CHECK(says(problem_of_header("{\"\":{}}"), "empty name"));
  CHECK(says(problem_of_header(R"({"__metadata__":{"a":{}}})"), "an object"));
  CHECK(says(problem_of_header("[]"), "'{'"));
}

TEST_CASE("safetensors: shards are found by the index, and every way to lie about them is refused") {
  const tests::TemporaryFolder folder;
  const auto index = [&](const std::string& map) {
    folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":8},"weight_map":)" + map + "}");
  };
  SafeFile first, second;
  first.add<float>("a", "F32", {1}, {1});
  second.add<float>("b", "F32", {1}, {2});
  folder.write("s1.safetensors", first.bytes());
  folder.write("s2.safetensors", second.bytes());
  CHECK(says(problem_of_folder(folder.path()), "index.json"));

  index(R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  const Safetensors read = Safetensors::open(folder.path());
  CHECK(read.tensors().size() == 2);
  CHECK(read.path_of(*read.find("b")).ends_with("s2.safetensors"));
  read.release(*read.find("b"));
  float b;
  std::memcpy(&b, read.find("b")->data.data(), 4);
  CHECK(b == 2);

  index(R"({"a":"s2.safetensors","b":"s2.safetensors"})");
  CHECK(says(problem_of_folder(folder.path()), "does not contain it"));
  index(R"({"a":"s1.safetensors","b":"s3.safetensors"})");
  CHECK(says(problem_of_folder(folder.path()), "s3.safetensors: missing"));
  for (const char* escape : {"../s1.safetensors", "/etc/passwd", "sub/s1.safetensors", ".safetensors", "s1.bin"}) {
    index(std::string(R"({"a":")") + escape + "\"}");
    CHECK(says(problem_of_folder(folder.path()), "in the same folder"));
  }
  index(R"({"a":["s1.safetensors"]})");
  CHECK(says(problem_of_folder(folder.path()), "an array"));
  index(R"({"a":"s1.safetensors","a":"s2.safetensors"})");
  CHECK(says(problem_of_folder(folder.path()), "twice"));
  index("{}");
  CHECK(says(problem_of_folder(folder.path()), "no weight_map"));
  folder.write("s2.safetensors", second.bytes().substr(0, second.bytes().size() - 1));
  index(R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  CHECK(says(problem_of_folder(folder.path()), "1 bytes are missing"));
  folder.write("s2.safetensors", first.bytes());
  index(R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  CHECK(says(problem_of_folder(folder.path()), "occurs twice"));
}

TEST_CASE("safetensors: a folder without them says what it has instead") {
  const tests::TemporaryFolder folder;
  CHECK(says(problem_of_folder(folder.path()), "contains no .safetensors file"));
  folder.write("pytorch_model.bin", "x");
  CHECK(says(problem_of_folder(folder.path()), "pickles"));
  CHECK(says(problem_of_folder(folder / "absent"), "cannot be read"));
}

TEST_CASE("safetensors: files with any byte changed are refused or read within bounds") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  SafeFile file;
  file.add<float>("first", "F32", {2, 3}, {1, 2, 3, 4, 5, 6});
  file.add<uint8_t>("second", "U8", {5}, {1, 2, 3, 4, 5});
  const std::string good = file.bytes();
  unsigned sum = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (uint64_t n = random() % 3 + 1; n > 0; --n) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const std::vector<char> exact(bytes.begin(), bytes.end()); // exact size, so that sanitizers see overruns
    try {
      const Safetensors read = Safetensors::from_span(std::as_bytes(std::span(exact)), "x");
      for (const auto& tensor : read.tensors())
        for (const std::byte b : tensor.data) sum += static_cast<unsigned>(b);
    } catch (const Error&) {
    }
  }
  CHECK(sum != 1);
}
