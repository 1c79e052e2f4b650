#!/usr/bin/env bash
# libraries.sh FOLDER [TOOLCHAIN]: builds static versions of libraries that Debian has only as shared ones, from Debian's signed
# source packages, into FOLDER. With them ridge needs only glibc. GLFW is the next Debian's 3.4, the first version that
# loads X11 only for a window.
set -euo pipefail
folder=$(realpath -m "${1:?libraries.sh FOLDER [TOOLCHAIN]}") toolchain=${2:+$(realpath "$2")}
[ -f "$folder/complete" ] && exit
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
mkdir -p "$folder/lists/partial" "$folder/source"

# Separate lists; the machine's stay unchanged.
for suite in bookworm trixie; do
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main"
done >"$folder/sources.list"
apt=(-qq -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o "Dir::State::Lists=$folder/lists" -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache=)
apt-get "${apt[@]}" update

# fetch PACKAGE SUITE: newest source, into source/PACKAGE
fetch() {
  echo "libraries: $1 of Debian $2" >&2
  rm -rf "$folder/source/$1"
  mkdir -p "$folder/source/$1"
  (cd "$folder/source/$1" && apt-get "${apt[@]}" source --target-release "$2" "$1" >"$folder/$1.log" 2>&1) ||
    { echo "libraries: error: no source of $1; see $folder/$1.log" >&2; exit 1; }
}

# install_static PACKAGE CMAKE_OPTION...
install_static() {
  local package=$1 source
  shift
  source=$(find "$folder/source/$package" -mindepth 1 -maxdepth 1 -type d)
  cmake -S "$source" -B "$source/build-static" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder" \
    -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_TESTING=OFF \
    ${toolchain:+"-DCMAKE_TOOLCHAIN_FILE=$toolchain"} -Wno-dev "$@" >>"$folder/$package.log" 2>&1 &&
    cmake --build "$source/build-static" --target install >>"$folder/$package.log" 2>&1 ||
    { echo "libraries: error: $package did not build; see $folder/$package.log" >&2; exit 1; }
  cp "$source/debian/copyright" "$folder/copyright.$package"
  dpkg-parsechangelog -l "$source/debian/changelog" -S Version >"$folder/version.$package"
}

fetch highway bookworm
install_static highway -DHWY_ENABLE_TESTS=OFF -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_CONTRIB=OFF
fetch fmtlib bookworm
install_static fmtlib -DFMT_TEST=OFF -DFMT_DOC=OFF
fetch md4c bookworm
install_static md4c
fetch glfw3 trixie
install_static glfw3 -DGLFW_BUILD_WAYLAND=OFF -DGLFW_BUILD_EXAMPLES=OFF -DGLFW_BUILD_TESTS=OFF -DGLFW_BUILD_DOCS=OFF
touch "$folder/complete"
