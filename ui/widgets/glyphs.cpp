#include "ui/widgets/glyphs.h"

#include "core/error.h"
#include "core/files/mapped_file.h"
#include "core/strings/utf8.h"
#include "ui/widgets/gl.h"

#include <GLFW/glfw3.h>
#include <stb_truetype.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace ridge::ui {
namespace {

constexpr int kCacheSize = 1024;         // pixels at scale 1; 2000 ideographs
constexpr char32_t kPrivateUse = 0xe000; // U+E000 to U+F8FF: characters beyond 16 bits
constexpr size_t kPrivateCharacters = 6400;
constexpr float kEm = 0.88f; // ideographs fit between ascenders and descenders
constexpr char32_t kReplacement = 0xfffd;

// From Debian, Fedora and Arch; the first with a character is used.
constexpr const char* kFonts[] = {
    "truetype/noto/NotoSans-Regular.ttf",
    "truetype/dejavu/DejaVuSans.ttf",
    "TTF/DejaVuSans.ttf",
    "dejavu-sans-fonts/DejaVuSans.ttf",
    "opentype/noto/NotoSansCJK-Regular.ttc",
    "noto-cjk/NotoSansCJK-Regular.ttc",
    "google-noto-cjk/NotoSansCJK-Regular.ttc",
    "google-noto-sans-cjk-fonts/NotoSansCJK-Regular.ttc",
    "truetype/wqy/wqy-microhei.ttc",
    "truetype/wqy/wqy-zenhei.ttc",
    "truetype/droid/DroidSansFallbackFull.ttf",
    "truetype/noto/NotoEmoji-Regular.ttf",
    "google-noto-emoji-fonts/NotoEmoji-Regular.ttf",
    "truetype/ancient-scripts/Symbola_hint.ttf",
    "truetype/noto/NotoSansSymbols2-Regular.ttf",
    "truetype/noto/NotoSansThai-Regular.ttf",
    "truetype/noto/NotoSansDevanagari-Regular.ttf",
    "truetype/freefont/FreeSans.ttf",
    "opentype/unifont/unifont.otf",
};

struct SystemFont {
  explicit SystemFont(const std::string& path) : file(path) {}
  core::MappedFile file;
  stbtt_fontinfo info = {};
};

std::vector<std::unique_ptr<SystemFont>> open_system_fonts() {
  std::vector<std::unique_ptr<SystemFont>> fonts;
  for (const char* name : kFonts)
    for (const char* folder : {"/usr/share/fonts/", "/usr/local/share/fonts/"}) {
      const std::string path = std::string(folder) + name;
      if (!std::filesystem::exists(path)) continue;
      try {
        auto font = std::make_unique<SystemFont>(path);
        const auto* data = reinterpret_cast<const unsigned char*>(font->file.bytes().data());
        const int offset = stbtt_GetFontOffsetForIndex(data, 0);
        if (offset >= 0 && stbtt_InitFont(&font->info, data, offset)) fonts.push_back(std::move(font));
      } catch (const Error&) {
      }
    }
  return fonts;
}

// A region of the texture, filled by rows.
struct Cache {
  int rect = -1;
  int size = 0, x = 0, y = 0, row_height = 0;
  bool full = false;
  std::set<std::pair<ImFont*, char32_t>> missing;
} cache;

std::map<char32_t, ImWchar> stand_ins;
std::u32string far_characters;

ImWchar stand_in(char32_t c) {
  if (c < 0x10000) return static_cast<ImWchar>(c);
  const auto known = stand_ins.find(c);
  if (known != stand_ins.end()) return known->second;
  if (stand_ins.size() == kPrivateCharacters) return static_cast<ImWchar>(kReplacement);
  return stand_ins[c] = static_cast<ImWchar>(kPrivateUse + stand_ins.size());
}

// Adds `c` as `name`. Returns false if no font has it or the cache is full.
bool add_glyph(ImFont* font, char32_t c, ImWchar name) {
  static const auto fonts = open_system_fonts();
  const auto has = [&](const auto& f) { return stbtt_FindGlyphIndex(&f->info, static_cast<int>(c)) != 0; };
  const auto found = std::ranges::find_if(fonts, has);
  ImFontAtlas* atlas = font->ContainerAtlas;
  if (found == fonts.end() || cache.rect < 0 || !atlas->TexID) return false;
  const stbtt_fontinfo* info = &(*found)->info;
  const int glyph = stbtt_FindGlyphIndex(info, static_cast<int>(c));
  const float scale = stbtt_ScaleForMappingEmToPixels(info, kEm * font->FontSize);
  int left, top, right, bottom, advance, bearing;
  stbtt_GetGlyphBitmapBox(info, glyph, scale, scale, &left, &top, &right, &bottom);
  stbtt_GetGlyphHMetrics(info, glyph, &advance, &bearing);
  const int width = right - left, height = bottom - top;
  if (cache.x + width + 1 > cache.size) {
    cache.x = 0;
    cache.y += cache.row_height;
    cache.row_height = 0;
  }
  if (width + 1 > cache.size || cache.y + height + 1 > cache.size) {
    cache.full = true;
    return false;
  }
  const ImFontAtlasCustomRect* corner = atlas->GetCustomRectByIndex(cache.rect);
  const int x = corner->X + cache.x, y = corner->Y + cache.y;
  if (width > 0 && height > 0) {
    std::vector<unsigned char> coverage(static_cast<size_t>(width) * height);
    stbtt_MakeGlyphBitmap(info, coverage.data(), width, height, width, scale, scale, glyph);
    std::vector<uint32_t> pixels;
    pixels.reserve(coverage.size());
    for (const unsigned char alpha : coverage) pixels.push_back(IM_COL32(255, 255, 255, alpha));
    gl().bind_texture(GL_TEXTURE_2D, static_cast<GLuint>(reinterpret_cast<intptr_t>(atlas->TexID)));
    gl().pixel_store(GL_UNPACK_ALIGNMENT, 4);
    gl().tex_sub_image_2d(GL_TEXTURE_2D, 0, x, y, width, height, GL_RGBA, GL_UNSIGNED_BYTE, pixels.data());
  }
  cache.x += width + 1;
  cache.row_height = std::max(cache.row_height, height + 1);

  const float baseline = std::round(font->Ascent);
  const ImVec2 uv = atlas->TexUvScale;
  const float step = std::round(static_cast<float>(advance) * scale);
  font->AddGlyph(nullptr, name, static_cast<float>(left), baseline + static_cast<float>(top), static_cast<float>(right),
                 baseline + static_cast<float>(bottom), static_cast<float>(x) * uv.x, static_cast<float>(y) * uv.y,
                 static_cast<float>(x + width) * uv.x, static_cast<float>(y + height) * uv.y, step);
  // Incremental BuildLookupTable().
  font->GrowIndex(name + 1);
  font->IndexLookup[name] = static_cast<ImWchar>(font->Glyphs.Size - 1);
  font->IndexAdvanceX[name] = step;
  font->FallbackGlyph = font->FindGlyphNoFallback(font->FallbackChar); // glyphs may have moved
  font->DirtyLookupTables = false;
  return true;
}

bool has_no_picture(char32_t c) {
  return c == 0x200b || c == 0x200d || c == 0x2060 || c == 0xfeff || (c >= 0xfe00 && c <= 0xfe0f) ||
         (c >= 0xe0000 && c <= 0xe007f);
}

} // namespace

