#include "app/report/bench_report.h"

#include "app/report/report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ridge::app {

using Json = nlohmann::ordered_json;

void print_pictures_markdown(const std::vector<measure::PictureRow>& rows) {
  for (const measure::PictureRow& r : rows) {
    const bool is_sound = r.sound_seconds > 0;
    const std::string size = is_sound ? fmt::format("{:.4g} seconds of audio", r.sound_seconds)
                                      : fmt::format("{} × {} pixels, {} patches", r.width, r.height, r.patches);
    fmt::print("{}{}: {}, {} tokens; {} on {}\n", &r == rows.data() ? "" : "\n", r.model, size, r.tokens, r.projector,
               r.backend);
    fmt::print("encoder       {:.4g} ms, {:.3g} TFLOP/s, {:.1f} % of the {:.3g} TFLOP/s measured ({})\n",
               1e3 * r.program_seconds, r.flops_per_second() / 1e12, 100 * r.flops_per_second() / r.peak.value,
               r.peak.value / 1e12, r.peak.name);
    if (is_sound)
      fmt::print("encoding      {:.4g} ms, from samples to embeddings; {:.4g} of real time\n", 1e3 * r.encoding_seconds,
                 r.real_time_factor());
    else
      fmt::print("encoding      {:.4g} ms, from pixels to embeddings\n", 1e3 * r.encoding_seconds);
    fmt::print("first token   {:.4g} ms; {}\n", 1e3 * r.first_token_seconds, r.device);
    for (const measure::StepProfile& profile : r.profiles) fmt::print("\nencoder: {}", profile_table(profile));
  }
}

void print_pictures_json(const std::vector<measure::PictureRow>& rows) {
  Json pictures = Json::array();
  for (const measure::PictureRow& r : rows) {
    pictures.push_back({{"model", r.model},
                        {"projector", r.projector},
                        {"backend", r.backend},
                        {"device", r.device},
                        {"width_pixels", r.width},
                        {"height_pixels", r.height},
                        {"sound_seconds", r.sound_seconds},
                        {"patches", r.patches},
                        {"tokens", r.tokens},
                        {"encoder_seconds", r.program_seconds},
                        {"encoding_seconds", r.encoding_seconds},
                        {"first_token_seconds", r.first_token_seconds},
                        {"flops", r.flops},
                        {"flops_per_second", r.flops_per_second()},
                        {"peak_flops_per_second_measured", r.peak.value},
                        {"peak_name", r.peak.name}});
    for (const measure::StepProfile& profile : r.profiles) pictures.back()["profiles"].push_back(profile_json(profile));
  }
  print_report("bench", {{"pictures", pictures}});
}

} // namespace ridge::app
