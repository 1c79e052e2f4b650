#include "ui/dialogs/file_dialog.h"

#include "core/strings/lower.h"
#include "core/units.h"
#include "ui/widgets/picture_paths.h"
#include "ui/widgets/places.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

namespace ridge::ui {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxEntries = 5000;

bool begins_with(const std::string& text, const std::string& part) {
  return core::lower(text).starts_with(core::lower(part));
}
bool holds(const std::string& text, const std::string& part) {
  return core::lower(text).find(core::lower(part)) != std::string::npos;
}

// A double slash, a tilde after a slash or an address starts a new path, so that the old one need not be deleted.
std::string restarted(const std::string& text) {
  for (const char* address : {"hf:", "https:", "http:"}) {
    if (text.starts_with(address)) return text;
    if (const size_t at = text.rfind(std::string("/") + address); at != std::string::npos) return text.substr(at + 1);
  }
  const size_t root = text.rfind("//"), home = text.rfind("/~");
  const size_t at = std::max(root == std::string::npos ? 0 : root, home == std::string::npos ? 0 : home);
  return root == std::string::npos && home == std::string::npos ? text : text.substr(at + 1);
}

std::string with_home(const std::string& text) {
  const char* home = std::getenv("HOME");
  return home && (text == "~" || text.starts_with("~/")) ? home + text.substr(1) : text;
}

std::string folder_part(const std::string& text) {
  const size_t slash = text.rfind('/');
  return slash == std::string::npos ? "" : slash == 0 ? "/" : text.substr(0, slash);
}
std::string name_part(const std::string& text) {
  const size_t slash = text.rfind('/');
  return slash == std::string::npos ? text : text.substr(slash + 1);
}

// Names that are not UTF-8 cannot be shown.
bool is_shown_name(const std::string& name) {
  return std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 32; });
}

std::string describe(const api::ModelRow& row) {
  std::string text = core::human_bytes(static_cast<double>(row.bytes));
  if (!row.architecture.empty()) text = fmt::format("{} {} · {}", row.architecture, row.type, text);
  if (!row.problem.empty()) return text + (row.trained_context > 0 ? " · too large" : " · not supported");
  if (row.context > 0) text += fmt::format(" · up to {} tokens", row.context);
  if (row.tokens_per_s > 0) text += fmt::format(", {:.0f} tok/s", row.tokens_per_s);
  return text;
}

} // namespace

bool FileDialog::is_address(const std::string& text) {
  return text.starts_with("hf:") || text.starts_with("https://") || text.starts_with("http://");
}

bool FileDialog::is_checkpoint(const std::string& folder) {
  std::error_code ignored;
  const fs::path path = folder;
  return fs::exists(path / "config.json", ignored) && (fs::exists(path / "model.safetensors", ignored) ||
                                                       fs::exists(path / "model.safetensors.index.json", ignored));
}

std::vector<FileDialog::Entry> FileDialog::list(const std::string& folder, For what) {
  std::vector<Entry> entries;
  std::error_code problem;
  for (fs::directory_iterator each(folder, fs::directory_options::skip_permission_denied, problem), end;
       !problem && each != end && entries.size() < kMaxEntries; each.increment(problem)) {
    std::error_code ignored;
    Entry entry{each->path().filename().string(), each->path().string()};
    if (!is_shown_name(entry.name)) continue;
    entry.folder = each->is_directory(ignored);
    if (entry.folder) {
      entry.checkpoint =
          (what == For::model || what == For::open || what == For::checkpoint) && is_checkpoint(entry.path);
    } else {
      if (what == For::checkpoint || !each->is_regular_file(ignored)) continue;
      if ((what == For::model || what == For::open || what == For::save) && !core::lower(entry.name).ends_with(".gguf"))
        continue;
      if (what == For::picture && !is_picture_name(entry.name)) continue;
      entry.bytes = static_cast<int64_t>(each->file_size(ignored));
    }
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return a.folder != b.folder ? a.folder : core::lower(a.name) < core::lower(b.name);
  });
  return entries;
}

