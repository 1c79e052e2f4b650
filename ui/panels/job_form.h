// The form for new jobs.
#pragma once

#include "ui/dialogs/file_dialog.h"
#include "ui/panels/panel.h"

#include <string>
#include <string_view>

namespace ridge::ui {

class JobForm {
 public:
  void draw(const View& view);
  // Once a frame, outside other windows.
  void draw_dialog(const View& view) { dialog_.draw(view.now); }

  bool show(std::string_view kind); // selects a kind of job; false: unknown
  void show_conversion(const std::string& folder);
  // Fills in a point of an explored frontier.
  void show_quantization(const api::QuantizeRequest& explored, const api::FrontierPoint& point);

 private:
  // A path that is suggested until the user changes it.
  struct OutputPath {
    std::string path;
    bool chosen = false;
  };

  api::JobKind kind() const { return static_cast<api::JobKind>(kind_); }
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
  api::JobRequest request(const View& view) const;

  int kind_ = static_cast<int>(api::JobKind::quantize);
  enum Types { by_recipe, by_size, explore };
  int conversion_ = 0, method_ = 0, types_ = by_recipe;
  std::string model_; // empty: the open model
  api::ConvertRequest convert_;
  api::QuantizeRequest quantize_{.type = "Q4_K_M"};
  api::BenchRequest bench_;
  OutputPath converted_, quantized_;
  std::string missing_; // what the job still needs; empty: nothing
  FileDialog dialog_;
};

} // namespace ridge::ui
