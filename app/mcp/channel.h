// What carries JSON-RPC messages to an MCP server and back.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::app {

class McpChannel {
 public:
  virtual ~McpChannel() = default;

  // `asks`: the message is a request, which has an answer. Throws Error above kMaxBytes.
  virtual void send(std::string_view message, bool asks) = 0;

  enum class Event : uint8_t { message, ended, late, cancelled };
  // The next message. `late`: none came before `deadline`. Throws Error above kMaxBytes.
  virtual Event read(std::string& message, std::chrono::steady_clock::time_point deadline,
                     const std::atomic<bool>* cancel) = 0;

  // How it ended, to follow the server's name: "ended with status 1: no such module".
  virtual std::string exit_summary() const = 0;

  // The version of the protocol on which client and server agreed.
  virtual void agree(const std::string& version) { static_cast<void>(version); }

  static constexpr size_t kMaxBytes = 16 << 20; // of a message
};

} // namespace ridge::app
