// Hub searches.
#include "hub/search.h"

#include "core/error.h"
#include "support/http/fake_hub.h"

#include <doctest/doctest.h>

#include <string>

using namespace ridge;
using namespace ridge::hub;
using namespace ridge::tests;

TEST_CASE("an answer to a search is read entry by entry, and what is of no use left out") {
  const std::vector<FoundRepository> found = parse_search(
      R"([{"id": "acme/Tall-GGUF", "downloads": 12, "gated": "auto", "likes": 1},
          {"id": "acme/Small-GGUF", "downloads": -3, "gated": false},
          {"id": "../etc/passwd"}, {"id": "alone"}, {"id": 7}, {"downloads": 5}, "text", null])",
      "hub");
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "acme/Tall-GGUF");
  CHECK(found[0].downloads == 12);
  CHECK(found[0].gated);
  CHECK(found[1].downloads == 0);
  CHECK_FALSE(found[1].gated);
  for (const char* bad : {"", "{", R"({"error": "x"})", "[1", "17"}) CHECK_THROWS_AS(parse_search(bad, "hub"), Error);
}

TEST_CASE("a search asks the hub for GGUF repositories by downloads, with its words escaped") {
  FakeHub hub;
  hub.files = {{"Tall-Q8_0.gguf", "12345678"}, {"Tall-Q4_K_M.gguf", "1234"}, {"README.md", "text"}};
  RequestPolicy policy;
  policy.endpoint = hub.hub.address();
  Connection connection(policy);
  CHECK(search(connection, "tall & wide/2", 5).at(0).name == "acme/Tall-GGUF");
  CHECK(hub.hub.requests().at(0).path ==
        "/api/models?search=tall%20%26%20wide%2F2&filter=gguf&sort=downloads&direction=-1&limit=5");

  const auto files = list_files(connection, {.repository = "acme/Tall-GGUF"}, "main");
  const std::vector<OfferedModel> offered = offered_models("acme/Tall-GGUF", models_of(files));
  REQUIRE(offered.size() == 2);
  CHECK(offered[0].reference == "hf:acme/Tall-GGUF:Q4_K_M");
  CHECK(offered[0].bytes == 4);
  CHECK(offered[1].reference == "hf:acme/Tall-GGUF:Q8_0");

  hub.before = [](const HttpRequest&, const HttpReply& reply) { return reply.send(404, "no"), true; };
  CHECK_THROWS_WITH_AS(search(connection, "tall", 5), doctest::Contains("answered the search with status 404"), Error);
}

TEST_CASE("models of one type are offered by their files") {
  const std::vector<OfferedModel> offered =
      offered_models("a/b", {{"x-Q4_0", {{"x-Q4_0.gguf", 5, "", false}}},
                             {"longer-Q4_0", {{"longer-Q4_0.gguf", 3, "", false}}},
                             {"plain", {{"plain.gguf", 9, "", false}}},
                             {"odd@name:1", {{"odd@name:1.gguf", 9, "", false}}}});
  REQUIRE(offered.size() == 3);
  CHECK(offered[0].reference == "hf:a/b/longer-Q4_0.gguf");
  CHECK(offered[1].reference == "hf:a/b:Q4_0");
  CHECK(offered[2].reference == "hf:a/b/plain.gguf");
  CHECK(offered[2].type.empty());
}
