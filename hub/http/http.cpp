#include "hub/http/http.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/strings/lower.h"
#include "core/strings/printable.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <memory>
#include <thread>

namespace ridge::hub {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxHeaderBytes = 256 << 10;
constexpr long kConnectSeconds = 20, kSlowSeconds = 30, kSlowBytes = 128; // slower connections count as dead

std::string trimmed(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  return start == std::string_view::npos
             ? ""
             : std::string(text.substr(start, text.find_last_not_of(" \t\r\n") + 1 - start));
}

bool is_retryable(int code) {
  constexpr int kLost[] = {curl::kNoProxy,    curl::kNoHost,        curl::kNoConnection,       curl::kHttp2Failed,
                           curl::kPartOfFile, curl::kTimedOut,      curl::kNoSecureConnection, curl::kGotNothing,
                           curl::kSendFailed, curl::kReceiveFailed, curl::kStreamFailed,       curl::kHttp3Failed,
                           curl::kQuicFailed};
  return std::ranges::find(kLost, code) != std::end(kLost);
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

} // namespace

void RequestPolicy::throw_if_cancelled(std::string_view name, std::string_view rest) const {
  if (cancelled()) throw Error(fmt::format("{}: was cancelled{}", name, rest), 130);
}

struct Connection::State {
  const Connection& connection;
  const std::function<bool(const Head&)>& begin;
  const std::function<bool(std::span<const char>)>& body;
  Head head;
  size_t header_bytes = 0, redirect_bytes = 0;
  bool begun = false, ended = false, flooded = false, refused = false;
  char problem[curl::kErrorBytes] = "";