void FileDialog::ask(For what, std::string heading, const std::string& start,
                     std::function<void(const std::string&)> taken) {
  what_ = what;
  heading_ = std::move(heading);
  taken_ = std::move(taken);
  problem_.clear();
  std::error_code ignored;
  const std::string begin = with_home(start);
  if (!begin.empty()) {
    const fs::path path = fs::absolute(begin, ignored);
    const bool folder = fs::is_directory(path, ignored);
    go_to(folder ? path.string() : path.parent_path().string());
    if (!folder && what == For::save) text_ = pending_text_ = path.string();
  } else {
    go_to(folder_.empty() ? fs::current_path(ignored).string() : folder_);
  }
  open_ = opening_ = true;
}

void FileDialog::go_to(std::string folder) {
  std::error_code problem;
  const fs::path clean = fs::weakly_canonical(folder, problem);
  if (!problem) folder = clean.string();
  text_ = pending_text_ = folder.ends_with('/') ? folder : folder + "/";
  focus_ = text_changed_ = true;
  chosen_ = -1;
}

void FileDialog::read_folder() {
  folder_ = folder_part(with_home(text_));
  std::error_code problem;
  fs::directory_iterator(folder_, problem);
  problem_ = problem && !folder_.empty() ? fmt::format("{}: {}", folder_, problem.message()) : "";
  all_ = list(folder_, what_);
}

void FileDialog::filter(const api::Snapshot& now) {
  const std::string name = name_part(text_);
  shown_.clear();
  models_ = now.models;
  if (name.empty() && (what_ == For::model || what_ == For::open))
    for (size_t i = 0; i < std::min<size_t>(now.recent.size(), 6); ++i) {
      Entry entry{name_part(now.recent[i]), now.recent[i]};
      entry.recent = true;
      shown_.push_back(std::move(entry));
    }
  if (what_ == For::open && models_)
    for (const api::ModelRow& row : *models_)
      if (holds(row.name, name)) {
        Entry entry{row.name, row.path};
        entry.known = true;
        entry.bytes = row.bytes;
        entry.detail = describe(row);
        shown_.push_back(std::move(entry));
      }
  for (const Entry& entry : all_)
    if (entry.name.starts_with('.') ? name.starts_with('.') && begins_with(entry.name, name)
                                    : what_ == For::save || holds(entry.name, name))
      shown_.push_back(entry);
  chosen_ = name.empty() || what_ == For::save || shown_.empty() ? -1 : 0;
}

// Completes the common prefix; enters a folder that is the only match.
std::string FileDialog::completed(const std::string& text) const {
  const std::string typed = name_part(text);
  std::string common;
  const Entry* only = nullptr;
  int matches = 0;
  for (const Entry& entry : all_) {
    if (!begins_with(entry.name, typed) || (typed.empty() && entry.name.starts_with('.'))) continue;
    only = &entry;
    if (++matches == 1) {
      common = entry.name;
    } else {
      const auto [end, _] = std::ranges::mismatch(common, entry.name);
      common.erase(end, common.end());
    }
  }
  if (matches == 0 || common.size() < typed.size()) return text;
  return text.substr(0, text.size() - typed.size()) + common + (matches == 1 && only->folder ? "/" : "");
}

bool FileDialog::accept() {
  std::error_code ignored;
  std::string path = with_home(text_);
  if (what_ == For::open && is_address(path)) {
    taken_(path);
    return true;
  }
  if (chosen_ >= 0 && chosen_ < static_cast<int>(shown_.size())) {
    const Entry entry = shown_[static_cast<size_t>(chosen_)];
    if (entry.folder && !entry.checkpoint) {
      go_to(entry.path);
      return false;
    }
    path = entry.path;
  }
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const bool folder = fs::is_directory(path, ignored);
  if (folder && (what_ == For::any || what_ == For::picture || what_ == For::save || !is_checkpoint(path))) {
    if (what_ == For::picture)
      problem_ = fmt::format("{}: a folder; choose an image or audio file in it", path);
    else if (what_ != For::save)
      problem_ = fmt::format("{}: a folder without a checkpoint; choose a file in it", path);
    if (path != folder_) go_to(path);
    return false;
  }
  if (!folder && what_ == For::checkpoint) {
    problem_ = fmt::format("{}: choose a folder with config.json and safetensors", path);
    return false;
  }
  if (what_ != For::save && !fs::exists(path, ignored)) {
    problem_ = fmt::format("{}: no such file", path);
    return false;
  }
  taken_(path);
  return true;
}

