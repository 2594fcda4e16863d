#!/bin/sh
# Prints what a build with -tags cuda needs in its environment, for the CUDA toolkit in $CUDA_HOME (or $CUDA_PATH), else beside
# nvcc, else in /usr/local/cuda, else in /usr:
#
#   eval "$(runtime/device/cuda/env.sh)" && go build -tags cuda ./cmd/minfer-run
#
# The folder include/ comes before the toolkit's, so that gorgonia.org/cu builds against CUDA 13 too.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
fail() {
  echo "no CUDA toolkit to build with: $1; set CUDA_HOME to one of CUDA 11.8, 12 or 13" >&2
  exit 1
}
quote() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }

home=${CUDA_HOME:-${CUDA_PATH:-}}
if [ -n "$home" ]; then
  candidates=$home
else
  candidates="/usr/local/cuda
/usr"
  if nvcc=$(command -v nvcc); then
    candidates="$(dirname "$(dirname "$(readlink -f "$nvcc")")")
$candidates"
  fi
fi

include= library=
IFS='
'
for c in $candidates; do
  for i in "$c/include" "$c/targets/x86_64-linux/include" "$c/targets/sbsa-linux/include"; do
    [ -z "$include" ] && [ -f "$i/cuda.h" ] && include=$i home=$c
  done
done
[ -n "$include" ] || fail "no include/cuda.h in $(echo "$candidates" | paste -sd' ' -)"
version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$include/cuda.h" | head -n 1)
[ "${version:-0}" -ge 11080 ] || fail "$include/cuda.h is of CUDA $((${version:-0} / 1000)).$((${version:-0} % 1000 / 10))"
for l in "$home/lib64/stubs" "$home/lib/stubs" "$home/lib64" "$home/lib" "$home/targets/x86_64-linux/lib/stubs" "$home/targets/sbsa-linux/lib/stubs" \
  "/usr/lib/$(uname -m)-linux-gnu/stubs" "/usr/lib/$(uname -m)-linux-gnu"; do
  [ -z "$library" ] && [ -e "$l/libcuda.so" ] && library=$l
done
[ -n "$library" ] || fail "no libcuda.so, nor a stub of it, in $home"

# Go splits these variables at spaces outside of quotes.
echo "export CGO_ENABLED=1"
echo "export CGO_CFLAGS=$(quote "\"-I$here/include\" \"-I$include\" ${CGO_CFLAGS:--O2 -g}")"
echo "export CGO_LDFLAGS=$(quote "\"-L$library\" ${CGO_LDFLAGS:-}")"
