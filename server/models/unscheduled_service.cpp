#include "server/models/unscheduled_service.h"

#include "core/clock.h"

#include <fmt/format.h>

#include <utility>

namespace ridge::server {

void UnscheduledService::count_step(int64_t tokens, double start) {
  const std::scoped_lock lock(mutex_);
  ++counts_.steps;
  counts_.prompt_tokens += tokens;
  counts_.seconds += core::seconds_now() - start;
}

void UnscheduledService::count_request() {
  const std::scoped_lock lock(mutex_);
  ++counts_.ended;
}

engine::Scheduler::Counts UnscheduledService::counts() const {
  const std::scoped_lock lock(mutex_);
  engine::Scheduler::Counts counts = counts_;
  counts.running = users();
  return counts;
}

void reply_unscheduled(UnscheduledService& service, UnscheduledRequest request, ErrorForm form,
                       HttpResponse& response) {
  reply_later(response, Stream::none, form, [&service, request = std::move(request)](Client& client) {
    RequestList::Running running(service.requests(), request.route, request.tokens);
    const double start = core::seconds_now();
    bool whole = false;
    try {
      whole = request.work(client);
    } catch (const std::exception& error) {
      running.end(error.what());
      service.count_failure();
      throw;
    }
    if (whole) running.end("");
    if (whole) client.line(request.answer());
    service.log(whole ? fmt::format("{}: {}, {} tokens, {:.2f} s", request.route, request.what, request.tokens,
                                    core::seconds_now() - start)
                      : fmt::format("{}: the client disconnected", request.route));
  });
}

} // namespace ridge::server
