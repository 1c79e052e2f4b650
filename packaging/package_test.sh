#!/usr/bin/env bash
# package_test.sh FOLDER: installs FOLDER's packages in a minimal Debian (kept in build/bare.tar), runs ridge and its
# window (Xvfb), removes it and checks for leftovers. Needs root.
set -euo pipefail
folder=$(realpath "${1:?package_test.sh FOLDER}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ "$(id -u)" -eq 0 ] || { echo "package_test: error: needs root, for a root of its own" >&2; exit 1; }

fail() { echo "package_test: error: $*" >&2; exit 1; }

bare=$PWD/build/bare.tar
if [ ! -f "$bare" ]; then
  echo "package_test: making a bare Debian" >&2
  new=$(mktemp -d)
  debootstrap --variant=minbase bookworm "$new" http://deb.debian.org/debian >build/debootstrap.log 2>&1 ||
    fail "debootstrap failed; see build/debootstrap.log"
  tar -C "$new" -cf "$bare" .
  rm -rf "$new"
fi

root=$(mktemp -d)
trap 'umount -q "$root/proc" || true; rm -rf --one-file-system "$root"' EXIT
tar -C "$root" -xf "$bare"
mount -t proc proc "$root/proc" # for the number of cores
cp "$folder"/ridge-*.deb "$folder"/ridge-*.tar.gz "$root/opt"
inside() { chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
files() { (cd "$root" && find . -xdev -path ./proc -prune -o -print | grep -vE '^\./(var/(lib/dpkg|log|cache)|run|tmp|opt)(/|$)' | sort); }

# answers PROGRAM: it knows its version and generates text
answers() {
  inside "$1" --version | grep -q '^ridge [0-9]' || fail "$1 --version says: $(inside "$1" --version 2>&1)"
  [ -n "$(inside "$1" run -p hi -n 16 2>/dev/null)" ] || fail "$1 run -p hi says nothing"
}

files >"$root/tmp/before"
inside dpkg -i "/opt/$(basename "$folder"/ridge-*.deb)" >/dev/null
for file in bin/ridge share/man/man1/ridge.1.gz share/bash-completion/completions/ridge share/doc/ridge/copyright \
  share/doc/ridge/libraries.txt share/doc/ridge/ridge.spdx.json; do
  [ -s "$root/usr/$file" ] || fail "the package has no $file"
done
answers /usr/bin/ridge
echo "package_test: the .deb answers" >&2

# The window, without X11 and with it.
message=$(inside ridge gui 2>&1 || true)
[[ $message == *"libX11.so.6 is missing"* ]] || fail "ridge gui without X11 says: $message"
echo "package_test: ridge gui without X11: $message" >&2
inside dpkg --purge ridge >/dev/null
files | diff "$root/tmp/before" - >"$root/tmp/left" || fail "left behind: $(cat "$root/tmp/left")"

mkdir "$root/opt/ridge"
tar -C "$root/opt/ridge" --strip-components=1 -xzf "$root"/opt/ridge-*.tar.gz
answers /opt/ridge/bin/ridge
echo "package_test: the .tar.gz answers" >&2

cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
inside apt-get update -qq
inside env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends libx11-6 libgl1 libgl1-mesa-dri \
  xvfb xauth >"$root/tmp/apt.log" 2>&1 || fail "no X11: $(tail -n 3 "$root/tmp/apt.log")"
files >"$root/tmp/before"
inside env LIBGL_ALWAYS_SOFTWARE=1 MESA_SHADER_CACHE_DISABLE=true xvfb-run -a -s "-screen 0 1280x800x24" /opt/ridge/bin/ridge gui \
  --screenshot /opt/window.png 2>"$root/tmp/gui" || fail "ridge gui says: $(cat "$root/tmp/gui")"
[ "$(stat -c %s "$root/opt/window.png")" -gt 10000 ] || fail "the window's picture is empty"
cp "$root/opt/window.png" build/package-window.png
rm -rf "$root/opt"
files | diff "$root/tmp/before" - >"$root/tmp/left" || fail "left behind: $(cat "$root/tmp/left")"
echo "package_test: passed: .deb and .tar.gz install, answer, open a window (build/package-window.png) and leave nothing"
