#include "server/http/http_server.h"

#include "core/error.h"
#include "server/http/network.h"
#include "server/http/wire.h"

#include <boost/asio/post.hpp>

namespace ridge::server {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::chrono::milliseconds kDeadlineCheckInterval{100};
constexpr std::chrono::milliseconds kAcceptPause{50}; // while there are no free descriptors
constexpr int64_t kQuickWorkers = 2;

// The key for limits per client: an IPv4 address or an IPv6 /64 network, which belongs to one client.
std::string client_of(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  const auto bytes = address.to_v6().to_bytes();
  if (address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return {reinterpret_cast<const char*>(bytes.data()), 8};
}

} // namespace

HttpServer::Network::Network(const std::string& host, int port, int64_t workers, const HttpLimits& limits,
                             HttpHandlers handlers)
    : limits_(limits), handlers_(std::move(handlers)),
      workers_(std::make_unique<Workers>(workers, limits.parsed_bytes)),
      quick_workers_(std::make_unique<Workers>(kQuickWorkers, limits.parsed_bytes)) {
  listen(host, port);
}

HttpServer::Network::~Network() {
  for (const auto& connection : Connections(connections_)) connection->close();
}

void HttpServer::Network::listen(const std::string& host, int port) {
  ErrorCode error;
  const auto found = tcp::resolver(context_).resolve(host, std::to_string(port), tcp::resolver::passive, error);
  for (const auto& entry : found) {
    tcp::endpoint endpoint = entry.endpoint();
    if (port_ != 0) endpoint.port(static_cast<uint16_t>(port_)); // the same for all addresses
    tcp::acceptor acceptor(context_);
    const auto succeeds = [&] { return !error; };
    if ((acceptor.open(endpoint.protocol(), error), succeeds()) &&
        (acceptor.set_option(tcp::acceptor::reuse_address(true), error), succeeds()) &&
        (acceptor.bind(endpoint, error), succeeds()) &&
        (acceptor.listen(asio::socket_base::max_listen_connections, error), succeeds())) {
      acceptor.non_blocking(true);
      port_ = acceptor.local_endpoint().port();
      listeners_.push_back({std::move(acceptor), asio::steady_timer(context_)});
    }
  }
  if (listeners_.empty())
    throw_error("cannot listen on {} port {}: {} (change --host or --port)", host, port, error.message());
}

void HttpServer::Network::run() {
  for (Listener& listener : listeners_) accept(listener);
  check_deadlines();
  while (!context_.stopped()) try {
      context_.run();
    } catch (const std::exception&) { // out of memory; others continue
    }
  quick_workers_.reset(); // remaining jobs have no client
  workers_.reset();
}

void HttpServer::Network::stop() {
  asio::post(context_, [this] {
    stopping_ = true;
    listeners_.clear();
    for (const auto& connection : Connections(connections_)) connection->stop();
    end_if_done();
  });
}

void HttpServer::Network::end_if_done() {
  if (stopping_ && connections_.empty()) context_.stop();
}

void HttpServer::Network::accept(Listener& listener) {
  listener.acceptor.async_accept([this, &listener](const ErrorCode& error, tcp::socket socket) {
    if (stopping_) return;
    if (!error) {
      try {
        admit(std::move(socket));
      } catch (const std::exception&) {
      }
    } else if (error != asio::error::connection_aborted && !close_oldest_idle()) { // out of descriptors
      listener.pause.expires_after(kAcceptPause);
      listener.pause.async_wait([this, &listener](const ErrorCode&) {
        if (!stopping_) accept(listener);
      });
      return;
    }
    accept(listener);
  });
}

void HttpServer::Network::admit(tcp::socket socket) {
  ErrorCode error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return;
  const std::string client = client_of(remote.address());
  const bool too_many = connections_of_[client] >= limits_.connections_per_address;
  if (too_many || (std::ssize(connections_) >= limits_.connections && !close_oldest_idle())) {
    const HttpResponse refusal =
        handlers_.refuse({}, 503, too_many ? "this address has too many connections" : "too many connections");
    const std::string bytes = response_head(refusal, Framing::length, refusal.content.size(), false) + refusal.content;
    socket.non_blocking(true, error);
    socket.send(asio::buffer(bytes), 0, error);
    if (connections_of_[client] == 0) connections_of_.erase(client);
    return;
  }
  socket.set_option(tcp::no_delay(true), error);
  socket.non_blocking(true, error);
  const auto connection = std::make_shared<Connection>(*this, std::move(socket), client);
  ++connections_of_[client];
  connections_.push_front(connection);
  connection->place = connections_.begin();
  connection->start();
}

bool HttpServer::Network::close_oldest_idle() {
  if (idle_.empty()) return false;
  idle_.front()->close();
  return true;
}

void HttpServer::Network::check_deadlines() {
  deadline_timer_.expires_after(kDeadlineCheckInterval);
  deadline_timer_.async_wait([this](const ErrorCode& error) {
    if (error) return;
    const Clock::time_point now = Clock::now();
    for (auto at = connections_.begin(); at != connections_.end();) {
      const std::shared_ptr<Connection> connection = *at++; // it may leave the list
      try {
        connection->look_at_deadline(now);
      } catch (const std::exception&) {
        connection->close();
      }
    }
    check_deadlines();
  });
}

HttpServer::HttpServer(const std::string& host, int port, int64_t workers, const HttpLimits& limits,
                       HttpHandlers handlers)
    : network_(std::make_unique<Network>(host, port, workers, limits, std::move(handlers))) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return network_->port(); }
void HttpServer::run() { network_->run(); }
void HttpServer::stop() { network_->stop(); }

} // namespace ridge::server
