#include "ui/widgets/theme.h"

#include "ui/widgets/glyphs.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string>

namespace ridge::ui {
namespace {

constexpr ImU32 rgb(unsigned hex) { return IM_COL32(hex >> 16 & 255, hex >> 8 & 255, hex & 255, 255); }

constexpr Theme kDark = {rgb(0x14161a),
                         rgb(0x1b1e24),
                         rgb(0x272b33),
                         rgb(0x353a45),
                         rgb(0xe8eaee),
                         rgb(0xa0a7b4),
                         rgb(0x5cb3f0),
                         rgb(0x0c1116),
                         rgb(0xf0625a),
                         rgb(0x5fc38f),
                         rgb(0xe8b04a),
                         rgb(0xc99bf0),
                         rgb(0x8fd0a5),
                         rgb(0xf0b078),
                         {rgb(0x2f6f9f), rgb(0x9a5b2b), rgb(0x3f7f57), rgb(0x7d4f9c), rgb(0x8d7a24), rgb(0xa04560),
                          rgb(0x2c7d80), rgb(0x5a6470)}};
constexpr Theme kLight = {rgb(0xf3f4f7),
                          rgb(0xffffff),
                          rgb(0xe9ecf1),
                          rgb(0xcfd5de),
                          rgb(0x1a1e25),
                          rgb(0x525c69),
                          rgb(0x1a6fb8),
                          rgb(0xffffff),
                          rgb(0xc93a32),
                          rgb(0x1f8a54),
                          rgb(0xa86a00),
                          rgb(0x7a2fb0),
                          rgb(0x1b6e42),
                          rgb(0x9a4a00),
                          {rgb(0x9fcbee), rgb(0xf2c193), rgb(0xa9d9b9), rgb(0xd5b8e8), rgb(0xe6d98a), rgb(0xf0b3c2),
                           rgb(0x9cd8da), rgb(0xc6ccd4)}};

const Theme* current = &kDark;
Fonts loaded_fonts{};
float pixels_per_unit = 1;

// Latin, Greek, Cyrillic, symbols.
constexpr ImWchar kText[] = {0x20,   0x17f,  0x1cd,  0x24f,  0x2c6,  0x2dd,  0x370,  0x52f,  0x1e00, 0x1eff, 0x2010,
                             0x205e, 0x2070, 0x209c, 0x20a0, 0x20bf, 0x2100, 0x214f, 0x2150, 0x218f, 0x2190, 0x21ff,
                             0x2200, 0x22ff, 0x2300, 0x23ff, 0x2500, 0x25ff, 0x2600, 0x26ff, 0x2713, 0x2718, 0};
constexpr ImWchar kLatin[] = {0x20, 0xff, 0x2013, 0x2026, 0};

std::string find_font(std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (const char* folder : {"/usr/share/fonts/truetype/", "/usr/share/fonts/", "/usr/local/share/fonts/"})
      if (std::string path = std::string(folder) + name; std::filesystem::exists(path)) return path;
  return "";
}

ImFont* load(const std::string& path, float size, const ImWchar* ranges) {
  ImGuiIO& io = ImGui::GetIO();
  ImFontConfig config;
  config.OversampleH = 2;
  config.OversampleV = 1;
  config.SizePixels = std::max(1.0f, size * pixels_per_unit);
  if (path.empty()) return io.Fonts->AddFontDefault(&config);
  return io.Fonts->AddFontFromFileTTF(path.c_str(), config.SizePixels, &config, ranges);
}

} // namespace

const Theme& theme() { return *current; }
const Fonts& fonts() { return loaded_fonts; }
float px(float units) { return units * pixels_per_unit; }
ImVec4 to_vec4(ImU32 color) { return ImGui::ColorConvertU32ToFloat4(color); }

ImU32 with_alpha(ImU32 color, float alpha) {
  return (color & ~IM_COL32_A_MASK) | static_cast<ImU32>(alpha * 255) << IM_COL32_A_SHIFT;
}

ImU32 mix(ImU32 a, ImU32 b, float share) {
  const ImVec4 from = to_vec4(a), to = to_vec4(b);
  const auto between = [&](float x, float y) { return x + (y - x) * share; };
  return ImGui::ColorConvertFloat4ToU32(
      {between(from.x, to.x), between(from.y, to.y), between(from.z, to.z), between(from.w, to.w)});
}

void load_fonts(float scale) {
  pixels_per_unit = scale;
  ImGui::GetIO().Fonts->Clear();
  reserve_glyphs(scale);
  const std::string regular = find_font(
      {"noto/NotoSans-Regular.ttf", "dejavu/DejaVuSans.ttf", "TTF/DejaVuSans.ttf", "dejavu-sans-fonts/DejaVuSans.ttf"});
  const std::string bold = find_font({"noto/NotoSans-Bold.ttf", "dejavu/DejaVuSans-Bold.ttf", "TTF/DejaVuSans-Bold.ttf",
                                      "dejavu-sans-fonts/DejaVuSans-Bold.ttf"});
  const std::string mono = find_font({"dejavu/DejaVuSansMono.ttf", "TTF/DejaVuSansMono.ttf",
                                      "dejavu-sans-mono-fonts/DejaVuSansMono.ttf", "noto/NotoSansMono-Regular.ttf"});
  loaded_fonts = {load(regular, 16, kText),
                  load(regular, 13, kText),
                  load(bold.empty() ? regular : bold, 16, kText),
                  load(bold.empty() ? regular : bold, 20, kLatin),
                  load(mono, 14, kText),
                  load(regular, 36, kLatin),
                  load(bold.empty() ? regular : bold, 18, kLatin)};
  ImGui::GetIO().FontDefault = loaded_fonts.body;
}

void apply_theme(bool dark, float scale) {
  current = dark ? &kDark : &kLight;
  const Theme& t = *current;
  ImGuiStyle style;
  dark ? ImGui::StyleColorsDark(&style) : ImGui::StyleColorsLight(&style);
  style.WindowPadding = {0, 0};
  style.FramePadding = {10, 6};
  style.ItemSpacing = {10, 8};
  style.ItemInnerSpacing = {8, 6};
  style.CellPadding = {8, 4};
  style.ScrollbarSize = 12;
  style.GrabMinSize = 14;
  style.WindowBorderSize = style.ChildBorderSize = 0;
  style.FrameRounding = 6;
  style.ChildRounding = 8;
  style.PopupRounding = 6;
  style.GrabRounding = 6;
  style.ScrollbarRounding = 6;
  style.TabRounding = 6;
  style.ScaleAllSizes(scale);

  const auto set = [&](ImGuiCol which, ImU32 color) { style.Colors[which] = to_vec4(color); };
  set(ImGuiCol_Text, t.text);
  set(ImGuiCol_TextDisabled, t.dim);
  set(ImGuiCol_WindowBg, t.background);
  set(ImGuiCol_ChildBg, with_alpha(t.surface, 0));
  set(ImGuiCol_PopupBg, t.raised);
  set(ImGuiCol_ModalWindowDimBg, with_alpha(t.background, 0.6f));
  set(ImGuiCol_Border, t.border);
  set(ImGuiCol_FrameBg, t.raised);
  set(ImGuiCol_FrameBgHovered, mix(t.raised, t.accent, 0.12f));
  set(ImGuiCol_FrameBgActive, mix(t.raised, t.accent, 0.2f));
  set(ImGuiCol_Button, t.raised);
  set(ImGuiCol_ButtonHovered, mix(t.raised, t.accent, 0.25f));
  set(ImGuiCol_ButtonActive, mix(t.raised, t.accent, 0.4f));
  set(ImGuiCol_Header, mix(t.raised, t.accent, 0.25f));
  set(ImGuiCol_HeaderHovered, mix(t.raised, t.accent, 0.15f));
  set(ImGuiCol_HeaderActive, mix(t.raised, t.accent, 0.35f));
  set(ImGuiCol_SliderGrab, t.accent);
  set(ImGuiCol_SliderGrabActive, t.accent);
  set(ImGuiCol_CheckMark, t.accent);
  set(ImGuiCol_ScrollbarBg, with_alpha(t.background, 0));
  set(ImGuiCol_ScrollbarGrab, t.border);
  set(ImGuiCol_ScrollbarGrabHovered, t.dim);
  set(ImGuiCol_ScrollbarGrabActive, t.dim);
  set(ImGuiCol_Tab, with_alpha(t.surface, 0));
  set(ImGuiCol_TabHovered, mix(t.raised, t.accent, 0.25f));
  set(ImGuiCol_TabActive, mix(t.raised, t.accent, 0.25f));
  set(ImGuiCol_Separator, t.border);
  set(ImGuiCol_TableHeaderBg, t.raised);
  set(ImGuiCol_TableBorderLight, t.border);
  set(ImGuiCol_TableBorderStrong, t.border);
  set(ImGuiCol_TableRowBgAlt, with_alpha(t.raised, 0.35f));
  set(ImGuiCol_TextSelectedBg, with_alpha(t.accent, 0.35f));
  set(ImGuiCol_NavHighlight, t.accent);
  ImGui::GetStyle() = style;
}

} // namespace ridge::ui
