// How long frames take to draw, how much of a core drawing takes, and how much is drawn: what --frame-times reports.
// Where OpenGL rasterizes in software, its threads are told apart from the thread that draws: a GPU does their work
// elsewhere.
#pragma once

#include <string>
#include <vector>

namespace ridge::ui {

class FrameTimes {
 public:
  // To be called around everything that draws a frame, its way to the screen included.
  void begin();
  // `writing`: whether the model wrote meanwhile. `vertices`: of all triangles of the frame.
  void end(bool writing, int vertices);

  struct Summary {
    size_t frames = 0;
    double median_seconds = 0, p99_seconds = 0;
    // What it would take on a machine with nothing else to do: by the thread that draws, and by all that draw.
    double median_own_seconds = 0, median_cpu_seconds = 0;
    double cpu_share = 0;  // of one core, in the time from the first to the last frame; by all that draw
    int most_vertices = 0; // of a frame
  };
  Summary while_writing() const { return summary(writing_); }
  Summary otherwise() const { return summary(other_); }
  std::string report() const; // a few lines

 private:
  struct Record {
    std::vector<double> seconds, own_seconds, cpu_seconds; // of each frame
    double wall = 0, cpu = 0;                              // from the end of the frame before to the end of each
    int most_vertices = 0;
  };
  struct CpuTime {
    double own = 0, all = 0; // seconds: of this thread, and with those in which Mesa rasterizes in software
  };
  static Summary summary(const Record& record);
  CpuTime cpu_now();

  Record writing_, other_;
  std::vector<std::string> rasterizers_; // what the kernel says of OpenGL's threads
  double began_ = 0, ended_ = 0;
  CpuTime cpu_;
};

} // namespace ridge::ui
