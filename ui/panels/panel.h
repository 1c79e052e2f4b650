// A panel draws one view of the snapshot and sends intents. docs/window.md says how one is added.
#pragma once

#include "core/view/snapshot.h"
#include "ui/layout.h"
#include "ui/widgets/icons.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ridge::ui {

struct View {
  const core::Snapshot& now;
  const std::function<void(core::Intent)>& send;
  Layout& layout; // what is remembered
};

class Panel {
 public:
  virtual ~Panel() = default;
  // Fills the ImGui window that it is called in, once a frame.
  virtual void draw(const View& view) = 0;
  // Turns to a part of it that has a name ("quant/formats" on the command line); false: there is none.
  virtual bool show(std::string_view /*part*/) { return false; }
  // A folder was dropped or opened; true: this panel has a use for it and wants to be seen.
  virtual bool take_folder(const std::string& /*path*/) { return false; }
  // Something of it is open that Escape closes.
  virtual bool takes_escape() const { return false; }
};

struct PanelInfo {
  const char* name;  // "quant": on the command line
  const char* title; // "Quant lab"
  Icon icon;
  std::unique_ptr<Panel> (*make)();
  bool needs_model = true; // drawn only while one is open
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
