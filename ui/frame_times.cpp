#include "ui/frame_times.h"

#include "core/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>

namespace ridge::ui {
namespace {

constexpr double kLongPause = 0.25; // a longer gap, in seconds, is idle time

} // namespace

FrameTimes::CpuTime FrameTimes::cpu_now() {
  if (ended_ == 0) {
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
      std::string name;
      std::ifstream(task.path() / "comm") >> name;
      if (name.find("llvmpipe") != std::string::npos) rasterizers_.push_back(task.path() / "schedstat");
    }
  }
  timespec own;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
  CpuTime time;
  time.own = time.all = static_cast<double>(own.tv_sec) + 1e-9 * static_cast<double>(own.tv_nsec);
  for (const std::string& path : rasterizers_) {
    double nanoseconds = 0;
    std::ifstream(path) >> nanoseconds;
    time.all += 1e-9 * nanoseconds;
  }
  return time;
}

void FrameTimes::begin() { began_ = core::seconds_now(); }

void FrameTimes::end(bool writing, int vertices) {
  const double at = core::seconds_now();
  const CpuTime cpu = cpu_now();
  Record& record = writing ? writing_ : other_;
  record.seconds.push_back(at - began_);
  record.most_vertices = std::max(record.most_vertices, vertices);
  if (ended_ > 0) {
    record.own_seconds.push_back(cpu.own - cpu_.own);
    record.cpu_seconds.push_back(cpu.all - cpu_.all);
  }
  if (ended_ > 0 && at - ended_ < kLongPause) {
    record.wall += at - ended_;
    record.cpu += cpu.all - cpu_.all;
  }
  ended_ = at;
  cpu_ = cpu;
}

FrameTimes::Summary FrameTimes::summary(const Record& record) {
  if (record.seconds.empty()) return {};
  const auto quantile = [](std::vector<double> sorted, double share) {
    if (sorted.empty()) return 0.0;
    std::ranges::sort(sorted);
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  return {record.seconds.size(),
          quantile(record.seconds, 0.5),
          quantile(record.seconds, 0.99),
          quantile(record.own_seconds, 0.5),
          quantile(record.cpu_seconds, 0.5),
          record.wall > 0 ? record.cpu / record.wall : 0,
          record.most_vertices};
}

std::string FrameTimes::report() const {
  std::string text;
  for (const auto& [name, s] :
       {std::pair("while an answer was generated", while_writing()), {"otherwise", otherwise()}})
    text += s.frames == 0
                ? fmt::format("{}: no frames\n", name)
                : fmt::format("{}: {} frames, median {:.1f} ms (CPU time {:.1f} ms, {:.1f} ms of it in ridge), 99th "
                              "percentile {:.1f} ms, drawing took {:.0f} % of a core, at most {} vertices\n",
                              name, s.frames, 1e3 * s.median_seconds, 1e3 * s.median_cpu_seconds,
                              1e3 * s.median_own_seconds, 1e3 * s.p99_seconds, 100 * s.cpu_share, s.most_vertices);
  return text;
}

} // namespace ridge::ui
