// Bytes between two ranks that are processes, over TCP. What arrives is from the same program, but is checked as if it
// were not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::core {

class Connection {
 public:
  // Takes over an open socket. `peer` names the other side in errors: "rank 1".
  Connection(int socket, std::string peer);
  ~Connection();
  Connection(const Connection&) = delete;

  void name(std::string peer) { peer_ = std::move(peer); }

  // Throw Error where the other side is gone.
  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> bytes);
  // False at the end of the other side.
  bool wait();
  void close(); // both sides' calls end; may come from another thread

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
  void send_text(std::string_view text); // up to 4,096 bytes of it
  std::string receive_text();

 private:
  [[noreturn]] void gone() const;

  const int socket_;
  std::string peer_;
};

// What a process of several is told by its environment.
struct ProcessRank {
  int rank = 0, ranks = 1, local_rank = 0; // local: among those of this machine
  std::string host = "127.0.0.1";          // of rank 0
  int port = 29501;                        // where it listens
  double patience_seconds = 60;            // with ranks that have not come

  // RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (one below `port`) as torchrun sets them, or Open MPI's
  // names for the first three; RIDGE_RANK_TIMEOUT in seconds. Throws a usage Error for what is no rank or no port.
  static ProcessRank from_environment();
};

// Connections of rank 0 to each of the others (by rank; of itself null), or of another rank to rank 0 (alone). Two of
// each: for commands and for values. `what` says what all ranks must have alike. Throws Error that names the ranks that
// are missing, or what differs.
struct ProcessLinks {
  std::vector<std::unique_ptr<Connection>> commands, values;
};
ProcessLinks join_processes(const ProcessRank& me, const std::string& what);

} // namespace ridge::core
