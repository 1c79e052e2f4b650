#include "app/mcp/http_channel.h"

#include "core/error.h"
#include "core/json/parse.h"
#include "core/strings/lower.h"
#include "core/strings/printable.h"
#include "hub/http/http.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace ridge::app {
namespace {

using HttpJson = nlohmann::ordered_json;

constexpr double kAskSeconds = 600, kTellSeconds = 10, kLeaveSeconds = 2;
constexpr auto kLookAt = std::chrono::milliseconds(50); // interval of cancellation checks
constexpr size_t kMaxStreamBytes = 4 * McpChannel::kMaxBytes, kMaxProblem = 64 << 10, kMaxSession = 1024;
constexpr int kAccepted = 202, kNoToken = 401, kForbidden = 403, kNotFound = 404, kNotAllowed = 405;

// Describes an unsuccessful answer: the error's message, or the text.
std::string reason_in(const std::string& body) {
  const auto json = core::find_json<HttpJson>(body, {.depth = 16});
  if (!json) return body.starts_with('<') ? "" : core::printable(body.substr(0, body.find('\n')), 200);
  if (!json->is_object()) return "";
  for (const char* key : {"error", "message", "error_description", "detail"}) {
    if (!json->contains(key)) continue;
    const HttpJson& found = (*json)[key];
    if (found.is_string()) return core::printable(found.get<std::string>(), 200);
    if (found.is_object() && found.contains("message") && found["message"].is_string())
      return core::printable(found["message"].get<std::string>(), 200);
  }
  return "";
}

} // namespace

bool EventStream::add(std::string_view bytes) {
  for (const char c : bytes) {
    if (std::exchange(after_return_, c == '\r') && c == '\n') continue; // a line ends with \n, \r or both
    if (c == '\n' || c == '\r')
      take_line();
    else
      line_ += c;
    if (line_.size() + data_.size() > McpChannel::kMaxBytes) return false;
  }
  return true;
}

void EventStream::take_line() {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    if (has_data_ && is_message_) take_(std::move(data_));
    data_.clear();
    has_data_ = false, is_message_ = true;
    return;
  }
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = std::string_view(line).substr(0, colon);
  std::string_view value = std::string_view(line).substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") is_message_ = value == "message";
  if (field != "data") return;
  if (std::exchange(has_data_, true)) data_ += '\n';
  data_ += value;
}

HttpChannel::HttpChannel(std::string name, const McpServer& server)
    : name_(std::move(name)), url_(server.url), own_headers_(server.headers) {
  try {
    hub::origin_of(url_);
  } catch (const Error& error) {
    throw_error("{}: {}", name_, error.what());
  }
}

HttpChannel::~HttpChannel() {
  stop();
  if (session_.empty()) return;
  try {
    hub::RequestPolicy policy;
    policy.seconds = kLeaveSeconds;
    hub::Connection connection(policy);
    connection.ask(
        {.url = url_, .method = hub::Request::Method::remove, .headers = headers()},
        [](const hub::Head&) { return false; }, [](std::span<const char>) { return false; });
  } catch (const std::exception&) { // servers also expire sessions
  }
}

void HttpChannel::stop() {
  stopping_ = true;
  if (request_thread_.joinable()) request_thread_.join();
  stopping_ = false;
}

void HttpChannel::fail(std::string problem) {
  const std::scoped_lock lock(mutex_);
  if (problem_.empty()) problem_ = std::move(problem);
}

std::vector<std::string> HttpChannel::headers() const {
  std::vector<std::string> lines = {"Content-Type: application/json", "Accept: application/json, text/event-stream",
                                    "Expect:"}; // no question before a long body
  if (!version_.empty()) lines.push_back("MCP-Protocol-Version: " + version_);
  if (const std::scoped_lock lock(mutex_); !session_.empty()) lines.push_back("Mcp-Session-Id: " + session_);
  lines.insert(lines.end(), own_headers_.begin(), own_headers_.end());
  return lines;
}

