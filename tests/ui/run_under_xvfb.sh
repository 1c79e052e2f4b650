#!/usr/bin/env bash
# run_under_xvfb.sh PROGRAM [ARGS]: on a virtual screen with software OpenGL. Exits with 77, and says why, where the
# machine has none.
for tool in xvfb-run xdotool; do
  command -v $tool >/dev/null || { echo "skipped: no $tool (./dev setup installs it)"; exit 77; }
done
# Mesa's threads spin while they wait: one is enough to draw a window.
exec env RIDGE_TEST_RUNNER="$0" LIBGL_ALWAYS_SOFTWARE=1 LP_NUM_THREADS=1 xvfb-run -a -s "-screen 0 1280x800x24 -noreset" "$@"
