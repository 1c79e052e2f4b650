// A connection reads requests, has workers answer them and writes the responses. Only this file uses Boost.Beast (its
// parser).
#include "server/http/network.h"
#include "server/http/wire.h"

#include <boost/asio/post.hpp>
#include <boost/beast/http/parser.hpp>

#include <sys/socket.h>

namespace ridge::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kReadAhead = 64 << 10;                // of further requests
constexpr size_t kOutputBytes = 1 << 20;               // unsent output, beyond which the writer waits
constexpr size_t kSlowestBytesPerSecond = 4 << 10;     // average over a response
constexpr int64_t kDiscardedBytes = int64_t{16} << 20; // of a refused body, so that the client reads the response
constexpr std::chrono::seconds kLinger{2};

Clock::time_point after(HttpLimits::Seconds seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
}

// Grows with received bytes, regardless of the announced length.
struct GrowingBody {
  using value_type = std::string;
  struct reader {
    template <bool kRequest, typename Fields>
    reader(http::header<kRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<uint64_t>&, ErrorCode& error) { error = {}; }
    template <typename Buffers>
    size_t put(const Buffers& buffers, ErrorCode& error) {
      error = {};
      size_t added = 0;
      for (auto at = asio::buffer_sequence_begin(buffers); at != asio::buffer_sequence_end(buffers); ++at) {
        const asio::const_buffer bytes = *at;
        body_.append(static_cast<const char*>(bytes.data()), bytes.size());
        added += bytes.size();
      }
      return added;
    }
    void finish(ErrorCode& error) { error = {}; }
    value_type& body_;
  };
};
// Assignment would keep the memory while the connection is idle.
void free_memory(std::string& text) { std::string().swap(text); }

} // namespace

struct HttpServer::Network::Connection::Parser : http::request_parser<GrowingBody> {};

class HttpServer::Network::Connection::Writer final : public HttpSink {
 public:
  Writer(Connection& connection, HttpResponse& response, Framing framing)
      : connection_(connection), response_(response), framing_(framing) {}
  bool is_there() const override { return !connection_.output_.left; }
  void begin(int status) override {
    if (std::exchange(begun_, true)) return;
    response_.status = status;
    connection_.add_output(response_head(response_, framing_, 0, connection_.keep_open_), false, false);
  }
  bool write(std::string_view bytes) override {
    begin(response_.status);
    if (!bytes.empty() && connection_.request_.method != "HEAD")
      connection_.add_output(connection_.chunks_ ? chunk(bytes) : std::string(bytes), false, false);
    Output& output = connection_.output_;
    std::unique_lock lock(output.mutex);
    output.room.wait(lock, [&] { return output.broken || output.bytes.size() < kOutputBytes; });
    return !output.broken;
  }

 private:
  Connection& connection_;
  HttpResponse& response_;
  const Framing framing_;
  bool begun_ = false;
};

HttpServer::Network::Connection::Connection(Network& network, tcp::socket socket, std::string client)
    : network_(network), socket_(std::move(socket)), descriptor_(socket_.native_handle()), client_(std::move(client)) {}

HttpServer::Network::Connection::~Connection() = default;

void HttpServer::Network::Connection::start() {
  become_idle();
  wait_for_bytes();
}

void HttpServer::Network::Connection::stop() {
  if (state_ != State::answering) close();
}

void HttpServer::Network::Connection::close() {
  if (state_ == State::closed) return;
  const std::shared_ptr<Connection> self = shared_from_this();
  leave_idle();
  if (state_ != State::answering) release_body(); // otherwise the worker does
  state_ = State::closed;
  {
    const std::scoped_lock lock(output_.mutex);
    output_.left = output_.broken = true;
    free_memory(output_.bytes);
  }
  output_.room.notify_all();
  ErrorCode error;
  socket_.close(error);
  free_memory(input_);
  parser_.reset();
  if (--network_.connections_of_[client_] == 0) network_.connections_of_.erase(client_);
  network_.connections_.erase(place);
  network_.end_if_done();
}

void HttpServer::Network::Connection::look_at_deadline(Clock::time_point now) {
  if (now < deadline_ && !output_.failed) return;
  if (state_ == State::head || state_ == State::body)
    refuse(408, "the request did not arrive completely in time");
  else
    close();
}

void HttpServer::Network::Connection::become_idle() {
  state_ = State::idle;
  deadline_ = after(network_.limits_.idle_time);
  request_ = {};
  if (input_.empty()) free_memory(input_);
  network_.idle_.push_back(this);
  idle_place_ = std::prev(network_.idle_.end());
}

void HttpServer::Network::Connection::leave_idle() {
  if (idle_place_) network_.idle_.erase(*idle_place_);
  idle_place_.reset();
}

void HttpServer::Network::Connection::wait_for_bytes() {
  if (ended_ && state_ != State::answering) return close();
  if (waits_ || ended_) return;
  waits_ = true;
  socket_.async_wait(tcp::socket::wait_read, guarded([](Connection& self, const ErrorCode& error) {
                       self.waits_ = false;
                       error ? self.close() : self.read();
                     }));
}

