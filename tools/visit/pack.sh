#!/bin/sh
# Pack what a visit needs beside the parts of ../shared/gpu-kit: this checkout, a registry, wheels of the harness.
#
#   pack.sh OUT [PYTHON]     OUT/run/ gets tree.tgz, docker-registry.xz, whl/, arrive.sh (about 33 MB)
#
# The kit's parts, where OUT holds them, are cut anew: a call carries 64 MiB, this checkout among them, and most parts
# would leave it no room. Those of vLLM become OUT/vllm-0, -1 and -2, the others OUT/rest-0, -1 and -2.
#
# The checkout travels as a clone of its last commit, so that the evidence names it. PYTHON (default: python3) finds
# the wheels; they must be for the machine's Python 3.12, and what its image holds already is left out.
set -eu
out=$1 python=${2:-python3}
project=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out/run" # wheels of an earlier pack may lack one that is needed since
mkdir -p "$out/run/whl"
git clone -q --depth 1 "file://$project" "$work/tree"
tar -C "$work/tree" -czf "$out/run/tree.tgz" .
xz -6 -T0 -c "$(command -v docker-registry)" > "$out/run/docker-registry.xz"
cp "$project/tools/visit/arrive.sh" "$out/run/"
lock="$project/requirements/harness.lock"
for name in docker pytest pytest-xdist pydantic pydantic-core annotated-types typing-inspection \
  cryptography cffi pycparser securesystemslib ruptures tzdata zstandard; do
  grep -iE "^$(echo "$name" | sed 's/[-_]/[-_]/g')==" "$lock"
done | xargs "$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d "$out/run/whl"
if [ -d "$out/part-1" ]; then
  rm -rf "$out"/vllm-* "$out"/rest-*
  cat "$out"/part-[12]/vllm.part-* | split -d -a 1 -b 40M - "$work/vllm.part-"
  (cd "$out" && find part-[3-9] -type f -print0 | tar -cf - --null --files-from=- --transform='s,.*/,,') |
    split -d -a 1 -b 40M - "$work/rest.part-"
  for piece in "$work"/*.part-*; do
    name=$(basename "$piece" | sed 's/\.part//')
    mkdir "$out/$name"
    mv "$piece" "$out/$name/"
  done
fi
du -sh "$out"/run "$out"/vllm-* "$out"/rest-* 2> /dev/null || true