void reserve_glyphs(float scale) {
  cache = {};
  cache.size = static_cast<int>(static_cast<float>(kCacheSize) * std::clamp(scale, 1.0f, 2.0f));
  ImFontAtlas* atlas = ImGui::GetIO().Fonts;
  atlas->TexDesiredWidth = 2 * cache.size; // cache beside the initial glyphs
  cache.rect = atlas->AddCustomRectRegular(cache.size, cache.size);
}

bool glyphs_are_full() { return cache.full; }

ImWchar showable(char32_t c, ImFont* font) {
  if (has_no_picture(c)) return 0;
  if (c < 0x80) return static_cast<ImWchar>(c);
  if (c >= kPrivateUse && c < kPrivateUse + kPrivateCharacters)
    return static_cast<ImWchar>(kReplacement); // not assigned here
  const ImWchar name = stand_in(c);
  if (font->FindGlyphNoFallback(name)) return name;
  if (!cache.missing.contains({font, c})) {
    if (add_glyph(font, c, name)) return name;
    if (!cache.full) cache.missing.insert({font, c});
  }
  return static_cast<ImWchar>(kReplacement);
}

std::string_view showable(std::string_view text, ImFont* font) {
  const auto plain = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::ranges::all_of(text, plain)) return text;
  static std::string shown;
  shown.clear();
  while (!text.empty()) {
    const ImWchar c = showable(core::take_character(text), font);
    if (c != 0) core::append_utf8(shown, c);
  }
  return shown;
}

void type_far_character(char32_t character) { far_characters += character; }
std::u32string take_far_characters() { return std::exchange(far_characters, {}); }

} // namespace ridge::ui
