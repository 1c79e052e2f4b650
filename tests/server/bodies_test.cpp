// Malicious bodies must cost neither memory nor time.
#include "server/json/api_error.h"
#include "support/http/endpoint.h"
#include "support/http/socket.h"
#include "support/watchdog.h"

#include <string>

using namespace ridge;
using server::Json;
using tests::Endpoint;
using tests::Socket;

namespace {

// `later` is sent after the answer's first byte.
std::string answer(const Endpoint& endpoint, const std::string& bytes, const std::string& later = {}) {
  Socket socket(endpoint.server.port());
  if (!socket.send(bytes) || !socket.wait_for_byte()) return "";
  if (!later.empty()) socket.send(later);
  return "H" + socket.rest();
}

int64_t count(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

} // namespace

TEST_CASE("a body of a length that cannot be known is refused, and the connection closed") {
  const Endpoint endpoint([] { return tests::open_history({}); });
  // The body contains a request that must not be answered.
  const std::string inside = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const auto refused = [&](const std::string& head, const std::string& status, const std::string& message) {
    CAPTURE(head);
    const std::string text = answer(endpoint, head + "\r\n\r\n", inside);
    CHECK(text.starts_with("HTTP/1.1 " + status));
    CHECK(text.find("\r\nConnection: close\r\n") != std::string::npos);
    CHECK(text.find(message) != std::string::npos);
    CHECK(count(text, "HTTP/1.1") == 1);
  };
  const std::string host = " HTTP/1.1\r\nHost: localhost", n = "\r\nContent-Length: 26";
  const std::string chat = "POST /v1/chat/completions" + host;
  for (const std::string encoding : {"chunked", "Chunked", "gzip, chunked", "identity"})
    refused(chat + "\r\nTransfer-Encoding: " + encoding + n, "4", "");
  for (const std::string encoding : {"gzip, chunked", "identity"})
    refused(chat + "\r\nTransfer-Encoding: " + encoding, "411", "with its Content-Length");
  refused(chat + "\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "400", "malformed");
  for (const char* method : {"GET", "HEAD"})
    refused(std::string(method) + " /health" + host + "\r\nTransfer-Encoding: chunked", "400", "");
  for (const std::string encoding : {"gzip", "deflate", "br", "GZIP", "zstd", "identity\r\nContent-Encoding: gzip"})
    refused(chat + "\r\nContent-Encoding: " + encoding + n, "415", "send the body uncompressed");
  for (const char* method : {"POST", "PUT", "PATCH", "PRI"})
    refused(std::string(method) + " /v1/messages" + host, "411", "Content-Length is missing");
  for (const std::string length : {"-1", "x", "2, 3", "2\r\nContent-Length: 3"})
    refused(chat + "\r\nContent-Length: " + length, "400", "malformed");
  for (const char* method : {"GET", "HEAD", "OPTIONS"}) refused(std::string(method) + " /health" + host + n, "400", "");
  refused("POST /v1/messages" + host, "411", R"({"type":"error","error":{"type":"invalid_request_error")");
}

TEST_CASE("a page that asks whether it may send its request needs no key, and has no body") {
  const Endpoint endpoint([] { return tests::open_history({}); }, "secret", nullptr, {}, "*");
  const std::string ask = "OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\n";
  const std::string allowed = answer(endpoint, ask + "Connection: close\r\n\r\n");
  CHECK(allowed.starts_with("HTTP/1.1 204 "));
  CHECK(allowed.find("\r\nAccess-Control-Allow-Methods: GET, POST, DELETE\r\n") != std::string::npos);
  const std::string inside = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string refused = answer(endpoint, ask + "Content-Length: 26\r\n\r\n", inside);
  CHECK(refused.starts_with("HTTP/1.1 400 "));
  CHECK(refused.find("\r\nAccess-Control-Allow-Origin: *\r\n") != std::string::npos);
  CHECK(count(refused, "HTTP/1.1") == 1);
}

TEST_CASE("a POST may come in chunks") { // as .NET sends JSON
  const Endpoint endpoint([] { return tests::open_history({}); });
  const std::string body = "8\r\n{\"conten\r\nB\r\nt\": \"text\"}\r\n0\r\n\r\n";
  const std::string head = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n";
  CHECK(answer(endpoint, head + "Connection: close\r\n\r\n" + body).starts_with("HTTP/1.1 200"));
  const std::string two = answer(endpoint, head + "\r\n" + body, head + "Connection: close\r\n\r\n" + body);
  CHECK(count(two, "HTTP/1.1 200") == 2);
  CHECK(answer(endpoint, "POST /nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
            .starts_with("HTTP/1.1 404"));
  CHECK(answer(endpoint, head + "\r\n" + "x\r\n").starts_with("HTTP/1.1 400"));
}

TEST_CASE("an endless body is not read on") {
  const Endpoint endpoint([] { return tests::open_history({}); });
  for (const char* path : {"/v1/messages", "/nothing"}) {
    CAPTURE(path);
    Socket socket(endpoint.server.port());
    REQUIRE(socket.send("POST " + std::string(path) +
                        " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"));
    const std::string chunk = "100000\r\n" + std::string(1 << 20, ' ') + "\r\n";
    const int64_t most = (32 << 20) + tests::bytes_between_sides();
    int64_t sent = 0;
    while (sent < 2 * most && socket.send(chunk)) sent += std::ssize(chunk);
    CHECK(sent <= most + std::ssize(chunk));
  }
  const std::string health = answer(endpoint, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  CHECK(health.starts_with("HTTP/1.1 200"));
}

TEST_CASE("bodies of a known length, empty ones, and requests without one go on as they were") {
  const Endpoint endpoint([] { return tests::open_history({}); });
  tests::HttpClient client = endpoint.client();
  const std::string body = R"({"content": "text"})";
  for (const tests::HttpHeaders& headers :
       {tests::HttpHeaders{}, tests::HttpHeaders{{"Content-Encoding", "Identity"}}}) {
    const tests::HttpReply result = client.post("/tokenize", body, headers);
    REQUIRE(result.whole);
    CHECK(result.status == 200);
    CHECK(result.header("Connection") == "keep-alive");
  }
  const tests::HttpReply empty = client.post("/tokenize", "");
  REQUIRE(empty.whole);
  CHECK(empty.status == 400);
  CHECK(empty.body.find("the body is not valid JSON") != std::string::npos);
  CHECK(client.get("/health").status == 200);
  const std::string last = "Connection: close\r\n\r\n";
  for (const std::string length : {"", "Content-Length: 0\r\n"}) {
    CHECK(answer(endpoint, "GET /health HTTP/1.1\r\nHost: localhost\r\n" + length + last).starts_with("HTTP/1.1 200"));
    CHECK(answer(endpoint, "DELETE /nothing HTTP/1.1\r\nHost: localhost\r\n" + length + last)
              .starts_with("HTTP/1.1 404"));
  }
}

TEST_CASE("the body of a request with a wrong key is not taken for the next one") {
  const Endpoint endpoint([] { return tests::open_history({}); }, "secret");
  const std::string inside = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string head =
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(inside.size()) + "\r\n\r\n";
  const std::string text = answer(endpoint, head, inside);
  CHECK(text.starts_with("HTTP/1.1 401"));
  CHECK(count(text, "HTTP/1.1") == 1);
}

TEST_CASE(
    "bodies of many members, objects and lists are read up to the limits, in a time that grows with their length") {
  const tests::Guard guard("bodies to be read"); // quadratic time would take hours
  const auto repeated = [](int64_t n, const auto& item) {
    std::string text;
    for (int64_t i = 0; i < n; ++i) text += (i ? "," : "") + item(i);
    return text;
  };
  const auto member = [](int64_t i) { return "\"key" + std::to_string(i) + "\":0"; };
  const auto problem = [](const std::string& body) -> std::string {
    try {
      server::parse_body(body);
      return "";
    } catch (const server::ApiError& error) {
      return error.what();
    }
  };
  CHECK(problem("{" + repeated(10'000, member) + "}") == "");
  CHECK(problem("{" + repeated(10'001, member) + "}") == "the body has an object with more than 10000 members");
  CHECK(problem("{" + repeated(1'000'000, member) + "}") == "the body has an object with more than 10000 members");
  CHECK(problem("{\"a\":[" + repeated(3'000'000, [](int64_t) { return std::string("{}"); }) + "]}") ==
        "the body has more than 2000000 objects and arrays");
  const std::string large = "{" + repeated(10'000, member) + "}";
  CHECK(problem("{\"a\":[" + repeated(50, [&](int64_t) { return large; }) + "]}") == "");
  CHECK(problem("{\"a\":[" + repeated(1'900'000, [](int64_t) { return std::string("{}"); }) + "]}") == "");
  for (const std::string part : {"[]", "{\"a\":1}"})
    CHECK(problem("{\"a\":[" + repeated(200'000, [&](int64_t) { return part; }) + "]}") == "");
  CHECK(problem("{\"a\":[" + repeated(4'000'000, [](int64_t i) { return std::to_string(i); }) + "]}") == "");
  CHECK(problem("{\"a\":\"" + std::string((32 << 20) - 8, 'x') + "\"}") == "");
}

TEST_CASE("a body is read as any JSON, members in their order") {
  for (const std::string text :
       {R"({})", R"({"b":[],"a":{"x":[1,-2,2.5,true,null,"t\u20ac"],"":{}},"c":18446744073709551615,"d":[[],[{}]]})",
        R"({"a":1,"b":2,"a":3,"c":{"x":1,"y":0,"x":{"y":[1,2]}},"a":{"z":1}})"})
    CHECK(server::parse_body(text).dump() == Json::parse(text).dump());
  for (const int levels : {64, 65}) {
    std::string text;
    for (int i = 0; i < levels; ++i) text += R"({"a":)";
    text += "1" + std::string(static_cast<size_t>(levels), '}');
    if (levels == 64)
      CHECK(server::parse_body(text).dump() == text);
    else
      CHECK_THROWS_WITH_AS(server::parse_body(text), "the body nests deeper than 64 levels", server::ApiError);
  }
}