// Empty if a folder or an address is chosen.
std::string FileDialog::chosen_file() const {
  std::error_code ignored;
  const bool listed = chosen_ >= 0 && chosen_ < static_cast<int>(shown_.size());
  const std::string path = listed ? shown_[static_cast<size_t>(chosen_)].path : with_home(text_);
  return fs::is_regular_file(path, ignored) ? path : "";
}

void FileDialog::draw_entries(float entries_width) {
  ImGui::BeginChild("entries", {entries_width, -px(46)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(4), px(2)));
  const auto section = [](const Entry& entry) {
    return entry.recent ? "Recent files" : entry.known ? "On this machine" : "In this folder";
  };
  const char* last_section = "";
  for (int i = 0; i < static_cast<int>(shown_.size()); ++i) {
    const Entry entry = shown_[static_cast<size_t>(i)];
    if (section(entry) != last_section) {
      if (i > 0) ImGui::Dummy({0, px(6)});
      dim_text(section(entry));
    }
    last_section = section(entry);
    const float width = ImGui::GetContentRegionAvail().x;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::PushID(i);
    if (ImGui::Selectable("##entry", i == chosen_,
                          ImGuiSelectableFlags_AllowDoubleClick | ImGuiSelectableFlags_DontClosePopups,
                          {width, px(26)})) {
      chosen_ = i;
      if (what_ == For::save && !entry.folder) {
        text_ = pending_text_ = entry.path;
        focus_ = true;
      }
      if ((ImGui::IsMouseDoubleClicked(0) || (entry.folder && !entry.checkpoint)) && accept()) open_ = false;
    }
    ImGui::PopID();
    if (i == chosen_ && scroll_) ImGui::SetScrollHereY();
    if (ImGui::IsItemVisible()) {
      const Theme& t = theme();
      const float y = at.y + (px(26) - fonts().body->FontSize) / 2;
      const std::string name = shortened(entry.folder ? entry.name + "/" : entry.name, width - px(16), fonts().body);
      record_widget_position(entry.name, at, {at.x + width, at.y + px(26)});
      text_at({at.x + px(8), y}, name, entry.folder ? t.accent : t.text, fonts().body);
      const std::string right = entry.recent       ? folder_part(entry.path)
                                : entry.known      ? entry.detail
                                : entry.checkpoint ? "checkpoint"
                                : entry.folder     ? ""
                                                   : core::human_bytes(static_cast<double>(entry.bytes));
      const float room = width - size_of(entry.name, fonts().body).x - px(40);
      if (size_of(right, fonts().small).x < room)
        text_at({at.x + width - px(8), at.y + (px(26) - fonts().small->FontSize) / 2}, right, t.dim, fonts().small, 1);
    }
    if (static_cast<int>(shown_.size()) <= i) break; // accept() changed the list
  }
  if (shown_.empty())
    dim_text(
        what_ == For::open && is_address(text_)
            ? "Enter downloads it; from a repository Q4_K_M, the closest type, or the one named: hf:OWNER/REPO:Q8_0"
        : what_ == For::checkpoint ? "No folders here."
        : what_ == For::save       ? ""
                                   : "No matching files here.");
  scroll_ = false;
  ImGui::PopStyleVar();
  ImGui::EndChild();
}

