// copy_picture FILE TYPE: owns the clipboard and sends FILE as TYPE ("image/png") in pieces (INCR; ICCCM, section
// 2.7.2). Prints "ready"; ends after a transfer or when another program owns it.
#include <X11/Xatom.h>
#include <X11/Xlib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

Display* display;

Atom atom(const char* name) { return XInternAtom(display, name, False); }

// The requestor deletes the property to ask for the next piece.
void wait_until_deleted(Window requestor, Atom property) {
  while (true) {
    XEvent event;
    XNextEvent(display, &event);
    if (event.type == PropertyNotify && event.xproperty.window == requestor && event.xproperty.atom == property &&
        event.xproperty.state == PropertyDelete)
      return;
  }
}

void give(const XSelectionRequestEvent& request, const std::string& bytes, Atom type) {
  XEvent reply = {};
  reply.xselection = {
      SelectionNotify,  0,           True, display, request.requestor, request.selection, request.target,
      request.property, request.time};
  const auto set = [&](Atom kind, int bits, const void* data, size_t count) {
    XChangeProperty(display, request.requestor, request.property, kind, bits, PropModeReplace,
                    static_cast<const unsigned char*>(data), static_cast<int>(count));
  };
  const auto answer = [&] {
    XSendEvent(display, request.requestor, False, NoEventMask, &reply);
    XFlush(display);
  };
  if (request.target == atom("TARGETS")) {
    const std::vector<Atom> targets = {atom("TARGETS"), type};
    set(XA_ATOM, 32, targets.data(), targets.size());
    return answer();
  }
  if (request.target != type) {
    reply.xselection.property = None;
    return answer();
  }
  XSelectInput(display, request.requestor, PropertyChangeMask);
  const long size = static_cast<long>(bytes.size());
  set(atom("INCR"), 32, &size, 1);
  answer();
  constexpr size_t kPiece = 1000;
  for (size_t at = 0;; at += kPiece) {
    wait_until_deleted(request.requestor, request.property);
    const size_t count = at < bytes.size() ? std::min(kPiece, bytes.size() - at) : 0;
    set(type, 8, bytes.data() + std::min(at, bytes.size()), count);
    XSync(display, False); // unread events at exit may lose requests
    if (count == 0) std::exit(0);
  }
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3 || !(display = XOpenDisplay(nullptr))) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const Window window = XCreateSimpleWindow(display, DefaultRootWindow(display), 0, 0, 1, 1, 0, 0, 0);
  XSetSelectionOwner(display, atom("CLIPBOARD"), window, CurrentTime);
  if (XGetSelectionOwner(display, atom("CLIPBOARD")) != window) return 1;
  std::puts("ready");
  std::fflush(stdout);
  ::alarm(900); // if there is no request
  while (true) {
    XEvent event;
    XNextEvent(display, &event);
    if (event.type == SelectionClear) return 0;
    if (event.type == SelectionRequest) give(event.xselectionrequest, bytes, atom(argv[2]));
  }
}
