// HTTP requests through libcurl, with proxies from the environment (https_proxy, no_proxy).
// Redirects are followed here so that the token never reaches another scheme, host or port, whatever libcurl's version.
#pragma once

#include "hub/http/curl.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

struct RequestPolicy {
  std::string endpoint;
  std::string token;
  const std::atomic<bool>* cancel = nullptr; // true ends requests
  int tries = 6;                             // per request, without progress
  double retry_seconds = 1;                  // before the first retry; doubles each time
  double seconds = 0;                        // limit per request; 0: none while bytes arrive
  // If set, checks each connection's address, and no proxy is used.
  bool (*may_connect)(const sockaddr& address) = nullptr;

  bool cancelled() const { return cancel && cancel->load(); }
  // Throws Error about `name` with the exit status of an interrupt. `rest` ends the message.
  void throw_if_cancelled(std::string_view name, std::string_view rest = "") const;
};

struct Request {
  std::string url;
  int64_t first = -1, last = -1; // byte range; -1: open
  std::string if_range;          // ETag for If-Range; empty: any
  // POST and DELETE follow redirects within their origin only and wait as long as RequestPolicy::seconds allows.
  enum class Method : uint8_t { get, post, remove } method = Method::get;
  std::string body;                 // of a POST
  std::vector<std::string> headers; // "Name: value"
};

// Header names are in lower case. Headers of redirects fill in those that the last answer lacks.
struct Head {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string header(const std::string& name) const {
    const auto at = headers.find(name);
    return at == headers.end() ? "" : at->second;
  }
};

// A failed request. `again`: a retry may succeed.
struct Failure {
  std::string reason;
  bool retryable = false;
};

// A persistent connection, for one thread.
class Connection {
 public:
  explicit Connection(const RequestPolicy& policy); // throws Error without libcurl
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const RequestPolicy& policy() const { return policy_; }

  // Returns after the body or a failure. Calls begin(head) for the last answer, then body(bytes) piece by piece; false
  // from either ends the request without a failure. Throws Error for unusable URLs and too many redirects or headers.
  Failure ask(const Request& request, const std::function<bool(const Head&)>& begin,
              const std::function<bool(std::span<const char>)>& body);

 private:
  struct State;
  static size_t take_header(char* data, size_t one, size_t bytes, void* user);
  static size_t take_body(char* data, size_t one, size_t bytes, void* user);
  static int open_socket(void* user, int purpose, curl::SocketAddress* address);
  static int check_cancel(void* user, int64_t, int64_t, int64_t, int64_t);
  int perform(State& state, const Request& request, const std::string& url, double seconds);

  const RequestPolicy policy_;
  const curl::Library& curl_;
  curl::Easy* easy_;
};

// Gets a small text, with retries. Throws Error if it is longer than `most_bytes` or unreachable. The caller checks the
// status.
struct Answer {
  Head head;
  std::string body;
};
Answer get_text(Connection& connection, const std::string& url, size_t most_bytes);

// Waits before retry `number` (from 0), at least as long as Retry-After asks. A cancel ends the wait.
void wait_to_retry(const RequestPolicy& policy, int number, const Head& head);
bool is_busy(int status); // 408, 429, 5xx

// "https://host:443". Throws Error if not HTTP(S).
std::string origin_of(const std::string& url);

} // namespace ridge::hub
