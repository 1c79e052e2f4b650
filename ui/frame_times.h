// Frame times, CPU use and vertex counts for --frame-times. Software OpenGL's threads are counted separately, since a
// GPU would do their work.
#pragma once

#include <string>
#include <vector>

namespace ridge::ui {

class FrameTimes {
 public:
  // Call before drawing a frame, and end() after the buffer swap.
  void begin();
  // `writing`: whether the model generates.
  void end(bool writing, int vertices);

  struct Summary {
    size_t frames = 0;
    double median_seconds = 0, p99_seconds = 0;
    // CPU time of the drawing thread, and of all threads that draw.
    double median_own_seconds = 0, median_cpu_seconds = 0;
    double cpu_share = 0; // of one core, by all threads that draw, from the first to the last frame
    int most_vertices = 0;
  };
  Summary while_writing() const { return summary(writing_); }
  Summary otherwise() const { return summary(other_); }
  std::string report() const;

 private:
  struct Record {
    std::vector<double> seconds, own_seconds, cpu_seconds;
    double wall = 0, cpu = 0; // between the ends of two frames
    int most_vertices = 0;
  };
  struct CpuTime {
    double own = 0, all = 0; // seconds: of this thread, and with Mesa's rasterizer threads
  };
  static Summary summary(const Record& record);
  CpuTime cpu_now();

  Record writing_, other_;
  std::vector<std::string> rasterizers_; // their schedstat files in /proc
  double began_ = 0, ended_ = 0;
  CpuTime cpu_;
};

} // namespace ridge::ui
