// The part of libcurl that pulls use. It is loaded at the first use, so that ridge starts without it. Its ABI is
// stable; a test compares these declarations with installed headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/socket.h>

namespace ridge::hub::curl {

struct Easy;
struct List;
struct Url;

// Long options start at 0, pointers at 10000, functions at 20000, 64-bit offsets at 30000.
enum Option : int {
  kWriteData = 10001,
  kUrl = 10002,
  kProxy = 10004,
  kRange = 10007,
  kErrorBuffer = 10010,
  kUserAgent = 10018,
  kLowSpeedLimit = 19,
  kLowSpeedTime = 20,
  kHttpHeader = 10023,
  kHeaderData = 10029,
  kNoProgress = 43,
  kProgressData = 10057,
  kTimeoutMs = 155,
  kSocketData = 10164,
  kDirectHosts = 10177,
  kConnectTimeout = 78,
  kBufferSize = 98,
  kNoSignal = 99,
  kProtocols = 181,
  kWriteFunction = 20011,
  kHeaderFunction = 20079,
  kProgressFunction = 20219,
  kSocketFunction = 20163,
};
enum Protocol : long { kHttp = 1, kHttps = 2 };
enum Info : int { kRedirectUrl = 0x10001f };
enum Code : int {
  kOk = 0,
  kNoProxy = 5,
  kNoHost = 6,
  kNoConnection = 7,
  kHttp2Failed = 16,
  kPartOfFile = 18,
  kWriteError = 23,
  kTimedOut = 28,
  kNoSecureConnection = 35,
  kGotNothing = 52,
  kSendFailed = 55,
  kReceiveFailed = 56,
  kStreamFailed = 92,
  kHttp3Failed = 95,
  kQuicFailed = 96,
};
enum UrlPart : int { kScheme = 1, kHost = 5, kPort = 6 };
enum UrlFlag : unsigned { kDefaultPort = 1 };
inline constexpr int kErrorBytes = 256;

using DataFunction = size_t (*)(char* data, size_t one, size_t bytes,
                                void* user); // returns consumed bytes; another number aborts
struct SocketAddress {
  int family, type, protocol;
  unsigned bytes;
  sockaddr address;
};
using SocketFunction = int (*)(void* user, int purpose, SocketAddress*); // socket, or -1
using ProgressFunction = int (*)(void* user, int64_t, int64_t, int64_t, int64_t);

struct Library {
  Easy* (*easy_init)();
  void (*easy_cleanup)(Easy*);
  void (*easy_reset)(Easy*);
  int (*easy_setopt)(Easy*, int option, ...);
  int (*easy_perform)(Easy*);
  int (*easy_getinfo)(Easy*, int info, ...);
  const char* (*easy_strerror)(int code);
  List* (*slist_append)(List*, const char*);
  void (*slist_free_all)(List*);
  Url* (*url)();
  void (*url_cleanup)(Url*);
  int (*url_set)(Url*, int part, const char*, unsigned flags);
  int (*url_get)(Url*, int part, char** text, unsigned flags);
  void (*free)(void*);
};

// Throws Error if libcurl is not installed.
const Library& library();

} // namespace ridge::hub::curl
