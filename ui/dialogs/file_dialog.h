// Asks for a file or folder: a path to type, completed by Tab, above what is there to choose from. Arrows choose, Enter
// takes, Escape leaves.
#pragma once

#include "core/view/snapshot.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ridge::ui {

class FileDialog {
 public:
  enum class For {
    model,      // a .gguf file, or the folder of a checkpoint
    open,       // the same, a model on this machine, or the address of one: hf:OWNER/REPO, https://…
    checkpoint, // a folder that holds config.json and safetensors
    picture,    // a JPEG, PNG, WebP or PPM file
    any,        // a file
    save,       // a file that need not be there
  };
  // Opens the dialog; taken(path) is called from draw(). `start`: a file or folder to begin at, empty: where it was
  // last, or the working directory.
  void ask(For what, std::string heading, const std::string& start, std::function<void(const std::string&)> taken);
  // Once a frame, outside other windows. Offers recent files beside the folder, and where a model is wanted those that
  // lie on this machine.
  void draw(const core::Snapshot& now);
  bool is_open() const { return open_; }
  // What is drawn at the side of a list of models to open: side(path), empty where no file is chosen.
  void set_side(std::function<void(const std::string& path)> side) { side_ = std::move(side); }

  struct Entry {
    std::string name, path;
    bool folder = false, checkpoint = false, recent = false;
    bool known = false; // a model on this machine, wherever it lies
    std::string detail; // of such a one: what it is and how it would run
    int64_t bytes = 0;
  };
  // What a folder holds of use for `what`, folders first, by name. Empty where it cannot be read.
  static std::vector<Entry> list(const std::string& folder, For what);
  static bool is_checkpoint(const std::string& folder);
  static bool is_address(const std::string& text); // of a model that is to be downloaded

 private:
  void read_folder();
  void filter(const core::Snapshot& now);
  void go_to(std::string folder);
  bool accept(); // false: the dialog stays
  void draw_entries(float width);
  std::string chosen_file() const;
  std::string completed(const std::string& text) const;

  For what_ = For::model;
  std::string heading_, text_, folder_, problem_;
  std::string put_in_; // what the field is to hold when it has the focus
  std::function<void(const std::string&)> taken_, side_;
  std::vector<Entry> all_, shown_;
  std::shared_ptr<const std::vector<core::ModelRow>> models_; // of which shown_ was made
  int chosen_ = -1;                                           // of shown_
  bool open_ = false, opening_ = false, focus_ = false, scroll_ = false, text_changed_ = false;
};

} // namespace ridge::ui
