#include "ui/panels/chat/chat_pictures.h"

#include "ui/widgets/places.h"
#include "ui/widgets/textures.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ridge::ui {
namespace {

namespace intent = api::intent;

constexpr float kUnsentHeight = 64, kUnsentWidth = 208, kUnsentPicture = 76; // units
constexpr float kSentHeight = 140, kSentWidest = 240;
constexpr float kLargestScale = 4; // for enlarging small pictures

const api::PictureFacts& facts_of(const api::Snapshot& now, const api::MessagePicture& picture) {
  static const api::PictureFacts kNothing;
  const auto known = now.picture_facts->find(picture.key);
  return known == now.picture_facts->end() ? kNothing : known->second;
}

std::string tokens_text(const api::PictureFacts& facts) {
  return facts.tokens > 0 ? fmt::format("{} tokens", facts.tokens) : "";
}

// "1024 × 768", or "12.3 seconds" for sounds.
std::string size_text(const api::PictureFacts& facts) {
  return facts.sound_seconds > 0 ? fmt::format("{:.1f} seconds", facts.sound_seconds)
                                 : fmt::format("{} × {}", facts.width, facts.height);
}

// "1024 × 768 pixels · 256 tokens · encoded in 1.3 s"
std::string description(const api::PictureFacts& facts) {
  std::string text = size_text(facts) + (facts.sound_seconds > 0 ? "" : " pixels");
  if (facts.tokens > 0) text += " · " + tokens_text(facts);
  if (facts.seconds > 0)
    text += " · encoded in " + (facts.seconds < 1 ? fmt::format("{:.0f} ms", 1000 * facts.seconds)
                                                  : fmt::format("{:.1f} s", facts.seconds));
  return text;
}

ImVec2 size_within(float width, float height, ImVec2 box, float largest_scale) {
  const float scale = std::min({box.x / width, box.y / height, largest_scale});
  return {std::max(1.0f, width * scale), std::max(1.0f, height * scale)};
}

void shortened_text_at(ImVec2 at, float width, const std::string& text, ImU32 color) {
  text_at(at, shortened(text, width, fonts().small), color, fonts().small);
}

} // namespace

float ChatPictures::unsent_height(const api::Snapshot& now) {
  return now.pictures.empty() ? 0 : px(kUnsentHeight) + px(16);
}

bool ChatPictures::draw_thumbnail(const View& view, const Picture& picture, ImVec2 box) {
  const api::PictureFacts& facts = facts_of(view.now, *picture);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const bool clicked = ImGui::InvisibleButton("picture", box);
  record_widget_position(picture->name);
  if (facts.small) {
    const ImVec2 size = size_within(static_cast<float>(facts.small->width), static_cast<float>(facts.small->height),
                                    box, kLargestScale);
    const ImVec2 from = {at.x + (box.x - size.x) / 2, at.y + (box.y - size.y) / 2};
    draw->AddImageRounded(texture_of(facts.small), from, {from.x + size.x, from.y + size.y}, {0, 0}, {1, 1}, ~0u,
                          px(6));
    const bool pointed_at = ImGui::IsItemHovered();
    if (pointed_at) ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
    draw->AddRect(from, {from.x + size.x, from.y + size.y}, pointed_at ? theme().accent : theme().border, px(6), 0,
                  px(pointed_at ? 1.5f : 1));
  } else {
    draw->AddRectFilled(at, {at.x + box.x, at.y + box.y}, mix(theme().raised, theme().dim, 0.2f), px(6));
    text_at({at.x + box.x / 2, at.y + (box.y - fonts().small->FontSize) / 2}, facts.problem.empty() ? "…" : "gone",
            theme().dim, fonts().small, 0.5f);
  }
  tooltip(facts.problem.empty() ? picture->name + (facts.small ? "\n" + description(facts) : "") : facts.problem);
  return clicked && facts.small;
}

