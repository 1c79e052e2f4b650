// Written files read back, and appear whole or not at all.
#include "gguf/builder.h"
#include "gguf/touch.h"
#include "support/numerics.h"
#include "support/reference.h"
#include "support/temporary_folder.h"

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ridge;

namespace {

using Infos = std::vector<gguf::TensorInfo>;

std::vector<std::byte> bytes_of(size_t count, int fill) {
  return std::vector<std::byte>(count, static_cast<std::byte>(fill));
}

void write_model(const std::string& path, int64_t weights, bool half = false) {
  gguf::Metadata metadata;
  metadata.set("general.name", "new");
  gguf::Writer writer(path, metadata, {{"t", quant::Type::F32, {weights}}});
  writer.write(bytes_of(static_cast<size_t>(half ? 2 * weights : 4 * weights), 1));
  if (!half) writer.finish();
}

} // namespace

TEST_CASE("the writer makes the bytes that the format prescribes") {
  gguf::Metadata metadata;
  metadata.set("general.architecture", "llama");
  metadata.set("llama.block_count", uint32_t{5});
  metadata.set("flag", true);
  metadata.set("tokens", std::vector<std::string>{"<s>", "", "▁the"});
  metadata.set("scores", std::vector<float>{0.5f, -1.0f});
  metadata.set("nested",
               gguf::OwnedValue::array(gguf::ValueType::array, {std::vector<int32_t>{-1, 7}, std::vector<bool>{true}}));
  std::vector<std::byte> image;
  gguf::Writer writer(image, metadata, {{"a.weight", quant::Type::Q8_0, {32, 2}}, {"b.weight", quant::Type::F32, {3}}});
  writer.write(bytes_of(68, 'a'));
  writer.write(bytes_of(12, 'b'));
  writer.finish();
  const std::string expected = tests::small_file() + std::string(20, '\0');
  REQUIRE(image.size() == expected.size());
  CHECK(std::memcmp(image.data(), expected.data(), image.size()) == 0);
}

TEST_CASE("values of every C++ type are stored as the type of the same width and read back") {
  gguf::Metadata metadata;
  metadata.set("u8", uint8_t{255});
  metadata.set("i8", int8_t{-128});
  metadata.set("u16", uint16_t{65535});
  metadata.set("i16", int16_t{-32768});
  metadata.set("u32", UINT32_MAX);
  metadata.set("i32", INT32_MIN);
  metadata.set("f32", 0.1f);
  metadata.set("bool", false);
  metadata.set("string", std::string_view("s"));
  metadata.set("array", std::vector<std::string_view>{"x", "y"});
  metadata.set("u64", UINT64_MAX);
  metadata.set("i64", INT64_MIN);
  metadata.set("f64", 0.1);
  std::vector<std::byte> image;
  gguf::Writer(image, metadata, {}).finish();
  const gguf::File file = gguf::File::from_span(image, "memory");
  for (const gguf::KeyValue& entry : file.metadata()) CHECK(gguf::name_of(entry.value.type()) == entry.key);
  CHECK(file.get_int("u8") == 255);
  CHECK(file.get_int("i8") == -128);
  CHECK(file.get_int("i32") == INT32_MIN);
  CHECK(file.get_int("i64") == INT64_MIN);
  CHECK(file.get_float("f32") == 0.1f);
  CHECK(file.get_float("f64") == 0.1);
  CHECK_FALSE(file.get_bool("bool", true));
  CHECK(file.get_string("string") == "s");
  CHECK(file.find("array")->as_strings() == std::vector<std::string_view>{"x", "y"});
}

TEST_CASE("a key set twice keeps its place and has the second value, and an erased one is gone") {
  gguf::Metadata metadata;
  metadata.set("a", 1);
  metadata.set("b", 2);
  metadata.set("a", "text");
  REQUIRE(metadata.entries().size() == 2);
  CHECK(metadata.entries()[0].key == "a");
  CHECK(metadata.find("a")->view().as_string() == "text");
  CHECK(metadata.erase("a"));
  CHECK_FALSE(metadata.erase("a"));
  CHECK(metadata.find("a") == nullptr);
}