void FileDialog::draw(const api::Snapshot& now) {
  if (!open_) return;
  if (opening_) ImGui::OpenPopup("##file dialog");
  opening_ = false;
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({screen.x / 2, screen.y / 2}, ImGuiCond_Always, {0.5f, 0.5f});
  const bool has_side = what_ == For::open && side_;
  const float side = has_side ? px(270) : 0;
  ImGui::SetNextWindowSize(
      {std::min(px(720) + side, screen.x - px(60)), std::min(px(560), screen.y - px(has_side ? 40 : 80))});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(px(20), px(16)));
  ImGui::PushStyleVar(ImGuiStyleVar_PopupBorderSize, 1);
  ImGui::PushStyleColor(ImGuiCol_PopupBg, theme().surface);
  if (ImGui::BeginPopupModal("##file dialog", nullptr,
                             ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                 ImGuiWindowFlags_NoSavedSettings)) {
    title(heading_);
    if (focus_) ImGui::SetKeyboardFocusHere();
    ImGui::SetNextItemWidth(-1);
    const std::string before = text_;
    // While active, ImGui's field has a separate buffer; text_ follows it and must not change here.
    const auto edited = [](ImGuiInputTextCallbackData* data) {
      FileDialog& self = *static_cast<FileDialog*>(data->UserData);
      if (data->EventFlag == ImGuiInputTextFlags_CallbackHistory) {
        const int step = data->EventKey == ImGuiKey_UpArrow ? -1 : 1, count = static_cast<int>(self.shown_.size());
        self.chosen_ = std::clamp(self.chosen_ + step, -1, count - 1);
        self.scroll_ = true;
        return 0;
      }
      const std::string typed(data->Buf, static_cast<size_t>(data->BufTextLen));
      const std::string wanted = data->EventFlag == ImGuiInputTextFlags_CallbackCompletion ? self.completed(typed)
                                 : self.focus_                                             ? self.pending_text_
                                                                                           : restarted(typed);
      const bool selected = self.focus_ && data->SelectionStart != data->SelectionEnd;
      self.focus_ = false;
      if (wanted == typed && !selected) return 0;
      data->DeleteChars(0, data->BufTextLen);
      data->InsertChars(0, wanted.c_str());
      data->CursorPos = data->SelectionStart = data->SelectionEnd = data->BufTextLen;
      return 0;
    };
    const bool enter = ImGui::InputText("##path", &text_,
                                        ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_CallbackCompletion |
                                            ImGuiInputTextFlags_CallbackHistory | ImGuiInputTextFlags_CallbackAlways,
                                        edited, this);
    if (text_ != before || text_changed_) {
      if (what_ == For::open && is_address(text_))
        problem_.clear();
      else if (folder_part(with_home(text_)) != folder_ || text_changed_)
        read_folder();
      filter(now);
      text_changed_ = false;
    } else if (what_ == For::open && models_ != now.models) {
      const int chosen = chosen_;
      filter(now);
      if (chosen < std::ssize(shown_)) chosen_ = chosen;
    }
    draw_entries(has_side ? -side - px(20) : 0);
    if (has_side) {
      ImGui::SameLine(0, px(20));
      ImGui::BeginChild("side", {side, -px(46)});
      side_(chosen_file());
      ImGui::EndChild();
    }
    const float y = ImGui::GetWindowHeight() - px(50);
    ImGui::SetCursorPosY(y + px(8));
    if (!problem_.empty()) {
      wrapped_text(problem_, theme().red, fonts().small, ImGui::GetWindowWidth() - px(270));
    } else {
      dim_text(what_ == For::open ? "Tab completes · arrows select · Enter opens · hf:OWNER/REPO downloads"
                                  : "Tab completes · arrows select · Enter opens");
    }
    ImGui::SetCursorPos({ImGui::GetWindowWidth() - px(20) - px(202), y});
    const bool cancel = plain_button("Cancel", {px(96), 0});
    ImGui::SameLine();
    const bool take = accent_button(what_ == For::save                        ? "Save here"
                                    : what_ == For::open && is_address(text_) ? "Download"
                                    : what_ == For::picture                   ? "Add"
                                                                              : "Open",
                                    {px(96), 0});
    if (cancel || ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape), false)) {
      open_ = false;
    } else if ((enter || take) && accept()) {
      open_ = false;
    } else if (enter && !focus_) {
      pending_text_ = text_;
      focus_ = true;
    }
    if (!open_) ImGui::CloseCurrentPopup();
    ImGui::EndPopup();
  }
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
}

} // namespace ridge::ui
