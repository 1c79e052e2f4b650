#include "ui/widgets/clipboard.h"

#if __has_include(<X11/Xlib.h>)

#include <X11/Xatom.h>
#include <X11/Xlib.h>

#include <algorithm>
#include <chrono>
#include <dlfcn.h>
#include <optional>
#include <poll.h>
#include <vector>

namespace ridge::ui {
namespace {

using ClipboardClock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(10); // limit without an event
constexpr size_t kMaxClipboardBytes = 64 << 20;
constexpr const char* kPictureTypes[] = {"image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"};

// Loaded at run time, so that ridge starts without Xlib.
struct Xlib {
  bool complete = true;
  void* library = ::dlopen("libX11.so.6", RTLD_NOW | RTLD_LOCAL);
  decltype(&::XOpenDisplay) open_display = function<decltype(&::XOpenDisplay)>("XOpenDisplay");
  decltype(&::XCloseDisplay) close_display = function<decltype(&::XCloseDisplay)>("XCloseDisplay");
  decltype(&::XCreateSimpleWindow) create_simple_window =
      function<decltype(&::XCreateSimpleWindow)>("XCreateSimpleWindow");
  decltype(&::XSelectInput) select_input = function<decltype(&::XSelectInput)>("XSelectInput");
  decltype(&::XGetSelectionOwner) get_selection_owner = function<decltype(&::XGetSelectionOwner)>("XGetSelectionOwner");
  decltype(&::XConvertSelection) convert_selection = function<decltype(&::XConvertSelection)>("XConvertSelection");
  decltype(&::XGetAtomName) get_atom_name = function<decltype(&::XGetAtomName)>("XGetAtomName");
  decltype(&::XInternAtom) intern_atom = function<decltype(&::XInternAtom)>("XInternAtom");
  decltype(&::XFree) free = function<decltype(&::XFree)>("XFree");
  decltype(&::XPending) pending = function<decltype(&::XPending)>("XPending");
  decltype(&::XNextEvent) next_event = function<decltype(&::XNextEvent)>("XNextEvent");
  decltype(&::XGetWindowProperty) get_window_property = function<decltype(&::XGetWindowProperty)>("XGetWindowProperty");

  template <class Function>
  Function function(const char* name) {
    const auto found = library ? reinterpret_cast<Function>(::dlsym(library, name)) : nullptr;
    complete = complete && found;
    return found;
  }
};

// Uses a second connection and window, so that GLFW's events are unaffected (ICCCM, section 2).
class Clipboard {
 public:
  Clipboard() {
    if (x_.complete) display_ = x_.open_display(nullptr);
    if (!display_) return;
    window_ = x_.create_simple_window(display_, DefaultRootWindow(display_), 0, 0, 1, 1, 0, 0, 0);
    x_.select_input(display_, window_, PropertyChangeMask);
  }
  ~Clipboard() {
    if (display_) x_.close_display(display_);
  }
  Clipboard(const Clipboard&) = delete;
  Clipboard& operator=(const Clipboard&) = delete;

  // The clipboard as this type; empty: not available.
  std::string get(const char* type) {
    if (!display_ || x_.get_selection_owner(display_, atom("CLIPBOARD")) == None) return {};
    const Atom place = atom("RIDGE_PASTE");
    x_.convert_selection(display_, atom("CLIPBOARD"), atom(type), place, window_, CurrentTime);
    const auto answer = next([](const XEvent& event) { return event.type == SelectionNotify; });
    if (!answer || answer->xselection.property == None) return {};
    std::string bytes;
    if (take(place, bytes) != atom("INCR")) return bytes;
    bytes.clear(); // drops the size estimate; pieces follow, an empty one last (INCR)
    while (bytes.size() <= kMaxClipboardBytes) {
      const auto piece = next([&](const XEvent& event) {
        return event.type == PropertyNotify && event.xproperty.atom == place &&
               event.xproperty.state == PropertyNewValue;
      });
      const size_t before = bytes.size();
      if (!piece) return {};
      if (take(place, bytes) == None) continue; // event for data already taken
      if (bytes.size() == before) return bytes;
    }
    return {};
  }

  std::vector<std::string> types() {
    const std::string bytes = get("TARGETS");
    std::vector<std::string> names;
    for (size_t at = 0; at + sizeof(Atom) <= bytes.size(); at += sizeof(Atom)) {
      Atom type = None;
      std::copy_n(bytes.data() + at, sizeof type, reinterpret_cast<char*>(&type));
      if (char* name = type != None ? x_.get_atom_name(display_, type) : nullptr) {
        names.emplace_back(name);
        x_.free(name);
      }
    }
    return names;
  }

 private:
  Atom atom(const char* name) const { return x_.intern_atom(display_, name, False); }

  // The next matching event; nothing after kPatience.
  template <class IsIt>
  std::optional<XEvent> next(IsIt is_it) {
    const auto until = ClipboardClock::now() + kPatience;
    while (true) {
      while (x_.pending(display_) > 0) {
        XEvent event;
        x_.next_event(display_, &event);
        if (is_it(event)) return event;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - ClipboardClock::now()).count();
      pollfd file = {ConnectionNumber(display_), POLLIN, 0};
      if (left <= 0 || ::poll(&file, 1, static_cast<int>(left)) == 0) return std::nullopt;
    }
  }

  // Appends a property and deletes it, which requests the next piece. Returns its type.
  Atom take(Atom place, std::string& bytes) {
    Atom type = None;
    int bits = 0;
    unsigned long count = 0, left = 0;
    unsigned char* data = nullptr;
    constexpr long kMaxWords = kMaxClipboardBytes / 4;
    if (x_.get_window_property(display_, window_, place, 0, kMaxWords, True, AnyPropertyType, &type, &bits, &count,
                               &left, &data) != Success)
      return None;
    // Xlib stores each 32-bit element in a long.
    const size_t each = bits == 32 ? sizeof(long) : static_cast<size_t>(bits) / 8;
    if (data) bytes.append(reinterpret_cast<const char*>(data), count * each);
    if (data) x_.free(data);
    return left == 0 ? type : None;
  }

  const Xlib x_;
  Display* display_ = nullptr;
  Window window_ = None;
};

} // namespace

std::string clipboard_picture() {
  Clipboard clipboard;
  const std::vector<std::string> there = clipboard.types();
  for (const char* type : kPictureTypes)
    if (std::ranges::find(there, type) != there.end()) return clipboard.get(type);
  return {};
}

} // namespace ridge::ui

#else

namespace ridge::ui {

std::string clipboard_picture() { return {}; }

} // namespace ridge::ui

#endif
