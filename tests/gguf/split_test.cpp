// Models split into several files.
#include "gguf/builder.h"
#include "gguf/touch.h"
#include "support/temporary_folder.h"

using namespace ridge;
using tests::Builder;

namespace {

// One F32 tensor "tI" of I+1 weights; the first shard has the metadata.
std::string shard(int number, int count, int total, const std::string& tensor) {
  Builder b(1, number == 0 ? 4 : 3);
  b.key("split.no", 2).number(static_cast<uint16_t>(number));
  b.key("split.count", 2).number(static_cast<uint16_t>(count));
  b.key("split.tensors.count", 5).number(static_cast<int32_t>(total));
  if (number == 0) b.key("general.architecture", 8).string("llama");
  b.tensor(tensor, {static_cast<uint64_t>(number) + 1}, 0, 0).pad();
  return b.data(4 * (static_cast<size_t>(number) + 1), static_cast<char>('0' + number)).bytes();
}

std::string name_of_shard(int number, int count) { return fmt::format("m-{:05}-of-{:05}.gguf", number + 1, count); }

struct Model {
  tests::TemporaryFolder folder;
  Model() {
    for (int i = 0; i < 3; ++i) folder.write(name_of_shard(i, 3), shard(i, 3, 3, fmt::format("t{}", i)));
  }
  std::string path(int number) const { return folder / name_of_shard(number, 3); }
  std::string refusal(int named = 0) const {
    try {
      gguf::File::open(path(named));
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
};

void check_says(const std::string& message, const std::vector<std::string>& words) {
  CAPTURE(message);
  CHECK(tests::one_printable_line(message));
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(message.find(word) != std::string::npos);
  }
}

} // namespace

TEST_CASE("naming any shard opens the whole model") {
  const Model model;
  for (int named = 0; named < 3; ++named) {
    const gguf::File file = gguf::File::open(model.path(named));
    CHECK(file.path() == model.path(named));
    CHECK(file.shard_count() == 3);
    CHECK(file.get_string("general.architecture") == "llama");
    REQUIRE(file.tensors().size() == 3);
    uint64_t bytes = 0;
    for (int i = 0; i < 3; ++i) {
      CHECK(file.shard_path(i) == model.path(i));
      const gguf::Tensor* tensor = file.find_tensor(fmt::format("t{}", i));
      REQUIRE(tensor);
      CHECK(tensor->shard == i);
      CHECK(tensor->weights() == i + 1);
      CHECK(tensor->data[0] == static_cast<std::byte>('0' + i));
      bytes += std::filesystem::file_size(model.path(i));
    }
    CHECK(file.size_bytes() == bytes);
  }
}

TEST_CASE("a copy of a split model is one file without the split keys") {
  const Model model;
  const gguf::File split = gguf::File::open(model.path(1));
  const auto image = tests::copy_of(split);
  const gguf::File whole = gguf::File::from_span(image, "copy");
  CHECK(whole.shard_count() == 1);
  CHECK(whole.metadata().size() == 1);
  CHECK(whole.get_string("general.architecture") == "llama");
  REQUIRE(whole.tensors().size() == 3);
  CHECK(whole.find_tensor("t2")->data[11] == std::byte{'2'});
}

TEST_CASE("a missing shard is named") {
  const Model model;
  std::filesystem::remove(model.path(1));
  check_says(model.refusal(0), {model.path(1) + ": missing", "3 shards", "in the same folder"});
  check_says(model.refusal(2), {model.path(1) + ": missing"});
}

TEST_CASE("a damaged shard is named, not the one that was asked for") {
  const Model model;
  model.folder.write(name_of_shard(2, 3), shard(2, 3, 3, "t2").substr(0, 160));
  check_says(model.refusal(0), {model.path(2) + ": offset ", "download is incomplete"});
}

TEST_CASE("shards of different models or under wrong names are refused") {
  SUBCASE("wrong number") {
    const Model model;
    model.folder.write(name_of_shard(1, 3), shard(2, 3, 3, "t1"));
    check_says(model.refusal(), {model.path(1), "expected split.no 1 and split.count 3, found 2 and 3"});
  }
  SUBCASE("wrong count") {
    const Model model;
    model.folder.write(name_of_shard(1, 3), shard(1, 4, 3, "t1"));
    check_says(model.refusal(), {model.path(1), "found 1 and 4"});
  }
  SUBCASE("a whole model in a shard's place") {
    const Model model;
    model.folder.write(name_of_shard(1, 3), tests::small_file());
    check_says(model.refusal(), {model.path(1), "found -1 and 0"});
  }
  SUBCASE("different totals") {
    const Model model;
    model.folder.write(name_of_shard(2, 3), shard(2, 3, 5, "t2"));
    check_says(model.refusal(), {model.path(2), "expected split.tensors.count 3", "found 5"});
  }
  SUBCASE("a total that the shards do not make up") {
    const Model model;
    for (int i = 0; i < 3; ++i) model.folder.write(name_of_shard(i, 3), shard(i, 3, 4, fmt::format("t{}", i)));
    check_says(model.refusal(), {"split.tensors.count is 4, but the 3 shards contain 3 tensors"});
  }
  SUBCASE("one tensor in two shards") {
    const Model model;
    model.folder.write(name_of_shard(2, 3), shard(2, 3, 3, "t0"));
    check_says(model.refusal(), {model.path(2) + ": offset ", "tensor name: 't0' occurs twice in the model"});
  }
  SUBCASE("a shard that was renamed") {
    const Model model;
    std::filesystem::rename(model.path(0), model.folder / "model.gguf");
    CHECK_THROWS_WITH_AS(gguf::File::open(model.folder / "model.gguf"), doctest::Contains("-NNNNN-of-00003.gguf"),
                         Error);
  }
  SUBCASE("a count of another type") {
    tests::TemporaryFolder folder;
    Builder b(0, 1);
    b.key("split.count", 8).string("3");
    CHECK_THROWS_WITH_AS(gguf::File::open(folder.write("x-00001-of-00003.gguf", b.bytes())),
                         doctest::Contains("offset 47: key 'split.count': expected an integer, found string"), Error);
  }
}

TEST_CASE("a model of one piece may be named like a shard") {
  tests::TemporaryFolder folder;
  const gguf::File file = gguf::File::open(folder.write("m-00001-of-00003.gguf", tests::small_file()));
  CHECK(file.shard_count() == 1);
  CHECK(file.tensors().size() == 2);
}

TEST_CASE("a shard in memory is refused") {
  CHECK(tests::refusal(shard(0, 3, 3, "t")) == "test.gguf: is one of 3 shards, expected a model in a single file");
}
