// The parts of the HTTP server, for its own two files: the network, which is all that belongs to no single connection
// (http_server.cpp), and its connections (http_connection.cpp). Both run on the thread of HttpServer::run(); what a
// connection shares with the worker that answers it is in Output.
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

// All that belongs to no single connection. Everything but stop() and the workers runs on the thread of run().
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
  void look_at_deadlines();
  void end_if_done();

  const HttpLimits limits_;
  const HttpHandlers handlers_;
  boost::asio::io_context context_{1};
  std::list<Listener> listeners_;
  boost::asio::steady_timer glance_{context_};
  std::array<char, 64 << 10> scratch_; // read at once, of one connection after the other
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  Connections connections_;
  std::list<Connection*> idle_;                             // the one that is idle for longest first
  std::unordered_map<std::string, int64_t> connections_of_; // by client
  std::atomic<int64_t> waiting_bytes_ = 0;
  std::unique_ptr<Workers> workers_, quick_workers_; // go first, while connections can still be written to
};

class HttpServer::Network::Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Network& network, Tcp::socket socket, std::string client);
  ~Connection();
  void start();
  void stop(); // as soon as what is being answered is answered
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
  // Runs a step of this connection on the thread of the network; what it throws (no memory) closes it.
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

  // What the worker adds and the network sends.
  struct Output {
    std::mutex mutex; // of the next seven
    std::condition_variable room;
    std::string bytes;
    bool last = false, whole = false; // all is there; and the response has its end
    bool scheduled = false;           // the network will look at it
    bool sending = false;             // the network has bytes that came before these
    bool broken = false;              // nothing can be sent any more
    std::atomic<bool> left = false;   // the client has ended its side, or cannot be reached
    std::atomic<bool> failed = false; // the worker had no memory for the response
  };

  Network& network_;
  Tcp::socket socket_;
  const int descriptor_; // the socket's
  const std::string client_;
  State state_ = State::closed;
  std::optional<std::list<Connection*>::iterator> idle_place_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool waits_ = false, sends_ = false, ended_ = false; // for bytes; bytes; the client's side
  std::string input_;                                  // not parsed yet
  std::unique_ptr<Parser> parser_;                     // of a request that has not come whole
  HttpRequest request_;
  bool keep_open_ = false, chunks_ = false, head_taken_ = false;
  size_t counted_bytes_ = 0; // of this request's body, in waiting_bytes_
  int64_t pipelined_ = 0, discarded_ = 0;
  Output output_;
  std::string sending_;
  size_t sent_ = 0;                 // of these bytes
  Clock::time_point last_deadline_; // for all of them, however steadily they are taken
};

} // namespace ridge::server