  bool start() {
    if (begun) return !ended;
    begun = true;
    if (!is_redirect(head.status)) ended = !begin(head);
    return !ended;
  }
};

std::string origin_of(const std::string& url) {
  const curl::Library& curl = curl::library();
  const std::unique_ptr<curl::Url, void (*)(curl::Url*)> parsed(curl.url(), curl.url_cleanup);
  constexpr int kWhole = 0;
  std::string parts[3];
  bool good = parsed && curl.url_set(parsed.get(), kWhole, url.c_str(), 0) == curl::kOk;
  for (size_t i = 0; good && i < 3; ++i) {
    char* text = nullptr;
    good = curl.url_get(parsed.get(), std::array{curl::kScheme, curl::kHost, curl::kPort}[i], &text,
                        curl::kDefaultPort) == curl::kOk;
    if (text) parts[i] = core::lower(text);
    curl.free(text);
  }
  if (!good || (parts[0] != "http" && parts[0] != "https"))
    throw_error("{}: is not an https address", core::printable(url, 200));
  return parts[0] + "://" + parts[1] + ":" + parts[2];
}

Connection::Connection(const RequestPolicy& policy)
    : policy_(policy), curl_(curl::library()), easy_(curl_.easy_init()) {
  if (!easy_) throw_error("cannot download: libcurl failed to initialize");
}

Connection::~Connection() { curl_.easy_cleanup(easy_); }

size_t Connection::take_header(char* data, size_t, size_t bytes, void* user) {
  State& state = *static_cast<State*>(user);
  state.header_bytes += bytes;
  if (state.header_bytes > kMaxHeaderBytes) {
    state.flooded = true;
    return 0;
  }
  const std::string_view line(data, bytes);
  if (line.starts_with("HTTP/")) { // a status line: of this answer, of a 100 or of a proxy
    const size_t space = line.find(' ');
    state.head.status = 0;
    if (space != std::string_view::npos)
      std::from_chars(line.data() + space + 1, line.data() + line.size(), state.head.status);
  } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
    state.head.headers[core::lower(trimmed(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
  }
  return bytes;
}

size_t Connection::take_body(char* data, size_t, size_t bytes, void* user) {
  State& state = *static_cast<State*>(user);
  if (!state.start()) return 0;
  if (is_redirect(state.head.status)) {
    state.redirect_bytes += bytes;
    return state.redirect_bytes > kMaxHeaderBytes ? 0 : bytes;
  }
  state.ended = !state.body({data, bytes});
  return state.ended ? 0 : bytes;
}

// Checking the address here ensures that it is the one that the connection uses.
int Connection::open_socket(void* user, int, curl::SocketAddress* address) {
  State& state = *static_cast<State*>(user);
  state.refused = !state.connection.policy_.may_connect(address->address);
  return state.refused ? -1 : ::socket(address->family, address->type | SOCK_CLOEXEC, address->protocol);
}

int Connection::check_cancel(void* user, int64_t, int64_t, int64_t, int64_t) {
  return static_cast<const State*>(user)->connection.policy_.cancelled();
}

int Connection::perform(State& state, const Request& request, const std::string& url, double seconds) {
  const auto set = [&](int option, auto value) { curl_.easy_setopt(easy_, option, value); };
  curl_.easy_reset(easy_);
  std::unique_ptr<curl::List, void (*)(curl::List*)> headers(nullptr, curl_.slist_free_all);
  const auto add = [&](const std::string& line) {
    if (curl::List* longer = curl_.slist_append(headers.get(), line.c_str())) {
      headers.release();
      headers.reset(longer);
    }
  };
  if (!policy_.token.empty() && origin_of(url) == origin_of(policy_.endpoint))
    add("Authorization: Bearer " + policy_.token);
  if (!request.if_range.empty()) add("If-Range: " + request.if_range);
  for (const std::string& line : request.headers) add(line);
  const std::string range = fmt::format("{}-{}", request.first, request.last < 0 ? "" : std::to_string(request.last));
  set(curl::kUrl, url.c_str());
  set(curl::kHttpHeader, headers.get());
  if (request.first >= 0) set(curl::kRange, range.c_str());
  set(curl::kUserAgent, "ridge/" RIDGE_VERSION);
  set(curl::kProtocols, static_cast<long>(curl::kHttp | curl::kHttps));
  set(curl::kNoSignal, 1L);
  set(curl::kConnectTimeout, kConnectSeconds);
  if (request.method == Request::Method::get) {
    set(curl::kLowSpeedLimit, kSlowBytes);
    set(curl::kLowSpeedTime, kSlowSeconds);
  }
  if (request.method == Request::Method::post) {
    set(curl::kPostBytes, static_cast<long>(request.body.size()));
    set(curl::kPostBody, request.body.c_str());
  }
  if (request.method == Request::Method::remove) set(curl::kMethod, "DELETE");
  set(curl::kBufferSize, 256L << 10);
  set(curl::kErrorBuffer, state.problem);
  set(curl::kWriteFunction, curl::DataFunction(take_body));
  set(curl::kWriteData, &state);
  set(curl::kHeaderFunction, curl::DataFunction(take_header));
  set(curl::kHeaderData, &state);
  set(curl::kProgressFunction, curl::ProgressFunction(check_cancel));
  set(curl::kProgressData, &state);
  set(curl::kNoProgress, 0L);
  if (seconds > 0) set(curl::kTimeoutMs, static_cast<long>(seconds * 1e3) + 1);
  if (policy_.may_connect) {
    set(curl::kSocketFunction, curl::SocketFunction(open_socket));
    set(curl::kSocketData, &state);
    set(curl::kProxy, "");
    set(curl::kDirectHosts, "*");
  }
  return curl_.easy_perform(easy_);
}

Failure Connection::ask(const Request& request, const std::function<bool(const Head&)>& begin,
                        const std::function<bool(std::span<const char>)>& body) {
  std::string url = request.url;
  std::map<std::string, std::string> before;
  const double end = core::seconds_now() + policy_.seconds;
  for (int redirects = 0;; ++redirects) {
    const bool secure = origin_of(url).starts_with("https:");
    State state{*this, begin, body};
    state.head.headers = before;
    const double left = end - core::seconds_now();
    if (policy_.seconds > 0 && left <= 0) return {fmt::format("it takes longer than {:g} s", policy_.seconds)};
    const int code = perform(state, request, url, policy_.seconds > 0 ? left : 0);
    if (state.flooded)
      throw_error("{}: the response has more than {} kB of headers", core::printable(url, 200), kMaxHeaderBytes >> 10);
    if (policy_.cancelled()) return {"was cancelled", false};
    if (state.ended) return {};
    if (state.refused && code != curl::kOk) return {"its address is not on the public internet"};
    if (code == curl::kTimedOut && policy_.seconds > 0)
      return {fmt::format("it takes longer than {:g} s", policy_.seconds)};
    if (code != curl::kOk && !(code == curl::kWriteError && is_redirect(state.head.status))) {
      const std::string reason = *state.problem ? state.problem : curl_.easy_strerror(code);
      return {core::printable(trimmed(reason), 300), is_retryable(code)};
    }
    if (!is_redirect(state.head.status)) {
      state.start();
      return {};
    }
    char* next = nullptr;
    curl_.easy_getinfo(easy_, curl::kRedirectUrl, &next);
    if (!next) throw_error("{}: redirects to no address", core::printable(url, 200));
    if (redirects == kMaxRedirects)
      throw_error("{}: redirects more than {} times", core::printable(request.url, 200), kMaxRedirects);
    const std::string target = next;
    if (request.method != Request::Method::get && (state.head.status == 303 || origin_of(target) != origin_of(url)))
      throw_error("{}: redirects to {}; use that address if you trust it", core::printable(url, 200),
                  core::printable(target, 200));
    if (secure && !origin_of(target).starts_with("https:"))
      throw_error("{}: redirects to {}, which is not encrypted", core::printable(url, 200),
                  core::printable(target, 200));
    before = std::move(state.head.headers);
    for (const char* own : {"etag", "content-length", "content-range", "content-encoding", "retry-after"})
      before.erase(own);
    url = target;
  }
}

bool is_busy(int status) { return status == 408 || status == 429 || (status >= 500 && status != 501); }

void wait_to_retry(const RequestPolicy& policy, int number, const Head& head) {
  constexpr double kLongest = 60;
  double seconds = std::min(policy.retry_seconds * (1 << std::min(number, 6)), kLongest);
  const std::string asked = head.header("retry-after");
  int wanted = 0;
  if (std::from_chars(asked.data(), asked.data() + asked.size(), wanted).ec == std::errc() && wanted > 0)
    seconds = std::min<double>(std::max<double>(seconds, wanted), kLongest);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end && !policy.cancelled())
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(100, static_cast<int>(1 + seconds * 100))));
}

Answer get_text(Connection& connection, const std::string& url, size_t most_bytes) {
  const int tries = std::min(connection.policy().tries, 3); // few: a person waits
  for (int attempt = 0;; ++attempt) {
    Answer answer;
    bool too_long = false;
    const Failure failure = connection.ask(
        {url},
        [&](const Head& head) {
          answer.head = head;
          return true;
        },
        [&](std::span<const char> bytes) {
          too_long = answer.body.size() + bytes.size() > most_bytes;
          if (!too_long) answer.body.append(bytes.data(), bytes.size());
          return !too_long;
        });
    if (too_long) throw_error("{}: the response has more than {} MB", core::printable(url, 200), most_bytes >> 20);
    const bool good = failure.reason.empty() && !is_busy(answer.head.status);
    if (good || attempt + 1 == tries || (!failure.reason.empty() && !failure.retryable)) {
      if (!failure.reason.empty()) throw_error("{}: {}", core::printable(url, 200), failure.reason);
      return answer;
    }
    wait_to_retry(connection.policy(), attempt, answer.head);
  }
}

} // namespace ridge::hub
