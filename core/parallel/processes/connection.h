// TCP between ranks. Received data is checked as if untrusted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace ridge::core {

class Connection {
 public:
  static constexpr uint32_t kMaxText = 4096; // bytes

  // Owns the socket. `peer` is for errors.
  Connection(int socket, std::string peer);
  ~Connection();
  Connection(const Connection&) = delete;

  // Someone else finds out why connections end, and calls close(why): before send and receive say that the peer is
  // gone, they wait up to `seconds` for that reason.
  void expect_reason(double seconds) { patience_ = std::chrono::duration<double>(seconds); }

  // Throw Error if the peer is gone.
  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> bytes);
  // False at the end of the stream. Throws Error if closed with a reason.
  bool wait();
  // Ends both sides' calls; thread-safe. `why`: the error of calls here, if not empty.
  void close(const std::string& why = {});
  int socket() const { return socket_; } // for poll

  template <typename T>
  void send_values(std::span<const T> values) {
    send(std::as_bytes(values));
  }
  template <typename T>
  void receive_values(std::span<T> values) {
    receive(std::as_writable_bytes(values));
  }
  template <typename T>
  void send_value(const T& value) {
    send_values(std::span<const T>(&value, 1));
  }
  template <typename T>
  T receive_value() {
    T value;
    receive_values(std::span<T>(&value, 1));
    return value;
  }
  void send_text(std::string_view text); // truncated to kMaxText
  std::string receive_text();

 private:
  [[noreturn]] void gone() const;

  const int socket_;
  const std::string peer_;
  std::chrono::duration<double> patience_{0};
  mutable std::mutex mutex_; // for the fields below
  mutable std::condition_variable changed_;
  bool closed_ = false;
  std::string why_;
};

} // namespace ridge::core
