// Minimal SVG writer; sizes in pixels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::measure {

inline constexpr const char* kInk = "#1f2933";
inline constexpr const char* kFaint = "#e4e7eb";
inline constexpr const char* kMuted = "#7b8794";

std::string svg_escaped(std::string_view text);

struct Axis {
  double low, high; // log10
  double from, to;

  Axis(double least, double most, double from, double to);
  double at(double value) const;
  std::vector<int> decades() const; // powers of ten
};

class SvgPage {
 public:
  SvgPage(double width, double height);

  void text(double x, double y, std::string_view what, double size, const char* color, const char* anchor = "start",
            const char* weight = "400");
  void line(double x1, double y1, double x2, double y2, const char* color, double width, const char* dashes = "");
  // Rotated.
  void upward_text(double x, double y, std::string_view what, double size, const char* color);
  void circle(double x, double y, double radius, const char* color, std::string_view title = "");
  void add(std::string_view elements) { out_ += elements; }
  // `by`: in the lower right corner.
  std::string finish(std::string_view by) const;

 private:
  double width_, height_;
  std::string out_;
};

} // namespace ridge::measure
