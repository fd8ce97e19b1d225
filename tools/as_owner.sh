#!/bin/sh
# Runs a command in the harness's container as the owner of the project folder, so that results are the
# user's own files, in the group of the engine's socket, and without any capability.
set -eu

project=${QUALIFY_PROJECT:-}
owner=65534 groups=65534
if [ -n "$project" ]; then
    if [ ! -f "$project/pyproject.toml" ]; then
        echo "qualify: $project holds no checkout; run compose in the checkout's own folder" >&2
        exit 2
    fi
    # The checkout's code runs on this image's packages, so both must be of one lock.
    for file in pyproject.toml requirements/harness.lock; do
        if ! cmp -s "$project/$file" "/opt/qualify/built-from/${file#requirements/}"; then
            echo "qualify: this image was built from another $file; run: docker compose build harness" >&2
            exit 2
        fi
    done
    owner=$(stat -c %u "$project")
    groups=$(stat -c %g "$project")
fi
group=$groups
socket=${DOCKER_HOST:-unix:///var/run/docker.sock}
socket=${socket#unix://}
if [ -S "$socket" ]; then
    groups=$groups,$(stat -c %g "$socket")
fi
if [ "$(id -u)" != 0 ]; then
    exec "$@"  # somebody chose a user
fi
exec setpriv --reuid "$owner" --regid "$group" --groups "$groups" \
    --inh-caps=-all --bounding-set=-all --no-new-privs -- "$@"
