// Requests over HTTP by libcurl, which takes proxies from the environment (https_proxy, no_proxy).
//
// Redirects are followed here and not by libcurl, so that the token goes to the hub alone, whatever the version of
// libcurl: never to another scheme, host or port, and never from https to http.
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

// On whose behalf requests are sent, and how patiently.
struct Asker {
  std::string endpoint;                      // https://huggingface.co: where the token may go
  std::string token;                         // empty: none
  const std::atomic<bool>* cancel = nullptr; // raised: requests end
  int tries = 6;                             // of a request, without a byte of progress
  double retry_seconds = 1;                  // before the second one; then twice that, and so on
  double seconds = 0;                        // for a request with its redirects; 0: as long as bytes come
  // Asked for the very address of each connection, which no proxy then makes; null: any, and as the environment says.
  bool (*may_connect)(const sockaddr& address) = nullptr;

  bool cancelled() const { return cancel && cancel->load(); }
  // An Error about `name`, which was asked for, with the exit status of an interrupt. `rest` ends its line.
  void throw_if_cancelled(std::string_view name, std::string_view rest = "") const;
};

struct Request {
  std::string url;
  int64_t first = -1, last = -1; // bytes of the file; -1: all of it, to the end
  std::string if_range;          // the ETag for which they are wanted; empty: any
  // A POST or DELETE stays at its origin, whatever redirects say, and may wait for its answer as long as `seconds` of
  // the asker allow.
  enum class Method : uint8_t { get, post, remove } method = Method::get;
  std::string body;                 // of a POST
  std::vector<std::string> headers; // "Name: value"
};

// What came before the body. Names are in lower case; a header of a redirect counts where the last answer has none.
struct Head {
  int status = 0; // of the last answer
  std::map<std::string, std::string> headers;
  std::string header(const std::string& name) const {
    const auto at = headers.find(name);
    return at == headers.end() ? "" : at->second;
  }
};

// A request that got no answer, or lost it: `again` where another try may succeed.
struct Failure {
  std::string reason; // empty: none
  bool again = false;
};

// One connection, for one thread. It stays open from request to request.
class Connection {
 public:
  explicit Connection(const Asker& asker); // throws Error where there is no libcurl
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const Asker& asker() const { return asker_; }

  // Returns when all of the body came or something failed. begin(head) comes before the body of the last answer, which
  // goes to body(bytes) piece by piece; where one returns false, the request ends there without a failure. Throws Error
  // for addresses that cannot be used, too many redirects and too many headers.
  Failure ask(const Request& request, const std::function<bool(const Head&)>& begin,
              const std::function<bool(std::span<const char>)>& body);

 private:
  struct State;
  static size_t take_header(char* data, size_t one, size_t bytes, void* user);
  static size_t take_body(char* data, size_t one, size_t bytes, void* user);
  static int open_socket(void* user, int purpose, curl::SocketAddress* address);
  static int check_cancel(void* user, int64_t, int64_t, int64_t, int64_t);
  int perform(State& state, const Request& request, const std::string& url, double seconds);

  const Asker asker_;
  const curl::Library& curl_;
  curl::Easy* easy_;
};

// A whole small text. Tries again where that may help. Throws Error where it is longer than `most_bytes` and where it
// cannot be got; an answer of another status than 200 is the caller's.
struct Answer {
  Head head;
  std::string body;
};
Answer get_text(Connection& connection, const std::string& url, size_t most_bytes);

// Waits before the next try, the first being number 0: longer where the answer before asks for it, less where the asker
// cancels.
void wait_to_retry(const Asker& asker, int number, const Head& head);
bool is_busy(int status); // an answer that may be another one soon: 408, 429, 5xx

// "https://host:443" of an address. Throws Error where it is none of HTTP.
std::string origin_of(const std::string& url);

} // namespace ridge::hub
