// Only for http_server.cpp and http_connection.cpp. Both run on the thread of HttpServer::run() and share only Output
// with workers.
#pragma once

#include "server/http/http_server.h"
#include "server/http/workers.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace ridge::server {

// Only stop() and the workers use other threads.
class HttpServer::Network {
 public:
  using Tcp = boost::asio::ip::tcp;
  using Clock = std::chrono::steady_clock;

  Network(const std::string& host, int port, int64_t workers, const HttpLimits& limits, HttpHandlers handlers);
  ~Network();

  int port() const { return port_; }
  void run();
  void stop();

 private:
  class Connection;
  using Connections = std::list<std::shared_ptr<Connection>>;

  struct Listener {
    Tcp::acceptor acceptor;
    boost::asio::steady_timer pause;
  };

  void listen(const std::string& host, int port);
  void accept(Listener& listener);
  void admit(Tcp::socket socket);
  bool close_oldest_idle();
  void check_deadlines();
  void end_if_done();

  const HttpLimits limits_;
  const HttpHandlers handlers_;
  boost::asio::io_context context_{1};
  std::list<Listener> listeners_;
  boost::asio::steady_timer deadline_timer_{context_};
  std::array<char, 64 << 10> scratch_;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  Connections connections_;
  std::list<Connection*> idle_; // longest idle first
  std::unordered_map<std::string, int64_t> connections_of_;
  std::atomic<int64_t> waiting_bytes_ = 0;
  std::unique_ptr<Workers> workers_, quick_workers_; // destroyed first, while connections can still be written to
};

class HttpServer::Network::Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Network& network, Tcp::socket socket, std::string client);
  ~Connection();
  void start();
  void stop(); // as soon as the current answer is complete
  void close();
  void look_at_deadline(Clock::time_point now);

  Connections::iterator place;

 private:
  enum class State { idle, head, body, answering, lingering, closed };
  class Writer;
  struct Parser;

  void become_idle();
  void wait_for_bytes();
  void read();
  void end_of_input();
  void parse();
  bool take_head();
  void submit();
  void refuse(int status, const std::string& problem);
  void refuse(HttpResponse response);
  void linger();
  void answer(const std::function<void()>& parsed);
  void add_output(std::string bytes, bool last, bool whole);
  void send();
  void send_some();
  void end_response();
  void leave_idle();
  void count_body();
  void release_body();
  // An exception in a step (out of memory) closes the connection.
  template <typename Step>
  auto guarded(Step step) {
    return [self = this->shared_from_this(), step](const auto&... arguments) {
      if (self->state_ == State::closed) return;
      try {
        step(*self, arguments...);
      } catch (const std::exception&) {
        self->close();
      }
    };
  }

  // The worker adds bytes, the network sends them.
  struct Output {
    std::mutex mutex; // guards the next seven members
    std::condition_variable room;
    std::string bytes;
    bool last = false, whole = false; // last: no more bytes follow; whole: the response is complete
    bool scheduled = false;
    bool sending = false;
    bool broken = false;
    std::atomic<bool> left = false; // the client closed its side or is gone
    std::atomic<bool> failed = false;
  };

  Network& network_;
  Tcp::socket socket_;
  const int descriptor_;
  const std::string client_;
  State state_ = State::closed;
  std::optional<std::list<Connection*>::iterator> idle_place_;
  Clock::time_point deadline_ = Clock::time_point::max();
  // waits_: for bytes; sends_: bytes; ended_: the client closed its side
  bool waits_ = false, sends_ = false, ended_ = false;
  std::string input_; // not parsed yet
  std::unique_ptr<Parser> parser_;
  HttpRequest request_;
  bool keep_open_ = false, chunks_ = false, head_taken_ = false;
  size_t counted_bytes_ = 0; // of this body, within waiting_bytes_
  int64_t pipelined_ = 0, discarded_ = 0;
  Output output_;
  std::string sending_;
  size_t sent_ = 0;
  Clock::time_point last_deadline_; // for the whole response, against slow readers
};

} // namespace ridge::server
