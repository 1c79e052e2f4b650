// An HTTP client.
#pragma once

#include "support/http/socket.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <strings.h>
#include <utility>
#include <vector>

namespace ridge::tests {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 0;
  HttpHeaders headers;
  std::string body;
  bool whole = false;

  std::string header(const std::string& name) const {
    for (const auto& [key, value] : headers)
      if (strcasecmp(key.c_str(), name.c_str()) == 0) return value;
    return "";
  }
};

class HttpClient {
 public:
  explicit HttpClient(int port) : socket_(port) {}

  HttpReply get(const std::string& path, const HttpHeaders& headers = {}) { return ask("GET", path, {}, headers); }
  HttpReply post(const std::string& path, const std::string& body, const HttpHeaders& headers = {}) {
    return ask("POST", path, body, headers);
  }
  HttpReply ask(const std::string& method, const std::string& path, std::optional<std::string> body = {},
                const HttpHeaders& headers = {}) {
    std::string request = method + " " + path + " HTTP/1.1\r\n";
    const auto given = [&](const char* name) {
      return std::ranges::any_of(headers, [&](const auto& one) { return strcasecmp(one.first.c_str(), name) == 0; });
    };
    if (!given("Host")) request += "Host: localhost\r\n";
    for (const auto& [name, value] : headers) request += name + ": " + value + "\r\n";
    if (body) request += "Content-Length: " + std::to_string(body->size()) + "\r\n";
    request += "\r\n" + body.value_or("");
    socket_.send(request);
    return read_reply(method == "HEAD");
  }

 private:
  HttpReply read_reply(bool bodiless) {
    HttpReply reply;
    const std::optional<std::string> status = line();
    if (!status || !status->starts_with("HTTP/1.1 ")) return reply;
    reply.status = std::stoi(status->substr(9));
    for (std::optional<std::string> header; (header = line()) && !header->empty();) {
      const size_t colon = header->find(": ");
      if (colon != std::string::npos) reply.headers.emplace_back(header->substr(0, colon), header->substr(colon + 2));
    }
    const std::string length = reply.header("Content-Length");
    if (bodiless || reply.status == 204)
      reply.whole = true;
    else if (reply.header("Transfer-Encoding") == "chunked")
      reply.whole = read_chunks(reply.body);
    else if (!length.empty())
      reply.whole = read(std::stoul(length), reply.body);
    else
      while (read(1, reply.body)) {
      }
    return reply;
  }
  bool read_chunks(std::string& body) {
    while (const std::optional<std::string> size = line()) {
      const size_t count = std::stoul(*size, nullptr, 16);
      if (!read(count, body) || !line()) return false;
      if (count == 0) return true;
    }
    return false;
  }
  std::optional<std::string> line() {
    size_t end;
    while ((end = input_.find("\r\n")) == std::string::npos)
      if (!more()) return std::nullopt;
    std::string text = input_.substr(0, end);
    input_.erase(0, end + 2);
    return text;
  }
  bool read(size_t count, std::string& to) {
    while (input_.size() < count)
      if (!more()) break;
    const size_t there = std::min(count, input_.size());
    to += input_.substr(0, there);
    input_.erase(0, there);
    return there == count;
  }
  bool more() {
    const std::string bytes = socket_.some();
    input_ += bytes;
    return !bytes.empty();
  }

  Socket socket_;
  std::string input_;
};

} // namespace ridge::tests
