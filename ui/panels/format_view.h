// Compares formats on a tensor, and composes the mix for a model.
#pragma once

#include "ui/panels/panel.h"
#include "ui/widgets/theme.h"

#include <string>
#include <vector>

namespace ridge::ui {

class FormatView {
 public:
  // Returns true if `format` changed.
  bool draw(const View& view, const api::TensorStudy& study, std::string& format, ImVec2 size);

  // "blk.3.ffn_up.weight" -> "ffn_up".
  static std::string role_of(const std::string& tensor);

 private:
  struct Choice {
    std::string role, format; // empty: all others
  };
  bool draw_scatter(const View& view, const api::TensorStudy& study, std::string& format);
  bool draw_table(const api::TensorStudy& study, std::string& format);
  static void draw_errors(const api::TensorStudy& study, const api::TensorStudy::Format& format);
  void draw_mix(const View& view, const api::TensorStudy& study, const api::TensorStudy::Format* format);
  void use(const std::string& role, const std::string& format);
  const std::string* chosen(const std::string& tensor) const;
  api::QuantizeRequest request(const api::ModelFacts& model) const;

  int measure_ = 0; // 0 SQNR, 1 RMSE
  std::vector<Choice> mix_;
  std::string output_;
  bool written_ = false; // the user typed the output's name
};

} // namespace ridge::ui
