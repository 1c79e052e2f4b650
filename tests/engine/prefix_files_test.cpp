// Several programs' prefix files in a small folder.
#include "engine/prefixes/prefix_files.h"

#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <mutex>

using namespace ridge;
using engine::PrefixBlock;
using engine::PrefixFiles;
using engine::PrefixPart;

namespace {

constexpr int64_t kFilePositions = 8, kBlockBytes = 64;

PrefixBlock make_file_block() {
  const auto bytes = std::make_shared<std::vector<std::byte>>(kBlockBytes);
  return {bytes, bytes->data()};
}

PrefixPart part_of(int32_t number) {
  PrefixPart part;
  part.tokens.assign(4 * kFilePositions, number);
  for (int i = 0; i < 4; ++i) {
    part.blocks.push_back(make_file_block());
    std::memset(part.blocks.back().get(), number + i, kBlockBytes);
  }
  return part;
}

bool same_rows(const PrefixPart& a, const PrefixPart& b) {
  return std::ranges::equal(a.blocks, b.blocks, [](const PrefixBlock& one, const PrefixBlock& other) {
    return std::memcmp(one.get(), other.get(), kBlockBytes) == 0;
  });
}

} // namespace

TEST_CASE("prefix files: programs that share a folder forget the files that others removed") {
  const tests::TemporaryFolder folder;
  constexpr int64_t kBudget = 10'000;
  std::mutex mutex;
  std::vector<std::string> lines;
  const auto open = [&](const std::string& path) {
    return PrefixFiles(path, kBudget, "a model", {kFilePositions, kBlockBytes, 0}, {256, 1000},
                       [&](const std::string& line) {
                         const std::scoped_lock lock(mutex);
                         lines.push_back(line);
                       });
  };
  PrefixFiles first = open(folder.path()), second = open(folder.path() + "/");
  for (int32_t number = 0; number < 200; ++number) {
    PrefixFiles& files = number % 2 ? first : second;
    files.write(part_of(number));
    if (number % 7 == 0) files.flush();
  }
  for (PrefixFiles* files : {&first, &second}) files->flush();
  for (PrefixFiles* files : {&first, &second}) {
    CHECK(files->known() > 5);
    CHECK(files->known() <= static_cast<int64_t>(folder.file_count()));
  }
  CHECK(folder.file_count() < 30);
  const PrefixPart last = part_of(199);
  const PrefixPart read = first.read(last.tokens, 0, 0, make_file_block);
  CHECK(read.tokens == last.tokens);
  CHECK(same_rows(read, last));
  CHECK(lines.empty());
}

TEST_CASE("prefix files: what waits to be written is there to be read, and its blocks come back when it is written") {
  const tests::TemporaryFolder folder;
  std::vector<std::string> lines;
  const auto open = [&] {
    return PrefixFiles(folder.path(), 1 << 24, "a model", {kFilePositions, kBlockBytes, 0}, {256, 1000},
                       [&](const std::string& line) { lines.push_back(line); });
  };
  constexpr int32_t kParts = 300;
  {
    PrefixFiles files = open();
    for (int32_t number = 0; number < kParts; ++number) {
      files.write(part_of(number));
      if (number % 3 == 0) files.write(part_of(number));
      const PrefixPart part = part_of(number / 2);
      CHECK(same_rows(files.read(part.tokens, 0, 0, make_file_block), part));
    }
    CHECK(files.known() == kParts);
    files.flush();
    CHECK(folder.file_count() == kParts);
    CHECK(files.written().size() >= 4 * kParts);
    CHECK(files.written().empty());
  }
  PrefixFiles files = open();
  CHECK(files.known() == kParts);
  for (int32_t number = 0; number < kParts; ++number) {
    const PrefixPart part = part_of(number);
    CHECK(same_rows(files.read(part.tokens, 0, 0, make_file_block), part));
  }
  CHECK(lines.empty());
}
