// Access to the page; no foreign scripts or styles.
#include "core/files/sha256.h"
#include "core/strings/base64.h"
#include "server/page/page.h"
#include "support/http/endpoint.h"

#include <doctest/doctest.h>

#include <string>

using namespace ridge;
using namespace ridge::tests;

namespace {

const HttpHeaders kBrowser = {{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8"},
                              {"Sec-Fetch-Site", "cross-site"}};

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin) + begin.size();
  REQUIRE(from >= begin.size());
  return text.substr(from, text.find(end, from) - from);
}

std::string hash_of(const std::string& text) {
  return "'sha256-" + core::to_base64(core::Sha256().add(text).digest()) + "'";
}

} // namespace

TEST_CASE("a browser gets the page at the root, and everybody else Ollama's line") {
  const Endpoint endpoint;
  const HttpReply page = endpoint.client().get("/", kBrowser);
  CHECK(page.status == 200);
  CHECK(page.header("Content-Type") == "text/html; charset=utf-8");
  CHECK(page.header("X-Content-Type-Options") == "nosniff");
  const std::string policy = page.header("Content-Security-Policy");
  CHECK(policy.starts_with("default-src 'none'; "));
  CHECK(policy.find("unsafe") == std::string::npos);
  CHECK(policy.find("script-src " + hash_of(between(page.body, "<script>", "</script>")) + ";") != std::string::npos);
  CHECK(policy.find("style-src " + hash_of(between(page.body, "<style>", "</style>")) + ";") != std::string::npos);

  CHECK(endpoint.client().ask("HEAD", "/", {}, kBrowser).body.empty());
  CHECK(endpoint.client().get("/", {{"Accept", "*/*"}}).body == "Ollama is running");
  CHECK(endpoint.client().get("/").body == "Ollama is running");
  CHECK(endpoint.client().get("/health", kBrowser).header("Content-Type") == "application/json");
  CHECK(endpoint.client().get("/v1/models", kBrowser).status == 403); // other sites must not read data
}

TEST_CASE("the page needs no key, but whatever it asks for does") {
  const Endpoint endpoint(4, "secret");
  CHECK(endpoint.client().get("/", kBrowser).body.starts_with("<!doctype html>"));
  CHECK(endpoint.client().get("/").status == 401);
  CHECK(endpoint.client().get("/v1/models", {{"Accept", "text/html"}}).status == 401);
  CHECK(endpoint.client().get("/v1/models", {{"Authorization", "Bearer secret"}}).status == 200);
}

TEST_CASE("a server without the page has Ollama's line for browsers, too") {
  engine::LoadedModel model = open_guide(1);
  const text::ChatTemplate chat_template = engine::choose_template({}, model.file, [](const std::string&) {});
  server::Service service(model, chat_template, Json::object(), {}, "guide", [](const std::string&) {});
  server::Server server(service, {.port = 0, .limits = patient(), .page = false});
  std::thread thread([&] { server.run(); });
  HttpHeaders same_site = kBrowser;
  same_site.back().second = "none";
  CHECK(HttpClient(server.port()).get("/", same_site).body == "Ollama is running");
  server.stop();
  thread.join();
}

// The script only sets text, which cannot become markup.
TEST_CASE("the page's script has no way from a text to markup, asks no other host, and has no style in its elements") {
  const std::string& page = server::chat_page().content;
  for (const char* sink : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(",
                           "setAttribute(\"on", "srcdoc", "DOMParser", "createContextualFragment", "localStorage"})
    CHECK_MESSAGE(page.find(sink) == std::string::npos, sink);
  const std::string markup = page.substr(0, page.find("<style>")) +
                             page.substr(page.find("</style>"), page.find("<script>") - page.find("</style>"));
  CHECK(markup.find("style=") == std::string::npos);
  for (const char* other : {"http:", "https:", "src="}) CHECK_MESSAGE(markup.find(other) == std::string::npos, other);
}
