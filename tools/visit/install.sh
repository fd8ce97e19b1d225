#!/bin/sh
# Put vLLM and the harness's own needs onto a machine that has PyTorch, Python 3.12 and no network.
#
#   install.sh vllm PARTS SITE             unpack vLLM (vllm.part-*) and compile it to bytecode; takes a while
#   install.sh rest PARTS SITE HARNESS WHEELS   the other wheels of the kit into SITE, those of WHEELS into HARNESS
#
# The two may run side by side. PARTS holds the files of all parts of ../shared/gpu-kit.
set -eu
what=$1 parts=$2 site=$3
mkdir -p "$site"
case $what in
  vllm)
    cat "$parts"/vllm.part-* | xz -dc -T0 | tar -xf - -C "$site"
    python3 -m compileall -q -j 0 "$site/vllm" || true # a file that does not compile is not imported either
    touch "$parts/vllm.done"
    ;;
  rest)
    harness=$4 wheels=$5
    mkdir -p "$parts/wheels"
    xz -dc -T0 "$parts/deps.tar.xz" | tar -xf - -C "$parts/wheels"
    cp "$parts"/*.whl "$parts/wheels/"
    pip="python3 -m pip install -q --no-index --no-deps --no-cache-dir --upgrade"
    $pip --no-compile --target "$harness" "$wheels"/*.whl &
    $pip --no-compile --target "$site" "$parts"/wheels/*.whl
    wait
    python3 -m compileall -q -j 0 "$site" || true
    ;;
esac
