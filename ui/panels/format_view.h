// Formats side by side: what each makes of a tensor, and the mix of them that a whole model is to be written in.
#pragma once

#include "ui/panels/panel.h"
#include "ui/widgets/theme.h"

#include <string>
#include <vector>

namespace ridge::ui {

class FormatView {
 public:
  // Sets `format` where another one is chosen, and returns true then.
  bool draw(const View& view, const core::TensorStudy& study, std::string& format, ImVec2 size);

  // "blk.3.ffn_up.weight" -> "ffn_up": what tensors of all layers have in common.
  static std::string role_of(const std::string& tensor);

 private:
  struct Choice {
    std::string role, format; // role empty: all others
  };
  bool draw_scatter(const View& view, const core::TensorStudy& study, std::string& format);
  bool draw_table(const core::TensorStudy& study, std::string& format);
  static void draw_errors(const core::TensorStudy& study, const core::TensorStudy::Format& format);
  void draw_mix(const View& view, const core::TensorStudy& study, const core::TensorStudy::Format* format);
  void use(const std::string& role, const std::string& format);
  const std::string* chosen(const std::string& tensor) const;
  core::QuantizeRequest request(const core::ModelFacts& model) const;

  int measure_ = 0; // of the scatter: 0 SQNR, 1 RMSE
  std::vector<Choice> mix_;
  std::string output_;
  bool written_ = false; // the output's name was typed
};

} // namespace ridge::ui
