// Folders for their owner only.
#include "core/files/private_folder.h"

#include "core/files/atomic_file.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <sys/stat.h>

using namespace ridge;
namespace fs = std::filesystem;

TEST_CASE("private folders and files are for their owner alone, whatever the umask") {
  const tests::TemporaryFolder folder;
  const mode_t before = ::umask(0);
  std::error_code problem;
  fs::create_directory(folder / "shared");
  core::create_private_folders(folder / "shared/a/b", problem);
  core::AtomicFile file(folder / "shared/a/b/c", 1, core::kPrivateFile);
  file.commit();
  ::umask(before);
  CHECK(!problem);
  const auto mode = [&](const char* name) { return static_cast<unsigned>(fs::status(folder / name).permissions()); };
  CHECK(mode("shared") == 0777);
  CHECK(mode("shared/a") == 0700);
  CHECK(mode("shared/a/b") == 0700);
  CHECK(mode("shared/a/b/c") == 0600);
  core::create_private_folders(folder / "shared/a/b/c/d", problem);
  CHECK(problem);
  core::create_private_folders(folder / "shared", problem);
  CHECK(!problem);
}