void ChatPictures::draw_unsent(const View& view, float width) {
  ImGui::BeginChild("unsent", {width, unsent_height(view.now)}, false, ImGuiWindowFlags_HorizontalScrollbar);
  const api::MessagePictures pictures = view.now.pictures;
  for (size_t i = 0; i < pictures.size(); ++i) {
    if (i > 0) ImGui::SameLine(0, px(8));
    ImGui::PushID(pictures[i]->key.c_str());
    ImGui::BeginGroup();
    const api::PictureFacts& facts = facts_of(view.now, *pictures[i]);
    const ImVec2 at = ImGui::GetCursorScreenPos(), before = ImGui::GetCursorPos();
    ImGui::GetWindowDrawList()->AddRectFilled(at, {at.x + px(kUnsentWidth), at.y + px(kUnsentHeight)}, theme().raised,
                                              px(8));
    ImGui::SetCursorPos({before.x + px(4), before.y + px(4)});
    if (draw_thumbnail(view, pictures[i], {px(kUnsentPicture), px(kUnsentHeight - 8)})) enlarge(view, pictures[i]);
    const float left = at.x + px(kUnsentPicture + 12), room = px(kUnsentWidth - kUnsentPicture - 12 - 8);
    shortened_text_at({left, at.y + px(9)}, room - px(22), pictures[i]->name, theme().text);
    shortened_text_at({left, at.y + px(27)}, room, facts.width > 0 ? size_text(facts) : "", theme().dim);
    shortened_text_at({left, at.y + px(43)}, room, facts.tokens > 0 ? tokens_text(facts) : "counting…", theme().dim);
    ImGui::SetCursorPos({before.x + px(kUnsentWidth - 24), before.y + px(4)});
    if (quiet_button("×")) view.send(intent::RemovePicture{pictures[i]->key});
    tooltip("remove");
    ImGui::SetCursorPos(before);
    ImGui::Dummy({px(kUnsentWidth), px(kUnsentHeight)});
    ImGui::EndGroup();
    ImGui::PopID();
  }
  ImGui::EndChild();
}

void ChatPictures::draw_sent(const View& view, const api::MessagePictures& pictures, float column) {
  const float gap = px(8), start = ImGui::GetCursorPosX();
  const auto size_of_one = [&](const api::MessagePicture& picture) {
    const auto& small = facts_of(view.now, picture).small;
    if (!small) return ImVec2(px(kSentHeight), px(kSentHeight));
    return size_within(static_cast<float>(small->width), static_cast<float>(small->height),
                       {px(kSentWidest), px(kSentHeight)}, kLargestScale);
  };
  for (size_t first = 0, end = 0; first < pictures.size(); first = end) {
    ImVec2 row = {-gap, 0};
    for (; end < pictures.size(); ++end) {
      const ImVec2 size = size_of_one(*pictures[end]);
      if (end > first && row.x + gap + size.x > column) break;
      row = {row.x + gap + size.x, std::max(row.y, size.y)};
    }
    const float top = ImGui::GetCursorPosY();
    float x = start + column - row.x;
    for (size_t i = first; i < end; ++i) {
      const ImVec2 size = size_of_one(*pictures[i]);
      ImGui::SetCursorPos({x, top + row.y - size.y});
      ImGui::PushID(static_cast<int>(i));
      if (draw_thumbnail(view, pictures[i], size)) enlarge(view, pictures[i]);
      ImGui::PopID();
      x += size.x + gap;
    }
    ImGui::SetCursorPos({start, top + row.y});
    ImGui::Dummy({0, gap});
  }
}

