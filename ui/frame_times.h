// How long frames take to draw, and how much of a core drawing takes: what --frame-times reports.
#pragma once

#include <string>
#include <vector>

namespace ridge::ui {

class FrameTimes {
 public:
  // To be called around everything that draws a frame, its way to the screen included.
  void begin();
  void end(bool writing); // whether the model wrote meanwhile

  struct Summary {
    size_t frames = 0;
    double median_seconds = 0, p99_seconds = 0;
    double median_cpu_seconds = 0; // what it would take on a machine with nothing else to do
    double cpu_share = 0; // of one core, in the time from the first to the last frame; OpenGL's own threads included
  };
  Summary while_writing() const { return summary(writing_); }
  Summary otherwise() const { return summary(other_); }
  std::string report() const; // a few lines

 private:
  struct Record {
    std::vector<double> seconds, cpu_seconds; // of each frame
    double wall = 0, cpu = 0;                 // from the end of the frame before to the end of each
  };
  static Summary summary(const Record& record);
  double cpu_now();

  Record writing_, other_;
  std::vector<std::string> rasterizers_; // what the kernel says of OpenGL's threads
  double began_ = 0, ended_ = 0, cpu_ = 0;
};

} // namespace ridge::ui
