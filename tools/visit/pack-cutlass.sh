#!/bin/sh
# Pack the CuTe DSL that vLLM 0.25.1 asks for, for a visit with kernels in it (tools/visits/h200-cute.toml).
#
#   pack-cutlass.sh OUT [PYTHON]     OUT/cutlass-0/, -1/: pieces of one archive, of 40 MB at most
#
# arrive.sh unpacks it into /tmp/cutlass, from where sessions mount it: no other session meets it.
set -eu
out=$1 python=${2:-python3} version=4.5.2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_24_x86_64 --platform manylinux_2_17_x86_64 \
  --platform manylinux2014_x86_64 -d "$work" "nvidia-cutlass-dsl==$version" "nvidia-cutlass-dsl-libs-base==$version" \
  "nvidia-cutlass-dsl-libs-cu13==$version" cuda-bindings==13.0.3 cuda-pathfinder
# In this order, as pip does it: both have a library of the same name, and the last one stays.
for wheel in "$work"/cuda_*.whl "$work"/nvidia_cutlass_dsl-*.whl "$work"/*_libs_base-*.whl "$work"/*_libs_cu13-*.whl; do
  "$python" -m zipfile -e "$wheel" "$work/tree"
done
chmod -R u+rwX,a+rX "$work/tree"
rm -rf "$out"/cutlass-*
tar -C "$work/tree" -cf - . | xz -T0 -6 | split -d -a 1 -b 40M - "$work/cutlass.part-"
for piece in "$work"/cutlass.part-*; do
  mkdir -p "$out/cutlass-${piece##*-}"
  mv "$piece" "$out/cutlass-${piece##*-}/"
done
du -sh "$out"/cutlass-*
