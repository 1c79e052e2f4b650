// Interface of panels. See docs/window.md.
#pragma once

#include "api/snapshot.h"
#include "ui/panels/layout.h"
#include "ui/widgets/icons.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ridge::ui {

struct View {
  const api::Snapshot& now;
  const std::function<void(api::Intent)>& send;
  Layout& layout; // persistent
};

class Panel {
 public:
  virtual ~Panel() = default;
  // Fills the current ImGui window, once a frame.
  virtual void draw(const View& view) = 0;
  // Shows a named part ("quant/formats"); returns false if it is unknown.
  virtual bool show(std::string_view /*part*/) { return false; }
  // Offers an opened or dropped folder. Returns true if the panel uses it and wants to be shown.
  virtual bool take_folder(const std::string& /*path*/) { return false; }
  // Whether Escape closes a part of the panel.
  virtual bool takes_escape() const { return false; }
};

struct PanelInfo {
  const char* name;  // command-line name: "quant"
  const char* title; // "Quant lab"
  Icon icon;
  std::unique_ptr<Panel> (*make)();
  bool needs_model = true; // hidden without a model
};
std::span<const PanelInfo> panels();

std::unique_ptr<Panel> make_chat_panel();
std::unique_ptr<Panel> make_gauges_panel();
std::unique_ptr<Panel> make_roofline_panel();
std::unique_ptr<Panel> make_model_panel();
std::unique_ptr<Panel> make_quant_panel();
std::unique_ptr<Panel> make_jobs_panel();
std::unique_ptr<Panel> make_server_panel();
std::unique_ptr<Panel> make_sequences_panel();

} // namespace ridge::ui
