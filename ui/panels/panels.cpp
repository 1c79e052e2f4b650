#include "ui/panels/panel.h"

namespace ridge::ui {

std::span<const PanelInfo> panels() {
  static constexpr PanelInfo kPanels[] = {
      {"chat", "Chat", make_chat_panel},
      {"gauges", "Gauges", make_gauges_panel},
      {"roofline", "Roofline", make_roofline_panel},
      {"model", "Model", make_model_panel},
      {"quant", "Quant lab", make_quant_panel},
      {"jobs", "Jobs", make_jobs_panel, false},
      {"server", "Server", make_server_panel},
      {"sequences", "Sequences", make_sequences_panel},
  };
  return kPanels;
}

} // namespace ridge::ui
