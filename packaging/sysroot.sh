#!/usr/bin/env bash
# sysroot.sh FOLDER: Debian's arm64 libraries and headers, unpacked into FOLDER; the machine's own packages and lists
# stay as they are. packaging/arm64.cmake compiles against them, and qemu-user runs with them.
set -euo pipefail
folder=$(realpath -m "${1:?sysroot.sh FOLDER}")
packages=(
  libc6 libgcc-s1 libstdc++6 libgomp1 # to run
  libfmt-dev libfmt9 libhwy-dev libhwy1 libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2
  libedit-dev libedit2 libbsd-dev libbsd0 libncurses-dev libncurses6 libtinfo6 libmd4c-dev libmd4c0 libmd-dev libmd0
  libjpeg62-turbo-dev libjpeg62-turbo libpng-dev libpng16-16 zlib1g-dev zlib1g libgif-dev libgif7
  libwebp-dev libwebp7 libwebpdemux2 libwebpmux3
  libboost1.81-dev libcli11-dev nlohmann-json3-dev doctest-dev libvalijson-dev
  libimgui-dev libstb-dev libglfw3-dev libglfw3 libgl-dev libglx-dev libegl-dev libx11-dev libx11-6 x11proto-dev # the window
  libxcb1 libxau6 libxdmcp6 libxrandr-dev libxinerama-dev libxcursor-dev libxi-dev libxext-dev libxfixes-dev libxrender-dev
)
list=$(printf '%s\n' "${packages[@]}" | sha256sum)
[ -f "$folder/complete" ] && [ "$(cat "$folder/complete")" = "$list" ] && exit
rm -rf "$folder"
mkdir -p "$folder/lists/partial" "$folder/packages"
for suite in "debian bookworm" "debian bookworm-updates" "debian-security bookworm-security"; do
  echo "deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/$suite main"
done >"$folder/sources.list"
: >"$folder/status"
apt=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root
  -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o "Dir::State::Lists=$folder/lists" -o "Dir::State::status=$folder/status"
  -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache=)
echo "sysroot: ${#packages[@]} packages for arm64" >&2
apt-get "${apt[@]}" update
(cd "$folder/packages" && apt-get "${apt[@]}" download "${packages[@]}")
mkdir -p "$folder/libraries" # as libraries.sh, for licences.sh
for file in "$folder"/packages/*.deb; do
  dpkg-deb --extract "$file" "$folder"
  package=$(dpkg-deb --field "$file" Package)
  [ -f "$folder/usr/share/doc/$package/copyright" ] || continue # another package's
  dpkg-deb --field "$file" Version >"$folder/libraries/version.$package"
  cp "$folder/usr/share/doc/$package/copyright" "$folder/libraries/copyright.$package"
done
# The cross compiler looks for Debian's headers by architecture in its own folder only.
cp -r "$folder/usr/include/aarch64-linux-gnu/." "$folder/usr/include"
rm -rf "$folder/packages" "$folder/lists"
echo "$list" >"$folder/complete"
