#!/bin/bash
# On the machine, once every part of the kit lies in PARTS: install, prepare, and begin a plan. Returns while it works.
#
#   arrive.sh PARTS RUN PLANS MINUTES [MORE...]    RUN is what pack.sh made, PLANS file names of tools/visits: h200x2,h200
#
# `install.sh vllm PARTS /tmp/site` may run before, as soon as vLLM's own parts are there; it leaves PARTS/vllm.done.
# Afterwards: . /tmp/env.sh; cd /tmp/qualify; python3 -m tools.gpu_session follow --folder /tmp/visit --out DIR --seconds N
set -e
parts=$1 run=$(realpath "$2") minutes=$4
IFS=, read -ra names <<< "$3"
plans=("${names[@]/#/tools/visits/}")
shift 4
mkdir -p /tmp/bin /tmp/qualify
cat "$parts"/rest.part-* | tar -xf - -C "$parts"
xz -dc "$run/docker-registry.xz" > /tmp/bin/docker-registry
chmod 755 /tmp/bin/docker-registry
tar -xzf "$run/tree.tgz" -C /tmp/qualify
# Every start imports these; what the machine's image holds has no bytecode, and containers only read it.
packages=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
nice python3 -m compileall -q -j 0 "$packages" > /dev/null 2>&1 &
[ -e "$parts/vllm.done" ] || sh /tmp/qualify/tools/visit/install.sh vllm "$parts" /tmp/site
sh /tmp/qualify/tools/visit/install.sh rest "$parts" /tmp/site /tmp/harness-site "$run/whl"
if [ -e "$parts/cutlass.part-0" ]; then # of pack-cutlass.sh, for the plan h200-cute
  mkdir -p /tmp/cutlass
  cat "$parts"/cutlass.part-* | xz -dc -T0 | tar -xf - -C /tmp/cutlass
  python3 -m compileall -q -j 0 /tmp/cutlass > /dev/null || true
fi
wait
cat > /tmp/env.sh <<E
export PATH=/tmp/bin:$PATH
export PYTHONPATH=/tmp/qualify:/tmp/harness-site:/tmp/site PYTHONUNBUFFERED=1 PYTEST_PLUGINS=harness.session.plugin
export VLLM_USE_FLASHINFER_SAMPLER=0 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
export TRITON_LIBCUDA_PATH=/usr/local/nvidia/lib64 # as in containers, for what runs without one
# Multicast may put the host's GPUs, which others share, out of service.
export VLLM_ALLREDUCE_USE_SYMM_MEM=0
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
E
. /tmp/env.sh
cd /tmp/qualify
git config --global --add safe.directory /tmp/qualify
exec python3 -m tools.gpu_session begin --plan "${plans[@]/%/.toml}" --folder /tmp/visit --kit "$parts" \
  --minutes "$minutes" "$@"
