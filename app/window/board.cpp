#include "app/window/board.h"

#include "app/window_words.h"
#include "core/error.h"
#include "kernels/cuda/executor/executor.h"

#include <fmt/format.h>

#include <new>

namespace ridge::app {
namespace {

constexpr auto kPublishInterval = std::chrono::milliseconds(10);

} // namespace

std::shared_ptr<const api::Snapshot> Board::snapshot() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

void Board::change(const std::function<void(api::Snapshot&)>& how, Publish when) {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    how(state_);
    if (when == Publish::soon && now - published_at_ < kPublishInterval) return;
    published_ = std::make_shared<api::Snapshot>(state_);
    published_at_ = now;
  }
  wake_();
}

void Board::fail(const std::string& error) {
  change([&](api::Snapshot& s) {
    s.error = in_window_words(error);
    ++s.error_number;
  });
}

void Board::tell(const std::string& notice) {
  constexpr size_t kKept = 8;
  change([&](api::Snapshot& s) {
    if (s.notices.size() == kKept) s.notices.erase(s.notices.begin());
    s.notices.push_back(in_window_words(notice));
    ++s.notice_number;
  });
}

void Board::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    fail("out of memory");
  } catch (const kernels::cuda::DeviceFailed& error) {
    change([](api::Snapshot& s) { s.gpu_failed = true; });
    fail(error.what());
  } catch (const Error& error) {
    fail(error.what());
  } catch (const std::exception& error) { // a bug, but the conversation must survive
    fail(fmt::format("internal error, please report it: {}", error.what()));
  }
}

} // namespace ridge::app
