// Dialog for a file or folder: a path field with Tab completion and a list.
#pragma once

#include "api/snapshot.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ridge::ui {

class FileDialog {
 public:
  enum class For {
    model,      // a .gguf file or a checkpoint folder
    open,       // also a local model or an address: hf:OWNER/REPO, https://…
    checkpoint, // folder with config.json and safetensors
    picture,    // a picture or sound file
    any,
    save, // may be a new file
  };
  // draw() calls `taken`. `start`: file or folder; empty: the last one or the working directory.
  void ask(For what, std::string heading, const std::string& start, std::function<void(const std::string&)> taken);
  // Once a frame, outside other windows.
  void draw(const api::Snapshot& now);
  bool is_open() const { return open_; }
  // `side` is drawn beside the list of models; its path may be empty.
  void set_side(std::function<void(const std::string& path)> side) { side_ = std::move(side); }

  struct Entry {
    std::string name, path;
    bool folder = false, checkpoint = false, recent = false;
    bool known = false; // a local model, in any folder
    std::string detail; // about a known model
    int64_t bytes = 0;
  };
  // Folders first, by name. Empty if unreadable.
  static std::vector<Entry> list(const std::string& folder, For what);
  static bool is_checkpoint(const std::string& folder);
  static bool is_address(const std::string& text);

 private:
  void read_folder();
  void filter(const api::Snapshot& now);
  void go_to(std::string folder);
  bool accept(); // false: the dialog stays open
  void draw_entries(float width);
  std::string chosen_file() const;
  std::string completed(const std::string& text) const;

  For what_ = For::model;
  std::string heading_, text_, folder_, problem_;
  std::string pending_text_; // text for the field when it gets the focus
  std::function<void(const std::string&)> taken_, side_;
  std::vector<Entry> all_, shown_;
  std::shared_ptr<const std::vector<api::ModelRow>> models_; // from which shown_ was made
  int chosen_ = -1;
  bool open_ = false, opening_ = false, focus_ = false, scroll_ = false, text_changed_ = false;
};

} // namespace ridge::ui