float ChatPictures::draw_cost(const View& view, ImVec2 right) {
  const api::MessagePictures& pictures = view.now.pictures;
  if (pictures.empty()) return 0;
  int64_t tokens = 0, sounds = 0;
  bool all = true;
  for (const auto& picture : pictures) {
    const api::PictureFacts& facts = facts_of(view.now, *picture);
    tokens += facts.tokens;
    all &= facts.tokens > 0;
    sounds += facts.sound_seconds > 0 ? 1 : 0;
  }
  const auto counted = [](int64_t count, const char* name) {
    return fmt::format("{} {}{}", count, name, count == 1 ? "" : "s");
  };
  const int64_t shown = std::ssize(pictures) - sounds;
  std::string text = shown > 0 ? counted(shown, "image") : "";
  if (sounds > 0) text += (text.empty() ? "" : " · ") + counted(sounds, "sound");
  if (all) text += fmt::format(" · {} tokens", tokens);
  const bool fits = view.now.kv.tokens + tokens < view.now.kv.context;
  text_at(right, text, fits ? theme().dim : theme().red, fonts().small, 1);
  return size_of(text, fonts().small).x;
}

void ChatPictures::draw_button(const View& view) {
  if (quiet_button("add an image"))
    dialog_.ask(FileDialog::For::picture, "Add an image", "", [this](const std::string& path) { picked_ = path; });
  tooltip("Or drop images and audio files on the window, or paste them. JPEG, PNG, WebP, GIF, BMP, PPM; WAV, FLAC, "
          "MP3, Ogg.");
  ImGui::SameLine();
  const std::string& problem = view.now.no_microphone;
  ImGui::BeginDisabled(!problem.empty());
  quiet_button(view.now.listening ? "listening…###speak" : "hold to speak###speak");
  record_widget_position("speak");
  if (ImGui::IsItemActivated()) view.send(intent::Listen{true});
  if (ImGui::IsItemDeactivated()) view.send(intent::Listen{false});
  ImGui::EndDisabled();
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
    show_tooltip(problem.empty() ? "Records while the button is held; the recording is sent with the message."
                                 : problem);
}

void ChatPictures::draw_over(const View& view) {
  dialog_.draw(view.now);
  if (!picked_.empty()) view.send(intent::AddPicture{std::exchange(picked_, {})});
  draw_enlarged(view);
}

void ChatPictures::enlarge(const View& view, const Picture& picture) {
  enlarged_ = picture;
  opening_ = true;
  view.send(intent::EnlargePicture{picture->key});
}

// Shown until a click or Escape; the small version until decoding ends.
void ChatPictures::draw_enlarged(const View& view) {
  if (!enlarged_) return;
  constexpr const char* kName = "##enlarged picture";
  if (std::exchange(opening_, false)) ImGui::OpenPopup(kName);
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(screen);
  ImGui::PushStyleColor(ImGuiCol_PopupBg, with_alpha(theme().background, 0.94f));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  if (ImGui::BeginPopupModal(
          kName, nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings)) {
    const api::PictureFacts& facts = facts_of(view.now, *enlarged_);
    const auto& whole = view.now.enlarged;
    const auto pixels = whole && whole->key == enlarged_->key ? whole->pixels : facts.small;
    const float foot = px(44), margin = px(24);
    const ImVec2 box = {screen.x - 2 * margin, screen.y - foot - margin};
    if (pixels && facts.width > 0) {
      const ImVec2 size =
          size_within(static_cast<float>(facts.width), static_cast<float>(facts.height), box, kLargestScale);
      const ImVec2 from = {(screen.x - size.x) / 2, margin + (box.y - size.y) / 2};
      ImGui::GetWindowDrawList()->AddImage(texture_of(pixels), from, {from.x + size.x, from.y + size.y});
    }
    text_at({screen.x / 2, screen.y - foot + px(14)}, fmt::format("{} · {}", enlarged_->name, description(facts)),
            theme().text, fonts().body, 0.5f);
    const bool closes = ImGui::IsMouseClicked(0) || ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape), false);
    if (closes && !ImGui::IsWindowAppearing()) {
      enlarged_.reset();
      view.send(intent::EnlargePicture{});
      ImGui::CloseCurrentPopup();
    }
    ImGui::EndPopup();
  }
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
}

} // namespace ridge::ui
