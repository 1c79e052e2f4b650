// Well-formed files.
#include "gguf/builder.h"

#include "support/temporary_folder.h"

#include <limits>
#include <sys/stat.h>

using namespace ridge;
using tests::Builder;
using tests::open_bytes;

TEST_CASE("every scalar type is read, and integers of every width convert") {
  Builder b(0, 13);
  b.key("u8", 0).number(uint8_t{200});
  b.key("i8", 1).number(int8_t{-100});
  b.key("u16", 2).number(uint16_t{60000});
  b.key("i16", 3).number(int16_t{-30000});
  b.key("u32", 4).number(uint32_t{4000000000});
  b.key("i32", 5).number(int32_t{-2000000000});
  b.key("f32", 6).number(1.5f);
  b.key("bool", 7).raw("\x01");
  b.key("string", 8).string("text");
  b.key("array", 9).u32(0).u64(0);
  b.key("u64", 10).number(uint64_t{1} << 62);
  b.key("i64", 11).number(int64_t{-1} << 62);
  b.key("f64", 12).number(2.25);
  const gguf::File file = open_bytes(b.bytes());
  REQUIRE(file.metadata().size() == 13);
  for (const gguf::KeyValue& entry : file.metadata()) CHECK(gguf::name_of(entry.value.type()) == entry.key);
  CHECK(file.get_int("u8") == 200);
  CHECK(file.get_int("i8") == -100);
  CHECK(file.get_int("u16") == 60000);
  CHECK(file.get_int("i16") == -30000);
  CHECK(file.get_int("u32") == 4000000000);
  CHECK(file.get_int("i32") == -2000000000);
  CHECK(file.get_int("u64") == int64_t{1} << 62);
  CHECK(file.get_int("i64") == int64_t{-1} << 62);
  CHECK(file.get_int("bool") == 1);
  CHECK(file.get_float("f32") == 1.5);
  CHECK(file.get_float("f64") == 2.25);
  CHECK(file.get_float("i8") == -100);
  CHECK(file.get_bool("bool", false));
  CHECK(file.get_string("string") == "text");
}

TEST_CASE("values convert only where nothing is lost or guessed") {
  Builder b(0, 4);
  b.key("huge", 10).number(std::numeric_limits<uint64_t>::max());
  b.key("float", 6).number(1.0f);
  b.key("number", 4).u32(1);
  b.key("text", 8).string("1");
  const gguf::File file = open_bytes(b.bytes());
  CHECK_FALSE(file.find("huge")->as_int());
  CHECK(file.find("huge")->as_float() == doctest::Approx(1.8446744e19));
  CHECK_FALSE(file.find("float")->as_int());
  CHECK_FALSE(file.find("number")->as_bool());
  CHECK_FALSE(file.find("text")->as_int());
  CHECK_FALSE(file.find("text")->as_float());
  CHECK_FALSE(file.find("number")->as_string());
}

TEST_CASE("arrays are read by element type, nested ones element by element") {
  Builder b(0, 4);
  b.key("ints", 9).u32(3).u64(2).number(int16_t{-3}).number(int16_t{4});
  b.key("floats", 9).u32(12).u64(2).number(0.5).number(-0.25);
  b.key("strings", 9).u32(8).u64(2).string("").string("b");
  b.key("nested", 9).u32(9).u64(2).u32(8).u64(1).string("x").u32(7).u64(2).raw(std::string("\x00\x01", 2));
  const gguf::File file = open_bytes(b.bytes());
  CHECK(file.find("ints")->as_ints() == std::vector<int64_t>{-3, 4});
  CHECK(file.find("ints")->as_floats() == std::vector<float>{-3, 4});
  CHECK(file.find("floats")->as_floats() == std::vector<float>{0.5f, -0.25f});
  CHECK_FALSE(file.find("floats")->as_ints());
  CHECK_FALSE(file.find("ints")->as_strings());
  CHECK(file.find("strings")->as_strings() == std::vector<std::string_view>{"", "b"});
  CHECK_FALSE(file.find("strings")->as_ints());
  const auto nested = file.find("nested")->elements();
  REQUIRE(nested.size() == 2);
  CHECK(nested[0].as_strings() == std::vector<std::string_view>{"x"});
  CHECK(nested[1].as_ints() == std::vector<int64_t>{0, 1});
  CHECK_FALSE(file.find("nested")->as_ints());
  CHECK_THROWS_AS(nested[1].elements()[0].size(), std::logic_error);
}

TEST_CASE("versions 2 and 3 are read alike") {
  for (const uint32_t version : {2u, 3u}) {
    std::string bytes = tests::small_file();
    bytes[4] = static_cast<char>(version);
    const gguf::File file = open_bytes(bytes);
    CHECK(file.version() == version);
    CHECK(file.get_int("llama.block_count") == 5);
    REQUIRE(file.tensors().size() == 2);
    const gguf::Tensor* a = file.find_tensor("a.weight");
    REQUIRE(a);
    CHECK(a->type == quant::Type::Q8_0);
    CHECK(a->n_dims == 2);
    CHECK(a->weights() == 64);
    CHECK(a->data.size() == 68);
    CHECK(a->data[0] == std::byte{'a'});
    CHECK(a->shard == 0);
    const gguf::Tensor* b = file.find_tensor("b.weight");
    REQUIRE(b);
    CHECK(b->data.size() == 12);
    CHECK(b->data[11] == std::byte{'b'});
    CHECK(b->file_offset == a->file_offset + 96);
    CHECK(bytes[b->file_offset] == 'b');
  }
}

