// What `ridge rm` takes away, where something is missing or is no link as ridge made it.
#include "hub/hub_cache.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

using namespace ridge;
using namespace ridge::hub;
using namespace ridge::tests;

TEST_CASE("a model pulled by address is removed also where parts are missing") {
  const TemporaryFolder folder;
  folder.write("Wide-00001-of-00003.gguf", "one");
  folder.write("Wide-00003-of-00003.gguf", "three");
  const Place place[] = {{Source::ridge, folder.path()}};
  CHECK(remove_model(local_models(place).at(0)) == 8);
  CHECK(folder.file_count() == 0);
}
