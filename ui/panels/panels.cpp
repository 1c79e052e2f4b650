#include "ui/panels/panel.h"

namespace ridge::ui {

std::span<const PanelInfo> panels() {
  static constexpr PanelInfo kPanels[] = {
      {"chat", "Chat", Icon::chat, make_chat_panel},
      {"gauges", "Gauges", Icon::gauges, make_gauges_panel},
      {"roofline", "Roofline", Icon::roofline, make_roofline_panel},
      {"model", "Model", Icon::model, make_model_panel},
      {"quant", "Quant lab", Icon::quant, make_quant_panel},
      {"jobs", "Jobs", Icon::jobs, make_jobs_panel, false},
      {"server", "Server", Icon::server, make_server_panel},
      {"sequences", "Sequences", Icon::sequences, make_sequences_panel},
  };
  return kPanels;
}

} // namespace ridge::ui
