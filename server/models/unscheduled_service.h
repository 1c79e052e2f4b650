// A served model that evaluates texts on its requests' threads.
#pragma once

#include "server/json/reply.h"
#include "server/models/model_service.h"

#include <functional>
#include <mutex>
#include <string>

namespace ridge::server {

class UnscheduledService : public ModelService {
 public:
  void count_request();

  // A step is one text.
  engine::Scheduler::Counts counts() const override;
  void drain() override {}

 protected:
  using ModelService::ModelService;
  void count_step(int64_t tokens, double start);

 private:
  mutable std::mutex mutex_;
  engine::Scheduler::Counts counts_;
};

struct UnscheduledRequest {
  const char* route;
  std::string what;
  int64_t tokens;
  std::function<bool(Client&)> work; // false: the client has gone
  std::function<Json()> answer;
};

// Replies after the route has returned. The callbacks must keep their data and the service's Use alive.
void reply_unscheduled(UnscheduledService& service, UnscheduledRequest request, ErrorForm form, HttpResponse& response);

} // namespace ridge::server
