// `ridge rm` with missing or copied files.
#include "hub/hub_cache.h"
#include "hub/puller.h"
#include "support/http/fake_hub.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/file.h>

using namespace ridge;
using namespace ridge::hub;
using namespace ridge::tests;
namespace fs = std::filesystem;

TEST_CASE("files instead of links are removed where their hash says that ridge pulled them") {
  FakeHub hub;
  hub.files = {{"Tall-Q4_K_M-00001-of-00002.gguf", kSmall}, {"Tall-Q4_K_M-00002-of-00002.gguf", kBig}};
  Puller puller(hub.hub.address());
  const fs::path snapshot = fs::path(puller.pull("hf:acme/Tall-GGUF").path).parent_path();
  const fs::path second = snapshot / "Tall-Q4_K_M-00002-of-00002.gguf";
  const fs::path blobs = snapshot.parent_path().parent_path() / "blobs";
  fs::remove(second);
  fs::copy_file(blobs / sha256_of(kBig), second);
  const Place place[] = {{Source::hugging_face, puller.options.cache}};
  SUBCASE("with the blob") { CHECK(remove_model(local_models(place).at(0)) == 6'001'000); }
  SUBCASE("without blobs") {
    fs::remove(snapshot / "Tall-Q4_K_M-00001-of-00002.gguf");
    fs::copy_file(blobs / sha256_of(kSmall), snapshot / "Tall-Q4_K_M-00001-of-00002.gguf");
    fs::remove_all(blobs);
    CHECK(remove_model(local_models(place).at(0)) == 3'001'000);
  }
  SUBCASE("another file") {
    std::ofstream(second, std::ios::binary) << "mine";
    const std::vector<std::string> before = puller.files();
    CHECK_THROWS_WITH_AS(remove_model(local_models(place).at(0)), doctest::Contains("not downloaded by ridge"), Error);
    CHECK(puller.files() == before);
    fs::remove(second);
    CHECK(remove_model(local_models(place).at(0)) == 1000);
    CHECK(fs::exists(blobs / sha256_of(kBig)));
    return;
  }
  CHECK(puller.files().empty());
}

TEST_CASE("a model pulled by address is removed also where parts are missing or stopped half way") {
  const TemporaryFolder folder;
  folder.write("Wide-00001-of-00004.gguf", "one");
  folder.write("Wide-00003-of-00004.gguf", "three");
  folder.write("Wide-00002-of-00004.gguf.incomplete", std::string(10'000, 'x'));
  const std::string busy = folder.write("Wide-00004-of-00004.gguf.incomplete", "y"); // locked below
  folder.write("Other.gguf.incomplete", "z");
  const int file = ::open(busy.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(::flock(file, LOCK_EX | LOCK_NB) == 0);
  const Place place[] = {{Source::ridge, folder.path()}};
  CHECK(remove_model(local_models(place).at(0)) >= 10'008);
  ::close(file);
  CHECK(folder.file_count() == 2);
  CHECK(fs::exists(busy));
  CHECK(local_models(place).empty());
}
