#!/usr/bin/env bash
# check.sh EXECUTABLE [EMULATOR…]: checks that it needs only glibc 2.35, and starts.
set -euo pipefail
executable=${1:?check.sh EXECUTABLE [EMULATOR…]}
shift
newest=2.35

foreign=$(readelf -d "$executable" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vxE 'lib(c|m|dl|rt|pthread)\.so\.[0-9]+|ld-linux-(x86-64\.so\.2|aarch64\.so\.1)' || true)
[ -z "$foreign" ] || { echo "check: error: $executable needs" $foreign >&2; exit 1; }
used=$(readelf -W --dyn-syms "$executable" | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -uV | tail -n 1)
[ "$(printf '%s\n' "$used" "$newest" | sort -V | tail -n 1)" = "$newest" ] ||
  { echo "check: error: $executable needs glibc $used, newer than $newest" >&2; exit 1; }

"$@" "$executable" --version >/dev/null # into the file cache
start=$(date +%s%N)
for _ in $(seq 20); do "$@" "$executable" --version >/dev/null; done
echo "$executable: $(stat -c %s "$executable") bytes, glibc $used, --version in" \
  "$((($(date +%s%N) - start) / 20000)) µs"