TEST_CASE("tensor data begins at the next multiple of general.alignment") {
  for (const uint32_t alignment : {8u, 16u, 64u, 4096u}) {
    Builder b(1, 1);
    b.key("general.alignment", 4).u32(alignment).tensor("t", {1}, 0, 0).pad(alignment);
    const uint64_t start = b.at();
    b.data(4);
    const gguf::File file = open_bytes(b.bytes());
    CHECK(file.alignment() == alignment);
    CHECK(file.tensors()[0].file_offset == start);
  }
}

TEST_CASE("tensors of plain numbers open beside weights") {
  const std::tuple<uint32_t, const char*, uint64_t> kPlain[] = {
      {24, "I8", 1}, {25, "I16", 2}, {26, "I32", 4}, {27, "I64", 8}, {28, "F64", 8}};
  for (const auto& [id, name, bytes] : kPlain) {
    CAPTURE(name);
    const gguf::File file = open_bytes(Builder(1, 0).tensor("codes", {3, 5}, id, 0).pad().data(15 * bytes).bytes());
    const gguf::TensorType type = file.tensors()[0].type;
    CHECK(type.id() == id);
    CHECK(type.name() == name);
    CHECK(type.format() == nullptr);
    CHECK(file.tensors()[0].data.size() == 15 * bytes);
  }
  CHECK(gguf::TensorType(gguf::PlainType::I32).row_bytes(6) == 24);
  CHECK(gguf::TensorType(quant::Type::Q8_0).format() == &quant::format(quant::Type::Q8_0));
}

TEST_CASE("tensors may lie in any order and with gaps") {
  Builder b(2, 0);
  b.tensor("late", {2}, 0, 128).tensor("early", {2}, 0, 32).pad().data(128 + 8);
  const gguf::File file = open_bytes(b.bytes());
  CHECK(file.tensors()[0].name == "late");
  CHECK(file.find_tensor("late")->file_offset == file.find_tensor("early")->file_offset + 96);
}

TEST_CASE("a model with other forms of some tensors is the same in all else, and outlives the first") {
  Builder b(2, 0);
  b.tensor("a", {4}, 0, 0).tensor("b", {4}, 0, 32).pad().data(64);
  const std::vector<uint16_t> halves(4, 0x3c00);
  const std::vector<gguf::File::OtherForm> forms = {{"b", quant::Type::F16, std::as_bytes(std::span(halves))}};
  std::optional<gguf::File> first = open_bytes(b.bytes());
  const std::byte* data = first->find_tensor("a")->data.data();
  const gguf::File file = first->with(forms);
  CHECK(first->find_tensor("b")->type == quant::Type::F32);
  first.reset();
  CHECK(file.find_tensor("a")->data.data() == data);
  CHECK(file.find_tensor("b")->type == quant::Type::F16);
  CHECK(file.find_tensor("b")->data.data() == forms[0].data.data());
  CHECK(file.tensors().size() == 2);
  const gguf::File::OtherForm unknown = {"c", quant::Type::F16, forms[0].data},
                              short_one = {"a", quant::Type::F32, forms[0].data};
  CHECK_THROWS_AS(file.with({&unknown, 1}), std::logic_error);
  CHECK_THROWS_AS(file.with({&short_one, 1}), std::logic_error);
}

TEST_CASE("a missing or mistyped key is an Error that names it, and an optional one has its default") {
  const gguf::File file = open_bytes(tests::small_file(), "some/model.gguf");
  CHECK(file.get_int("absent", 7) == 7);
  CHECK(file.get_float("absent", 0.5) == 0.5);
  CHECK(file.get_bool("absent", true));
  CHECK(file.get_string("absent", "none") == "none");
  CHECK(file.find("absent") == nullptr);
  CHECK(file.find_tensor("absent") == nullptr);
  CHECK_THROWS_WITH_AS(file.get_int("absent"), "some/model.gguf: key 'absent' is missing, expected an integer", Error);
  // 24 bytes of header, key (8 + 20), type (4), value.
  CHECK_THROWS_WITH_AS(file.get_int("general.architecture"),
                       "some/model.gguf: offset 56: key 'general.architecture': expected an integer, found string",
                       Error);
  CHECK_THROWS_AS(file.get_int("general.architecture", 1), Error);
  CHECK_THROWS_AS(file.get_string("llama.block_count", ""), Error);
  CHECK_THROWS_AS(file.get_bool("llama.block_count", false), Error);
  CHECK_THROWS_AS(file.get_float("tokens"), Error);
}

TEST_CASE("a path that is no readable file is named with the reason") {
  CHECK_THROWS_WITH_AS(gguf::File::open("/nonexistent/x.gguf"), doctest::Contains("/nonexistent/x.gguf: cannot open"),
                       Error);
  CHECK_THROWS_WITH_AS(gguf::File::open("/"), doctest::Contains("is a directory"), Error);
  CHECK_THROWS_WITH_AS(gguf::File::open("/dev/null"), doctest::Contains("not a regular file"), Error);
  const tests::TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0); // without a writer; open() must not block
  CHECK_THROWS_WITH_AS(gguf::File::open(folder / "pipe"), doctest::Contains("not a regular file"), Error);
  CHECK_THROWS_WITH_AS(gguf::File::open(folder.write("empty.gguf", "")), doctest::Contains("is empty"), Error);
}
