// URLs of files.
#include "core/strings/file_url.h"

#include <doctest/doctest.h>

#include <string>

#include <unistd.h>

using ridge::core::path_of_file_url;

TEST_CASE("URLs of this machine's files have a path, and others have none") {
  char name[256] = "";
  REQUIRE(gethostname(name, sizeof name - 1) == 0);
  CHECK(path_of_file_url("file:///a%20b%C3%A9") == "/a bé");
  CHECK(path_of_file_url("file:/a") == "/a");
  CHECK(path_of_file_url("file://localhost/a") == "/a");
  CHECK(path_of_file_url("file://" + std::string(name) + "/a") == "/a");
  for (const char* url : {"file://elsewhere.example/a", "file:///a%2", "file:///a%zz", "file:///a%00b", "file:a",
                          "file://", "file:", "http:///a", "/a", ""}) {
    CAPTURE(url);
    CHECK(path_of_file_url(url).empty());
  }
}
