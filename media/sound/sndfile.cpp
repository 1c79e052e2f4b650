// FLAC, MP3, Ogg and AIFF by libsndfile, loaded on demand: it has no static archive.
#include "core/files/shared_library.h"
#include "media/sound/decoders.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

namespace ridge::media {

using core::throw_error;

namespace {

// Declarations from sndfile.h, stable since 2002.
using Count = int64_t;
struct Info {
  Count frames;
  int rate, channels, format, sections, seekable;
};
struct Io {
  Count (*length)(void*);
  Count (*seek)(Count, int, void*);
  Count (*read)(void*, Count, void*);
  Count (*write)(const void*, Count, void*);
  Count (*tell)(void*);
};
struct SoundFile;

struct SndfileLibrary {
  SoundFile* (*open)(Io*, int, Info*, void*);
  Count (*read)(SoundFile*, float*, Count);
  int (*close)(SoundFile*);
  const char* (*error)(SoundFile*);
};

const SndfileLibrary& library() {
  static const SndfileLibrary functions = [] {
    const core::SharedLibrary loaded({"libsndfile.so.1"},
                                     "needs libsndfile.so.1, which is missing: install libsndfile1 (Debian, Ubuntu) or "
                                     "libsndfile (Fedora), or convert it to WAV");
    const auto find = [&](auto& function, const char* name) {
      loaded.find(function, name, fmt::format("needs libsndfile, but the installed one has no {}", name));
    };
    SndfileLibrary f{};
    find(f.open, "sf_open_virtual");
    find(f.read, "sf_readf_float");
    find(f.close, "sf_close");
    find(f.error, "sf_strerror");
    return f;
  }();
  return functions;
}

struct SoundBytes {
  std::span<const std::byte> bytes;
  Count at = 0;

  static SoundBytes& of(void* reader) { return *static_cast<SoundBytes*>(reader); }
  static Count length(void* reader) { return std::ssize(of(reader).bytes); }
  static Count tell(void* reader) { return of(reader).at; }
  static Count write(const void*, Count, void*) { return 0; }
  static Count seek(Count offset, int from, void* reader) {
    SoundBytes& r = of(reader);
    const Count start = from == SEEK_SET ? 0 : from == SEEK_CUR ? r.at : length(reader);
    constexpr Count kFurthest = Count{1} << 48; // seeks past the end are allowed, as in files
    if (offset < -start || offset > kFurthest) return -1;
    return r.at = start + offset;
  }
  static Count read(void* out, Count count, void* reader) {
    SoundBytes& r = of(reader);
    count = std::clamp<Count>(count, 0, std::max<Count>(0, length(reader) - r.at));
    if (count > 0) std::memcpy(out, r.bytes.data() + r.at, static_cast<size_t>(count));
    r.at += count;
    return count;
  }
};

} // namespace

void need_sndfile() { library(); }

Sound decode_by_sndfile(std::span<const std::byte> bytes, const SoundLimits& limits) {
  constexpr int kToRead = 0x10;
  constexpr Count kFramesAtOnce = 4096;
  const SndfileLibrary& f = library();
  SoundBytes reader{bytes};
  Io io = {SoundBytes::length, SoundBytes::seek, SoundBytes::read, SoundBytes::write, SoundBytes::tell};
  Info info{};
  const std::unique_ptr<SoundFile, int (*)(SoundFile*)> file(f.open(&io, kToRead, &info, &reader), f.close);
  if (!file) throw_error("cannot be read: {}", f.error(nullptr));
  check_length(info.rate, info.channels, 1, limits); // the length may be unknown yet
  Sound sound = {info.rate, {}};
  std::vector<float> part(kFramesAtOnce * info.channels);
  for (Count count; (count = f.read(file.get(), part.data(), kFramesAtOnce)) > 0;) {
    for (Count i = 0; i < count; ++i) {
      float sum = 0;
      for (int c = 0; c < info.channels; ++c) sum += part[i * info.channels + c];
      sound.samples.push_back(sum / static_cast<float>(info.channels));
    }
    check_length(info.rate, info.channels, std::ssize(sound.samples), limits);
  }
  check_length(info.rate, info.channels, std::ssize(sound.samples), limits);
  return sound;
}

} // namespace ridge::media
