// The form that a job is started with: one set of fields for each kind of request.
#pragma once

#include "ui/dialogs/file_dialog.h"
#include "ui/panels/panel.h"

#include <string>
#include <string_view>

namespace ridge::ui {

class JobForm {
 public:
  // Sends intent::StartJob where the button is pressed.
  void draw(const View& view);
  // Once a frame, outside other windows: the dialog that asks for a path.
  void draw_dialog(const View& view) { dialog_.draw(view.now); }

  bool show(std::string_view kind); // "convert", "quantize", "bench" or "roofline"; false: there is no such kind
  void show_conversion(const std::string& folder);
  // What was explored, to be written as a point of its frontier.
  void show_quantization(const core::QuantizeRequest& explored, const core::FrontierPoint& point);

 private:
  // The file that a job writes: suggested until a person types or chooses a name.
  struct OutputPath {
    std::string path;
    bool chosen = false;
  };

  core::JobKind kind() const { return static_cast<core::JobKind>(kind_); }
  void draw_convert();
  void draw_quantize(const View& view);
  void draw_types(const View& view);
  void draw_method();
  void draw_bench(const View& view);
  void draw_roofline(const View& view);
  void draw_output(OutputPath& output, const std::string& suggestion);
  void draw_start(const View& view);
  void draw_model_field(const View& view, FileDialog::For what, const char* heading);
  bool path_field(const char* id, std::string& path, const char* hint, FileDialog::For what, const char* heading,
                  bool* chosen = nullptr);
  void require(bool condition, const char* otherwise);
  std::string suggested_conversion() const;
  std::string suggested_quantization(const View& view) const;
  core::JobRequest request(const View& view) const;

  int kind_ = static_cast<int>(core::JobKind::quantize);
  enum Types { by_recipe, by_size, explore };
  int conversion_ = 0, method_ = 0, types_ = by_recipe; // choices of combo boxes and segments
  std::string model_;                                   // of all kinds but convert; empty: the open one
  core::ConvertRequest convert_;
  core::QuantizeRequest quantize_{.type = "Q4_K_M"};
  core::BenchRequest bench_;
  OutputPath converted_, quantized_;
  std::string missing_; // what keeps the job from starting; empty: nothing
  FileDialog dialog_;
};

} // namespace ridge::ui