void HttpServer::Network::Connection::read() {
  ErrorCode error;
  const size_t count = socket_.read_some(asio::buffer(network_.scratch_), error);
  if (error == asio::error::would_block) return wait_for_bytes();
  if (error == asio::error::eof) return end_of_input();
  if (error) return close();
  if (state_ == State::lingering) {
    discarded_ += static_cast<int64_t>(count);
    return discarded_ > kDiscardedBytes ? close() : wait_for_bytes();
  }
  input_.append(network_.scratch_.data(), count);
  if (state_ != State::answering) return parse();
  if (input_.size() < kReadAhead) wait_for_bytes();
}

// The client has probably gone, so generation stops. Finished output is still sent, as the client may have closed only
// its own side.
void HttpServer::Network::Connection::end_of_input() {
  ended_ = true;
  if (state_ == State::idle && !input_.empty()) return; // end_response() has posted parse() for requests sent ahead
  if (state_ != State::answering) return close();
  if (input_.empty()) output_.left = true;
}

void HttpServer::Network::Connection::parse() {
  const HttpLimits& limits = network_.limits_;
  if (state_ == State::idle) {
    leave_idle();
    if (input_.starts_with("\r\n")) input_.erase(0, 2); // old clients send it after a body
    state_ = State::head;
    deadline_ = after(limits.head_time);
    head_taken_ = false;
    parser_ = std::make_unique<Parser>();
    parser_->header_limit(static_cast<uint32_t>(limits.head_bytes));
    parser_->body_limit(static_cast<uint64_t>(limits.body_bytes));
  }
  while (!input_.empty()) {
    ErrorCode error;
    input_.erase(0, parser_->put(asio::buffer(input_), error));
    const bool needs_more = error == http::error::need_more;
    if (error == http::error::header_limit || (needs_more && std::ssize(input_) >= limits.head_bytes))
      return refuse(431, fmt::format("the headers have more than {} bytes", limits.head_bytes));
    if (error == http::error::body_limit)
      return refuse(413, fmt::format("the body has more than {} MiB", limits.body_bytes >> 20));
    if (error == http::error::bad_version) return refuse(505, "only HTTP/1.1 and HTTP/1.0 are supported");
    if (error && !needs_more) return refuse(400, fmt::format("the request is malformed: {}", error.message()));
    if (!head_taken_ && parser_->is_header_done() && !take_head()) return;
    if (head_taken_) count_body();
    if (network_.waiting_bytes_ > limits.waiting_bytes)
      return refuse(503, "too many requests with large bodies; try again later");
    if (parser_->is_done()) return submit();
    if (needs_more) break;
  }
  wait_for_bytes();
}

// False: refused.
bool HttpServer::Network::Connection::take_head() {
  head_taken_ = true;
  state_ = State::body;
  deadline_ = after(network_.limits_.body_time);
  const auto& message = parser_->get();
  request_.method = std::string(message.method_string());
  int64_t hosts = 0;
  for (const auto& field : message) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    hosts += field.name() == http::field::host;
  }
  chunks_ = message.version() == 11;
  keep_open_ = message.keep_alive();
  const auto refused = [&](int status, const std::string& problem) {
    refuse(status, problem);
    return false;
  };
  if (!take_target({message.target().data(), message.target().size()}, request_))
    return refused(400, "the request is malformed: its target is not a path");
  if (std::ssize(request_.headers) > network_.limits_.headers)
    return refused(431, fmt::format("the request has more than {} headers", network_.limits_.headers));
  if (hosts > 1 || (chunks_ && hosts == 0))
    return refused(400, "the request is malformed: expected exactly one Host header");
  if (std::optional<HttpResponse> refusal = network_.handlers_.check(request_)) {
    refuse(std::move(*refusal));
    return false;
  }
  if (chunks_ && !parser_->is_done() && request_.header("Expect"))
    add_output("HTTP/1.1 100 Continue\r\n\r\n", false, false);
  return true;
}

void HttpServer::Network::Connection::count_body() {
  const size_t size = parser_->get().body().size();
  network_.waiting_bytes_ += static_cast<int64_t>(size - counted_bytes_);
  counted_bytes_ = size;
}

void HttpServer::Network::Connection::release_body() {
  network_.waiting_bytes_ -= static_cast<int64_t>(std::exchange(counted_bytes_, 0));
}

void HttpServer::Network::Connection::submit() {
  state_ = State::answering;
  deadline_ = Clock::time_point::max();
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  pipelined_ = input_.empty() ? 0 : pipelined_ + 1;
  if (pipelined_ >= network_.limits_.pipelined) keep_open_ = false;
  Workers& workers = network_.handlers_.quick(request_) ? *network_.quick_workers_ : *network_.workers_;
  workers.submit({std::ssize(request_.body),
                  [self = shared_from_this()](const std::function<void()>& parsed) { self->answer(parsed); }});
  if (input_.size() < kReadAhead) wait_for_bytes();
}

