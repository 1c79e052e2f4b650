// Mappings of files that are damaged while mapped.
#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/mapped_file.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

using namespace ridge;
using core::MappedFile;

namespace {

constexpr size_t kBytes = 1 << 20;

std::string filled(const tests::TemporaryFolder& folder, const char* name = "data", size_t bytes = kBytes) {
  return folder.write(name, std::string(bytes, 'x'));
}

int64_t count(std::span<const std::byte> bytes, char wanted) {
  return std::ranges::count(bytes, static_cast<std::byte>(wanted));
}

} // namespace

TEST_CASE("a file that is shortened while mapped reads as zeros behind its end, and says so when asked") {
  const tests::TemporaryFolder folder;
  const std::string path = filled(folder), other_path = filled(folder, "other");
  const MappedFile file(path), other(other_path);
  CHECK_NOTHROW(file.check());
  std::filesystem::resize_file(path, kBytes / 4);
  CHECK(count(file.bytes(), 'x') == kBytes / 4);
  CHECK(count(file.bytes(), '\0') == 3 * kBytes / 4);
  CHECK_THROWS_WITH_AS(file.check(), doctest::Contains("truncated it from 1048576 to 262144 bytes"), Error);
  CHECK_NOTHROW(other.check());
  CHECK(count(other.bytes(), 'x') == kBytes);
}

TEST_CASE("pages that were missing for a while are not forgotten") {
  const tests::TemporaryFolder folder;
  const std::string path = filled(folder);
  const MappedFile file(path);
  std::filesystem::resize_file(path, 0);
  CHECK(count(file.bytes().last(1), 'x') == 0);
  std::filesystem::resize_file(path, kBytes);
  CHECK_THROWS_WITH_AS(file.check(), doctest::Contains("could not be read"), Error);
}

TEST_CASE("what was not checked is found in the end") {
  CHECK_NOTHROW(core::check_mappings());
  const tests::TemporaryFolder folder;
  const std::string path = filled(folder);
  {
    const MappedFile file(path);
    std::filesystem::resize_file(path, 0);
    CHECK(count(file.bytes().first(1), 'x') == 0);
    CHECK_THROWS_AS(core::check_mappings(), Error);
    CHECK_THROWS_AS(file.check(), Error);
  }
  CHECK_NOTHROW(core::check_mappings());
}

TEST_CASE("many threads may meet the missing pages at once") {
  const tests::TemporaryFolder folder;
  const std::string path = filled(folder);
  const MappedFile file(path);
  std::filesystem::resize_file(path, 0);
  std::vector<int64_t> zeros(8);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < zeros.size(); ++i)
      threads.emplace_back([&, i] { zeros[i] = count(file.bytes().subspan(i % 4 * 4096), '\0'); });
  }
  for (size_t i = 0; i < zeros.size(); ++i) CHECK(zeros[i] == static_cast<int64_t>(kBytes - i % 4 * 4096));
  CHECK_THROWS_AS(file.check(), Error);
}

TEST_CASE("a mapping that follows a broken one is whole") {
  const tests::TemporaryFolder folder;
  const std::string path = filled(folder);
  {
    const MappedFile file(path);
    std::filesystem::resize_file(path, 0);
    CHECK(count(file.bytes().first(1), 'x') == 0);
    CHECK_THROWS_AS(file.check(), Error);
  }
  const MappedFile next(filled(folder, "next"));
  CHECK_NOTHROW(next.check());
  CHECK(count(next.bytes(), 'x') == kBytes);
}

TEST_CASE("missing pages can be written elsewhere, as the zeros they read as") {
  const tests::TemporaryFolder folder;
  const std::string path = filled(folder);
  const MappedFile file(path);
  std::filesystem::resize_file(path, 0);
  core::AtomicFile copy(folder / "copy", kBytes);
  CHECK_NOTHROW(copy.write(file.bytes()));
  CHECK_THROWS_AS(file.check(), Error);
}

TEST_CASE("a deleted file stays readable, and is known to be deleted") {
  const tests::TemporaryFolder folder;
  const std::string path = filled(folder);
  const MappedFile file(path);
  CHECK_FALSE(file.deleted());
  std::filesystem::remove(path);
  CHECK(file.deleted());
  CHECK_NOTHROW(file.check());
  CHECK(count(file.bytes(), 'x') == kBytes);
}
