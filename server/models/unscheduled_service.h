// A served model whose texts are evaluated on the threads of their requests, without a scheduler.
#pragma once

#include "server/models/model_service.h"
#include "server/reply.h"

#include <functional>
#include <mutex>
#include <string>

namespace ridge::server {

class UnscheduledService : public ModelService {
 public:
  void count_request(); // that has all its results

  // A step is a text, or what is evaluated as one.
  engine::Scheduler::Counts counts() const override;
  void drain() override {} // requests end on their own threads

 protected:
  using ModelService::ModelService;
  void count_step(int64_t tokens, double start); // that began at `start` (core::seconds_now)

 private:
  mutable std::mutex mutex_;
  engine::Scheduler::Counts counts_;
};

struct UnscheduledRequest {
  const char* route;
  std::string what; // "3 texts", for the log
  int64_t tokens;
  std::function<bool(Client&)> work; // false: the client has gone, which ends the work
  std::function<Json()> answer;      // behind the work
};

// Answers after the route has returned. The request's functions keep what they need, and the service in use.
void reply_unscheduled(UnscheduledService& service, UnscheduledRequest request, ErrorForm form, HttpResponse& response);

} // namespace ridge::server
