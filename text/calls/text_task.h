// A coroutine that parses streamed text: it suspends until text arrives. Tasks nest with co_await.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace ridge::text {

template <typename T>
class TextTask {
 public:
  struct promise_type {
    std::optional<T> value;
    std::coroutine_handle<> caller = std::noop_coroutine();

    TextTask get_return_object() { return TextTask(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Return {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> done) noexcept {
        return done.promise().caller;
      }
      void await_resume() noexcept {}
    };
    Return final_suspend() noexcept { return {}; }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { throw; }
  };

  TextTask(TextTask&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  TextTask(const TextTask&) = delete;
  TextTask& operator=(const TextTask&) = delete;
  ~TextTask() {
    if (handle_) handle_.destroy();
  }

  std::coroutine_handle<> handle() const { return handle_; }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    handle_.promise().caller = caller;
    return handle_;
  }
  T await_resume() { return std::move(*handle_.promise().value); }

 private:
  explicit TextTask(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

} // namespace ridge::text
