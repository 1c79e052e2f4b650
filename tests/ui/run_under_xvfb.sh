#!/usr/bin/env bash
# run_under_xvfb.sh PROGRAM [ARGS]: runs it on a virtual screen with software OpenGL. Exits with 77 without the tools.
for tool in xvfb-run xdotool; do
  command -v $tool >/dev/null || { echo "skipped: no $tool (./dev setup installs it)"; exit 77; }
done
# One Mesa thread is enough; idle ones spin. Without -r, a key that a busy machine holds down for long repeats.
exec env RIDGE_TEST_RUNNER="$0" LIBGL_ALWAYS_SOFTWARE=1 LP_NUM_THREADS=1 xvfb-run -a -s "-screen 0 1280x800x24 -noreset -r" "$@"
