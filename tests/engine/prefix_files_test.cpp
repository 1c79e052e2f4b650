// Several programs' files of prefixes in one folder, which holds less than they write.
#include "engine/prefixes/prefix_files.h"

#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace ridge;
using engine::PrefixBlock;
using engine::PrefixFiles;
using engine::PrefixPart;

namespace {

constexpr int64_t kPositions = 8, kBlockBytes = 64;

PrefixBlock make_block() {
  const auto bytes = std::make_shared<std::vector<std::byte>>(kBlockBytes);
  return {bytes, bytes->data()};
}

PrefixPart part_of(int32_t number) { // a prompt of its own
  PrefixPart part;
  part.tokens.assign(4 * kPositions, number);
  for (int i = 0; i < 4; ++i) {
    part.blocks.push_back(make_block());
    std::memset(part.blocks.back().get(), number + i, kBlockBytes);
  }
  return part;
}

} // namespace

TEST_CASE("prefix files: programs that share a folder forget the files that others removed") {
  const tests::TemporaryFolder folder;
  constexpr int64_t kBudget = 10'000;
  std::vector<std::string> lines;
  const auto open = [&](const std::string& path) {
    return PrefixFiles(path, kBudget, "a model", {kPositions, kBlockBytes, 0}, {256, 1000},
                       [&](const std::string& line) { lines.push_back(line); });
  };
  PrefixFiles first = open(folder.path()), second = open(folder.path() + "/");
  for (int32_t number = 0; number < 200; ++number) (number % 2 ? first : second).write(part_of(number));
  for (PrefixFiles* files : {&first, &second}) {
    CHECK(files->known() > 5);
    CHECK(files->known() <= static_cast<int64_t>(folder.file_count()));
  }
  CHECK(folder.file_count() < 30);
  const PrefixPart last = part_of(199);
  const PrefixPart read = first.read(last.tokens, 0, 0, make_block);
  CHECK(read.tokens == last.tokens);
  REQUIRE(read.blocks.size() == last.blocks.size());
  for (size_t i = 0; i < read.blocks.size(); ++i)
    CHECK(std::memcmp(read.blocks[i].get(), last.blocks[i].get(), kBlockBytes) == 0);
  CHECK(lines.empty());
}
