// An MCP server over HTTP: each message is a POST; answers are JSON or a stream of events.
#pragma once

#include "app/mcp/channel.h"
#include "app/mcp/server_list.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ridge::hub {
class Connection;
struct Head;
} // namespace ridge::hub

namespace ridge::app {

// Takes a stream of server-sent events apart.
class EventStream {
 public:
  explicit EventStream(std::function<void(std::string)> take) : take_(std::move(take)) {}
  // Hands on the data of each whole event. Returns false for one above McpChannel::kMaxBytes.
  bool add(std::string_view bytes);

 private:
  void take_line();

  const std::function<void(std::string)> take_;
  std::string line_, data_;
  bool has_data_ = false, after_return_ = false, is_message_ = true;
};

class HttpChannel : public McpChannel {
 public:
  // `name` begins messages. Throws Error without libcurl.
  HttpChannel(std::string name, const McpServer& server);
  // Ends the session.
  ~HttpChannel() override;
  HttpChannel(const HttpChannel&) = delete;
  HttpChannel& operator=(const HttpChannel&) = delete;

  // A request is sent by a thread, so that what the server asks meanwhile can be answered. Others are sent at once.
  void send(std::string_view message, bool asks) override;
  Event read(std::string& message, std::chrono::steady_clock::time_point deadline,
             const std::atomic<bool>* cancel) override;
  std::string exit_summary() const override;
  void agree(const std::string& version) override { version_ = version; }

 private:
  void post(const std::string& message, bool asks, double seconds, const std::atomic<bool>* cancel);
  std::vector<std::string> headers() const;
  bool has_session() const;
  std::string take_head(const hub::Head& head);
  void fail(std::string problem);
  void stop();

  const std::string name_, url_;
  const std::vector<std::string> own_headers_;
  std::string version_;
  std::thread request_thread_; // sends a request and reads its answer
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_; // of what follows
  std::condition_variable changed_;
  std::string session_;
  std::deque<std::string> received_;
  bool asking_ = false;
  std::string problem_; // empty: none
};

} // namespace ridge::app
