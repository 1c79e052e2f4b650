// A local hub, good or faulty. Plain sockets, because HTTP libraries send nothing malformed.
#pragma once

#include "core/files/sha256.h"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace ridge::tests {

struct HttpRequest {
  std::string path;
  std::map<std::string, std::string> headers;
  std::string header(const std::string& name) const { return headers.contains(name) ? headers.at(name) : ""; }
};

class HttpReply {
 public:
  explicit HttpReply(int socket) : socket_(socket) {}
  bool raw(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void send(int status, const std::string& body, const std::string& headers = "") const {
    raw(fmt::format("HTTP/1.1 {} x\r\n{}Content-Length: {}\r\n\r\n{}", status, headers, body.size(), body));
  }

 private:
  int socket_;
};

using HttpHandler = std::function<bool(const HttpRequest&, const HttpReply&)>;

class FakeServer {
 public:
  explicit FakeServer(HttpHandler handler)
      : handler_(std::move(handler)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), length);
    ::listen(listener_, 64);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] {
      for (int socket; (socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
        const std::scoped_lock lock(mutex_);
        sockets_.push_back(socket);
        threads_.emplace_back([this, socket] { serve(socket); });
      }
    });
  }
  ~FakeServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
    for (const int socket : sockets_) ::close(socket);
  }
  std::string address() const { return fmt::format("http://127.0.0.1:{}", port_); }
  bool stopping() const { return stopping_; }
  std::vector<HttpRequest> requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }
  void clear() {
    const std::scoped_lock lock(mutex_);
    requests_.clear();
  }

 private:
  void serve(int socket) {
    std::string text;
    char buffer[8192];
    while (true) {
      size_t end;
      while ((end = text.find("\r\n\r\n")) == std::string::npos) {
        const ssize_t n = ::read(socket, buffer, sizeof buffer);
        if (n <= 0) return;
        text.append(buffer, static_cast<size_t>(n));
      }
      HttpRequest request;
      size_t at = text.find("\r\n");
      const size_t space = text.find(' ');
      request.path = text.substr(space + 1, text.find(' ', space + 1) - space - 1);
      while (at < end) {
        const size_t next = text.find("\r\n", at + 2), colon = text.find(':', at + 2);
        std::string name = text.substr(at + 2, colon - at - 2);
        std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
        request.headers[name] = text.substr(colon + 2, next - colon - 2);
        at = next;
      }
      text.erase(0, end + 4);
      {
        const std::scoped_lock lock(mutex_);
        requests_.push_back(request);
      }
      if (!handler_(request, HttpReply(socket))) break;
    }
    ::shutdown(socket, SHUT_RDWR);
  }

  const HttpHandler handler_;
  int listener_, port_ = 0;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_; // guards the members below
  std::vector<HttpRequest> requests_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

inline std::string sha256_of(std::string_view bytes) { return core::Sha256().add(bytes).hex(); }

inline bool send_file(const HttpRequest& request, const HttpReply& reply, const std::string& bytes,
                      const std::string& headers = "") {
  const std::string range = request.header("range");
  if (range.empty()) {
    reply.send(200, bytes, headers);
    return true;
  }
  const size_t first = std::stoul(range.substr(6)), dash = range.find('-');
  const size_t last = dash + 1 < range.size() ? std::stoul(range.substr(dash + 1)) : bytes.size() - 1;
  if (first >= bytes.size()) {
    reply.send(416, "", fmt::format("Content-Range: bytes */{}\r\n", bytes.size()));
    return true;
  }
  const std::string part = bytes.substr(first, last - first + 1);
  reply.send(206, part,
             headers + fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, first + part.size() - 1, bytes.size()));
  return true;
}

// One repository; files lie on another host.
struct FakeHub {
  std::string repository = "acme/Tall-GGUF";
  std::map<std::string, std::string> files;
  HttpHandler before = [](const HttpRequest&, const HttpReply&) { return false; };
  HttpHandler store_before = before;
  std::string commit = std::string(40, 'c');
  std::atomic<int64_t> sent = 0;

  FakeServer store{[this](const HttpRequest& request, const HttpReply& reply) {
    if (store_before(request, reply)) return false;
    const std::string name = request.path.substr(1, request.path.find('?') - 1);
    if (!files.contains(name)) return reply.send(404, ""), true;
    const std::string range = request.header("range");
    sent += range.empty() ? std::ssize(files[name]) : 0;
    return send_file(request, reply, files[name], "ETag: \"of-the-store\"\r\n");
  }};
  FakeServer hub{[this](const HttpRequest& request, const HttpReply& reply) {
    if (before(request, reply)) return false;
    const std::string api = "/api/models/" + repository, page = "/" + repository + "/resolve/" + commit + "/";
    if (request.path.starts_with("/api/models?search=")) {
      reply.send(200, fmt::format(R"([{{"id": "{}", "downloads": 1234567, "gated": false}}])", repository));
    } else if (request.path.starts_with(api + "/revision/")) {
      reply.send(200, fmt::format(R"({{"sha": "{}"}})", commit));
    } else if (request.path == api + "/tree/" + commit + "?recursive=1" ||
               request.path == api + "/tree/main?recursive=1") {
      reply.send(200, tree());
    } else if (request.path.starts_with(page)) {
      const std::string name = request.path.substr(page.size());
      reply.send(302, "moved",
                 fmt::format("Location: {}/{}?signed\r\nX-Linked-ETag: \"{}\"\r\nX-Linked-Size: {}\r\n",
                             store.address(), name, sha256_of(files[name]), files[name].size()));
    } else {
      reply.send(404, "", "X-Error-Code: RepoNotFound\r\n");
    }
    return true;
  }};

  std::string tree() const {
    std::string list;
    for (const auto& [name, bytes] : files)
      list += fmt::format(
          R"({}{{"type": "file", "path": "{}", "oid": "{}", "size": {}, "lfs": {{"oid": "{}", "size": {}, "pointerSize": 135}}}})",
          list.empty() ? "" : ", ", name, std::string(40, '0'), bytes.size(), sha256_of(bytes), bytes.size());
    return "[" + list + "]";
  }
};

} // namespace ridge::tests