TEST_CASE("values pass through from file to file, nested arrays and all") {
  const gguf::File file = tests::open_bytes(tests::small_file());
  gguf::Metadata metadata = gguf::Metadata::of(file);
  metadata.set("again", *file.find("nested"));
  std::vector<std::byte> image;
  gguf::Writer(image, metadata, {}).finish();
  const gguf::File copy = gguf::File::from_span(image, "copy");
  const gguf::Value &a = *copy.find("nested"), &b = *copy.find("again");
  CHECK(a.elements()[0].as_ints() == std::vector<int64_t>{-1, 7});
  CHECK(std::equal(a.payload().begin(), a.payload().end(), b.payload().begin(), b.payload().end()));
}

TEST_CASE("random models read back as they were written, in chunks of any size") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  const gguf::TensorType kTypes[] = {quant::Type::F32,  quant::Type::F16,    quant::Type::Q8_0,
                                     quant::Type::Q4_K, gguf::PlainType::I8, gguf::PlainType::I64};
  for (int round = 0; round < 100; ++round) {
    gguf::Metadata metadata;
    const uint32_t alignment = uint32_t{8} << below(6);
    metadata.set("general.alignment", alignment);
    Infos infos;
    for (uint64_t i = below(6); i > 0; --i) {
      const gguf::TensorType type = kTypes[below(std::size(kTypes))];
      std::vector<int64_t> dims = {type.block_weights() * static_cast<int64_t>(1 + below(5))};
      while (dims.size() < 1 + below(4)) dims.push_back(static_cast<int64_t>(1 + below(3)));
      infos.push_back({fmt::format("t{}", i), type, dims});
    }
    std::vector<std::byte> image;
    gguf::Writer writer(image, metadata, infos);
    std::vector<std::vector<std::byte>> data;
    for (const gguf::TensorInfo& info : infos) {
      data.emplace_back(info.bytes());
      for (std::byte& b : data.back()) b = static_cast<std::byte>(random());
      for (std::span<const std::byte> left = data.back(); !left.empty();) {
        const size_t count = std::min<size_t>(left.size(), 1 + below(200));
        writer.write(left.first(count));
        left = left.subspan(count);
      }
    }
    writer.finish();
    const gguf::File file = gguf::File::from_span(image, "memory");
    CHECK(file.alignment() == alignment);
    REQUIRE(file.tensors().size() == infos.size());
    for (size_t i = 0; i < infos.size(); ++i) {
      const gguf::Tensor& tensor = file.tensors()[i];
      CHECK(tensor.name == infos[i].name);
      CHECK(tensor.type == infos[i].type);
      CHECK(std::equal(tensor.data.begin(), tensor.data.end(), data[i].begin(), data[i].end()));
      CHECK((tensor.data.data() - image.data()) % alignment == 0);
    }
  }
}

TEST_CASE("what could not be read back is refused before anything is written") {
  const tests::TemporaryFolder folder;
  const auto refusal = [&](const std::string& key, gguf::OwnedValue value, const Infos& infos) -> std::string {
    gguf::Metadata metadata;
    metadata.set(key, std::move(value));
    try {
      gguf::Writer writer(folder / "out.gguf", metadata, infos);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  const auto says = [&](const std::string& message, const char* words) {
    CAPTURE(message);
    CHECK(message.starts_with((folder / "out.gguf") + ": "));
    CHECK(message.find(words) != std::string::npos);
  };
  says(refusal("", 1, {}), "key is empty");
  says(refusal("\xff", 1, {}), "key '\\xff' is not UTF-8");
  says(refusal("general.alignment", 12, {}), "general.alignment: expected a power of two");
  says(refusal("k", 1, {{"", quant::Type::F32, {1}}}), "tensor name is empty");
  says(refusal("k", 1, {{"t", quant::Type::F32, {0}}}), "tensor 't': dimension 0 is 0");
  says(refusal("k", 1, {{"t", quant::Type::Q8_0, {33}}}),
       "tensor 't': dimension 0 is 33, expected a multiple of the 32");
  says(refusal("k", 1, {{"t", quant::Type::F32, {1, 1, 1, 1, 1}}}), "tensor 't': found 5 dimensions");
  says(refusal("k", 1, {{"t", quant::Type::F32, {1}}, {"t", quant::Type::F32, {1}}}), "tensor name 't' occurs twice");
  says(refusal("k", 1, {{"t", quant::Type::F32, {int64_t{1} << 60}}}), "2^62 bytes");
  says(refusal("k", 1, {{"t", gguf::PlainType::I8, {int64_t{1} << 61}}}), "GB free");
  CHECK(folder.file_count() == 0);
}

TEST_CASE("misuse of the writer is a logic_error") {
  std::vector<std::byte> image;
  gguf::Writer writer(image, {}, {{"t", quant::Type::F32, {2}}});
  CHECK_THROWS_AS(writer.write(bytes_of(9, 0)), std::logic_error);
  CHECK_THROWS_AS(writer.finish(), std::logic_error);
  writer.write(bytes_of(8, 0));
  CHECK_THROWS_AS(writer.write(bytes_of(1, 0)), std::logic_error);
  writer.finish();
  CHECK_THROWS_AS(writer.finish(), std::logic_error);
  using gguf::OwnedValue;
  CHECK_THROWS_AS(OwnedValue::array(gguf::ValueType::i32, {1, "text"}), std::logic_error);
  OwnedValue nested = std::vector<int32_t>{1};
  for (int depth = 2; depth <= gguf::kMaxArrayDepth; ++depth)
    nested = OwnedValue::array(gguf::ValueType::array, {nested});
  CHECK_THROWS_AS(OwnedValue::array(gguf::ValueType::array, {nested}), std::logic_error);
}

TEST_CASE("a file appears on finish, and only then replaces what was there") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", "old");
  {
    gguf::Writer writer(path, {}, {{"t", quant::Type::F32, {1}}});
    writer.write(bytes_of(4, 1));
    CHECK(tests::read_file(path) == "old");
    writer.finish();
    CHECK(gguf::File::open(path).tensors().size() == 1);
  }
  CHECK(gguf::File::open(path).tensors().size() == 1);
  CHECK(folder.file_count() == 1);
}

TEST_CASE("a writer that is dropped leaves nothing behind and the old file as it was") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", "old");
  write_model(path, 1000, true);
  CHECK(tests::read_file(path) == "old");
  CHECK(folder.file_count() == 1);
}

