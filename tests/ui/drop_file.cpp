// drop_file WINDOW-NAME PATH: drops a file onto a window's middle (XDND version 5). Exit status 0: accepted.
#include <X11/Xatom.h>
#include <X11/Xlib.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

namespace {

Display* display;

Atom atom(const char* name) { return XInternAtom(display, name, False); }

Window find_window(Window root, const std::string& name) {
  char* title = nullptr;
  if (XFetchName(display, root, &title) && title) {
    const bool found = name == title;
    XFree(title);
    if (found) return root;
  }
  Window parent, *children = nullptr, result = None;
  unsigned count = 0;
  if (XQueryTree(display, root, &root, &parent, &children, &count)) {
    for (unsigned i = 0; i < count && result == None; ++i) result = find_window(children[i], name);
    if (children) XFree(children);
  }
  return result;
}

void send(Window target, const char* type, long a, long b, long c, long d, long e) {
  XEvent event = {};
  event.xclient.type = ClientMessage;
  event.xclient.window = target;
  event.xclient.message_type = atom(type);
  event.xclient.format = 32;
  const long data[] = {a, b, c, d, e};
  std::memcpy(event.xclient.data.l, data, sizeof data);
  XSendEvent(display, target, False, NoEventMask, &event);
  XFlush(display);
}

std::string uri_of(const std::string& path) {
  std::string uri = "file://";
  for (const char c : path) {
    char escaped[4];
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || std::strchr("/-_.~", c);
    std::snprintf(escaped, sizeof escaped, plain ? "%c" : "%%%02X", static_cast<unsigned char>(c));
    uri += escaped;
  }
  return uri + "\r\n";
}

void serve(const XSelectionRequestEvent& request, const std::string& uri) {
  XChangeProperty(display, request.requestor, request.property, request.target, 8, PropModeReplace,
                  reinterpret_cast<const unsigned char*>(uri.data()), static_cast<int>(uri.size()));
  XEvent reply = {};
  reply.xselection.type = SelectionNotify;
  reply.xselection.requestor = request.requestor;
  reply.xselection.selection = request.selection;
  reply.xselection.target = request.target;
  reply.xselection.property = request.property;
  reply.xselection.time = request.time;
  XSendEvent(display, request.requestor, False, NoEventMask, &reply);
  XFlush(display);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3 || !(display = XOpenDisplay(nullptr))) return 2;
  const Window root = DefaultRootWindow(display), target = find_window(root, argv[1]);
  if (target == None) {
    std::fprintf(stderr, "drop_file: no window is called %s\n", argv[1]);
    return 1;
  }
  const Window source = XCreateSimpleWindow(display, root, 0, 0, 1, 1, 0, 0, 0);
  XSetSelectionOwner(display, atom("XdndSelection"), source, CurrentTime);
  XWindowAttributes size;
  XGetWindowAttributes(display, target, &size);
  int x, y;
  Window child;
  XTranslateCoordinates(display, target, root, size.width / 2, size.height / 2, &x, &y, &child);

  const auto from = static_cast<long>(source);
  send(target, "XdndEnter", from, 5L << 24, static_cast<long>(atom("text/uri-list")), 0, 0);
  send(target, "XdndPosition", from, 0, static_cast<long>(x) << 16 | y, CurrentTime,
       static_cast<long>(atom("XdndActionCopy")));
  std::signal(SIGALRM, [](int) {
    constexpr char kWhy[] = "drop_file: waited 15 minutes for the window's answer\n";
    (void)!::write(2, kWhy, sizeof kWhy - 1);
    ::_exit(1);
  });
  ::alarm(900);
  while (true) {
    XEvent event;
    XNextEvent(display, &event);
    if (event.type == SelectionRequest) serve(event.xselectionrequest, uri_of(argv[2]));
    if (event.type != ClientMessage) continue;
    if (event.xclient.message_type == atom("XdndStatus")) {
      if ((event.xclient.data.l[1] & 1) == 0) {
        std::fprintf(stderr, "drop_file: the window does not want it\n");
        return 1;
      }
      send(target, "XdndDrop", from, 0, CurrentTime, 0, 0);
    }
    // Bit 0 means accepted; GLFW sends the byte count.
    if (event.xclient.message_type == atom("XdndFinished")) return event.xclient.data.l[1] != 0 ? 0 : 1;
  }
}
