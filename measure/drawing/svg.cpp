#include "measure/drawing/svg.h"

#include <fmt/format.h>

#include <cmath>

namespace ridge::measure {

std::string svg_escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

Axis::Axis(double least, double most, double from, double to)
    : low(std::log10(least)), high(std::log10(most)), from(from), to(to) {}

double Axis::at(double value) const { return from + (std::log10(value) - low) / (high - low) * (to - from); }

std::vector<int> Axis::decades() const {
  std::vector<int> powers;
  for (int power = static_cast<int>(std::ceil(low)); power <= high; ++power) powers.push_back(power);
  return powers;
}

SvgPage::SvgPage(double width, double height) : width_(width), height_(height) {
  out_ = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
                     "font-family=\"Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif\">\n"
                     "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
                     width, height);
}

void SvgPage::text(double x, double y, std::string_view what, double size, const char* color, const char* anchor,
                   const char* weight) {
  out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\" "
                      "font-weight=\"{}\">{}</text>\n",
                      x, y, size, color, anchor, weight, svg_escaped(what));
}

void SvgPage::line(double x1, double y1, double x2, double y2, const char* color, double width, const char* dashes) {
  out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
                      "stroke-width=\"{}\"{}/>\n",
                      x1, y1, x2, y2, color, width,
                      *dashes ? fmt::format(" stroke-dasharray=\"{}\"", dashes) : std::string());
}

void SvgPage::upward_text(double x, double y, std::string_view what, double size, const char* color) {
  out_ += fmt::format("<g transform=\"rotate(-90 {:.0f} {:.1f})\">", x, y);
  text(x, y, what, size, color, "middle");
  out_ += "</g>\n";
}

void SvgPage::circle(double x, double y, double radius, const char* color, std::string_view title) {
  out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" fill-opacity=\"0.9\" "
                      "stroke=\"#ffffff\" stroke-width=\"0.8\">{}</circle>\n",
                      x, y, radius, color, title.empty() ? "" : fmt::format("<title>{}</title>", svg_escaped(title)));
}

std::string SvgPage::finish(std::string_view by) const {
  SvgPage signed_page = *this;
  signed_page.text(width_ - 16, height_ - 12, by, 11, kMuted, "end");
  return signed_page.out_ + "</svg>\n";
}

} // namespace ridge::measure