void HttpChannel::send(std::string_view message, bool asks) {
  if (message.size() > kMaxBytes) throw_error("{}: the message to send is too long", name_);
  if (!asks) return post(std::string(message), false, kTellSeconds, nullptr);
  stop(); // of a request that was given up
  {
    const std::scoped_lock lock(mutex_);
    asking_ = true;
    received_.clear();
    problem_.clear(); // of a stream that broke behind its answer
  }
  request_thread_ = std::thread([this, text = std::string(message)] {
    post(text, true, kAskSeconds, &stopping_);
    const std::scoped_lock lock(mutex_);
    asking_ = false;
    changed_.notify_all();
  });
}

bool HttpChannel::has_session() const {
  const std::scoped_lock lock(mutex_);
  return !session_.empty();
}

// Notes the session. Returns why the answer cannot be used, or "".
std::string HttpChannel::take_head(const hub::Head& head) {
  const std::string session = head.header("mcp-session-id");
  if (session.empty()) return "";
  if (session.size() > kMaxSession || !std::ranges::all_of(session, [](char c) { return c > ' ' && c <= '~'; }))
    return "sent an invalid session id";
  const std::scoped_lock lock(mutex_);
  session_ = session;
  return "";
}

void HttpChannel::post(const std::string& message, bool asks, double seconds, const std::atomic<bool>* cancel) {
  const auto take = [&](std::string text) {
    const std::scoped_lock lock(mutex_);
    received_.push_back(std::move(text));
    changed_.notify_all();
  };
  int status = 0;
  std::string type, body, wrong;
  size_t all = 0;
  EventStream events(take);
  try {
    hub::RequestPolicy policy;
    policy.cancel = cancel;
    policy.seconds = seconds;
    hub::Connection connection(policy);
    const hub::Failure failure = connection.ask(
        {.url = url_, .method = hub::Request::Method::post, .body = message, .headers = headers()},
        [&](const hub::Head& head) {
          status = head.status;
          type = core::lower(head.header("content-type"));
          wrong = take_head(head);
          return wrong.empty();
        },
        [&](std::span<const char> bytes) {
          const std::string_view text(bytes.data(), bytes.size());
          all += text.size();
          const bool good = status >= 200 && status < 300;
          if (good && type.starts_with("text/event-stream")) {
            if (!events.add(text) || all > kMaxStreamBytes) wrong = "sent too much data";
          } else {
            body += text;
            if (good && body.size() > kMaxBytes) wrong = fmt::format("answered with more than {} MiB", kMaxBytes >> 20);
            if (!good && body.size() > kMaxProblem) return false;
          }
          return wrong.empty();
        });
    if (cancel && cancel->load()) return;
    if (!failure.reason.empty())
      wrong = fmt::format("cannot be reached at {}: {}", core::printable(url_, 200), failure.reason);
  } catch (const std::exception& error) {
    wrong = fmt::format("cannot be reached: {}", error.what());
  }
  if (wrong.empty() && (status < 200 || status >= 300)) {
    const std::string why = reason_in(body);
    wrong = status == kNotFound && has_session() ? "ended the session" : fmt::format("answered with status {}", status);
    if (!why.empty()) wrong += ": " + why;
    if (status == kNoToken || status == kForbidden) wrong += " (does it need a token?)";
    if (status == kNotAllowed) wrong += " (is this the address of an MCP server over streamable HTTP?)";
  }
  if (!wrong.empty()) return fail(std::move(wrong));
  if (!asks) return;
  if (type.starts_with("application/json") && !body.empty()) return take(std::move(body));
  if (status == kAccepted || !type.starts_with("text/event-stream"))
    fail(fmt::format("answered with status {} and no message", status));
}

McpChannel::Event HttpChannel::read(std::string& message, std::chrono::steady_clock::time_point deadline,
                                    const std::atomic<bool>* cancel) {
  std::unique_lock lock(mutex_);
  while (true) {
    const bool cancelled = cancel && cancel->load(); // first: messages may never cease
    if (cancelled || std::chrono::steady_clock::now() >= deadline) {
      lock.unlock();
      stop();
      return cancelled ? Event::cancelled : Event::late;
    }
    if (!received_.empty()) break;
    if (!problem_.empty() || !asking_) return Event::ended;
    changed_.wait_for(lock, kLookAt);
  }
  message = std::move(received_.front());
  received_.pop_front();
  return Event::message;
}

std::string HttpChannel::exit_summary() const {
  const std::scoped_lock lock(mutex_);
  return problem_.empty() ? "ended its response without a result" : problem_;
}

} // namespace ridge::app