void HttpServer::Network::Connection::refuse(int status, const std::string& problem) {
  HttpResponse response = network_.handlers_.refuse(request_, status, problem);
  response.close = true;
  refuse(std::move(response));
}

void HttpServer::Network::Connection::refuse(HttpResponse response) {
  if (response.close || !parser_ || !parser_->is_done()) keep_open_ = false; // the rest of the request is not read
  release_body();
  parser_.reset();
  state_ = State::answering;
  deadline_ = Clock::time_point::max();
  std::string bytes = response_head(response, Framing::length, response.content.size(), keep_open_);
  if (request_.method != "HEAD") bytes += response.content;
  add_output(std::move(bytes), true, true);
}

void HttpServer::Network::Connection::answer(const std::function<void()>& parsed) {
  HttpResponse response;
  const bool is_there = [&] {
    const std::scoped_lock lock(output_.mutex);
    return !output_.broken;
  }();
  request_.is_there = [this] { return !output_.left; };
  if (is_there) try {
      network_.handlers_.answer(request_, response);
    } catch (const std::exception&) {
      response = network_.handlers_.refuse(request_, 500, "internal error");
    }
  free_memory(request_.body);
  release_body();
  parsed();
  if (!is_there) return;
  keep_open_ = keep_open_ && !response.close && (chunks_ || !response.write) && !network_.stopping_;
  const Framing framing = !response.write ? Framing::length : chunks_ ? Framing::chunks : Framing::close;
  const bool has_content = request_.method != "HEAD";
  if (!response.write) {
    const std::string head = response_head(response, framing, response.content.size(), keep_open_);
    return add_output(has_content ? head + response.content : head, true, true);
  }
  bool whole = false;
  try {
    Writer writer(*this, response, framing);
    whole = response.write(writer);
    if (whole) writer.begin(response.status);
  } catch (const std::exception&) {
  }
  response.write = nullptr; // releases captures before the next request
  add_output(std::string(whole && chunks_ && has_content ? kLastChunk : ""), true, whole);
}

// Sends here what the socket takes at once, so tokens wake no other thread.
void HttpServer::Network::Connection::add_output(std::string bytes, bool last, bool whole) {
  const std::scoped_lock lock(output_.mutex); // close() locks it before it closes the descriptor
  if (output_.broken) return;
  if (!output_.scheduled && !output_.sending && !bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) bytes.erase(0, static_cast<size_t>(sent)); // the network thread handles errors
  }
  output_.bytes += bytes;
  output_.last = last;
  output_.whole = whole;
  if ((last || !output_.bytes.empty()) && !std::exchange(output_.scheduled, true))
    asio::post(network_.context_, guarded([](Connection& self) { self.send(); }));
}

void HttpServer::Network::Connection::send() {
  if (sends_) return;
  bool last = false;
  sending_.clear();
  {
    const std::scoped_lock lock(output_.mutex);
    output_.scheduled = false;
    sending_.swap(output_.bytes);
    output_.sending = !sending_.empty();
    last = output_.last;
  }
  output_.room.notify_all();
  if (sending_.empty()) {
    if (last) end_response();
    return;
  }
  sends_ = true;
  sent_ = 0;
  last_deadline_ = after(network_.limits_.write_time + HttpLimits::Seconds(sending_.size() / kSlowestBytesPerSecond));
  send_some();
}

void HttpServer::Network::Connection::send_some() {
  if (state_ == State::answering) deadline_ = std::min(last_deadline_, after(network_.limits_.write_time));
  socket_.async_write_some(asio::buffer(sending_) + sent_,
                           guarded([](Connection& self, const ErrorCode& error, size_t count) {
                             self.sent_ += count;
                             if (!error && self.sent_ < self.sending_.size()) return self.send_some();
                             self.sends_ = false;
                             if (error) return self.close();
                             if (self.state_ == State::answering) self.deadline_ = Clock::time_point::max();
                             self.send();
                           }));
}

void HttpServer::Network::Connection::end_response() {
  free_memory(sending_);
  const bool whole = [&] {
    const std::scoped_lock lock(output_.mutex);
    free_memory(output_.bytes);
    output_.last = false;
    return std::exchange(output_.whole, false);
  }();
  if (!whole) return close();
  if (network_.stopping_ && input_.empty()) return close();
  if (!keep_open_ || network_.stopping_) return linger();
  become_idle();
  if (input_.empty()) return wait_for_bytes();
  asio::post(network_.context_, guarded([](Connection& self) { // avoids nesting in the previous answer
               if (self.state_ == State::idle) self.parse();
             }));
}

// Closing a socket while its client sends could lose the response.
void HttpServer::Network::Connection::linger() {
  state_ = State::lingering;
  deadline_ = Clock::now() + kLinger;
  free_memory(input_);
  discarded_ = 0;
  ErrorCode error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  wait_for_bytes();
}

} // namespace ridge::server
