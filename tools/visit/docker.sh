#!/bin/sh
# Start the Docker engine of the kit's last part on a machine that has none.
#
#   docker.sh PARTS FOLDER     PARTS holds docker.tar.xz; the engine lives in FOLDER until the machine goes back
#
# No bridge and no firewall rules: containers have the host's network, or none. The socket is FOLDER/docker.sock.
set -eu
parts=$1 folder=$2
mkdir -p "$folder/kit"
xz -dc "$parts/docker.tar.xz" | tar -xf - -C "$folder/kit"
for program in runc dockerd; do
  mv "$folder/kit/bin/$program" "$folder/kit/bin/$program.real"
  # Libraries of the kit for these two alone: containers must not find them.
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s/kit/lib exec %s/kit/bin/%s.real "$@"\n' "$folder" "$folder" "$program" \
    > "$folder/kit/bin/$program"
  chmod +x "$folder/kit/bin/$program"
done
PATH="$folder/kit/bin:$PATH"
DOCKER_HOST="unix://$folder/docker.sock"
export PATH DOCKER_HOST
setsid dockerd --iptables=false --bridge=none --data-root "$folder/data" --exec-root "$folder/exec" \
  --pidfile "$folder/dockerd.pid" -H "$DOCKER_HOST" > "$folder/dockerd.log" 2>&1 < /dev/null &
tries=0
until docker info > /dev/null 2>&1; do
  tries=$((tries + 1))
  if [ "$tries" -gt 60 ]; then
    tail -n 20 "$folder/dockerd.log" >&2
    exit 1
  fi
  sleep 0.5
done
docker info --format 'Docker {{.ServerVersion}}, {{.Driver}}'