TEST_CASE("a model can be rewritten over itself while it is mapped") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", tests::small_file());
  const gguf::File in = gguf::File::open(path);
  gguf::Metadata metadata = gguf::Metadata::of(in);
  metadata.set("general.name", std::string(10000, 'n'));
  gguf::Writer writer(path, metadata, gguf::tensor_infos(in));
  for (const gguf::Tensor& tensor : in.tensors()) writer.write(tensor.data);
  writer.finish();
  CHECK(in.tensors()[1].data[0] == std::byte{'b'});
  const gguf::File out = gguf::File::open(path);
  CHECK(out.get_string("general.name").size() == 10000);
  CHECK(out.find_tensor("b.weight")->data[11] == std::byte{'b'});
}

TEST_CASE("when the disk takes no more, the old file stays and the Error gives the reason") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", "old");
  // A file size limit simulates a full disk: write() comes back short, then fails.
  rlimit before;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {100000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string message;
  try {
    write_model(path, 100000);
  } catch (const Error& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(message == path + ": cannot write: File too large");
  CHECK(tests::read_file(path) == "old");
  CHECK(folder.file_count() == 1);
}

TEST_CASE("a writer that is killed leaves the old file as it was, and what else it left is gone after the next one") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", "old");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    gguf::Writer writer(path, {}, {{"t", quant::Type::F32, {1000}}});
    writer.write(bytes_of(2000, 1));
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(tests::read_file(path) == "old");
  // Leftovers on file systems without O_TMPFILE.
  folder.write("m.gguf.partial-1", "half");
  folder.write("m.gguf.partial-" + std::to_string(::getpid()), "half");
  write_model(path, 10);
  CHECK(gguf::File::open(path).get_string("general.name") == "new");
  CHECK(folder.file_count() == 1);
}

TEST_CASE("a symbolic link is replaced, and what it points to stays") {
  const tests::TemporaryFolder folder;
  const std::string blob = folder.write("blob", "old"), link = folder / "m.gguf";
  std::filesystem::create_symlink(blob, link);
  write_model(link, 10);
  CHECK(tests::read_file(blob) == "old");
  CHECK(gguf::File::open(link).get_string("general.name") == "new");
}

TEST_CASE("targets that cannot be replaced are refused at once, with the reason") {
  const tests::TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(write_model("/dev/full", 10), "/dev/full: cannot be overwritten: is not a regular file", Error);
  CHECK_THROWS_WITH_AS(write_model(folder / ".", 10), doctest::Contains("is a directory"), Error);
  CHECK_THROWS_WITH_AS(write_model(folder / "no/such/m.gguf", 10),
                       doctest::Contains("m.gguf: cannot create: No such file or directory"), Error);
  CHECK(folder.file_count() == 0);
}
