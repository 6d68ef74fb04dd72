#!/bin/sh
# Run InstantStart's container as it is meant to run: not root, nothing writable but its data, closed to all but this machine.
#
#   INSTANTSTART_IMAGE=REGISTRY/instantstart:0.1.0 deploy/container/start-prod.sh
#
# Settings come from the environment or /etc/instantstart/host.env (docs/settings.md); AWS credentials from the instance's role, or
# from the AWS_* variables. The console listens on 127.0.0.1 only: reach it through SSM port forwarding, SSH, or a proxy with TLS.
set -eu

file=${INSTANTSTART_HOST_FILE:-/etc/instantstart/host.env}
if [ -r "$file" ]; then
  while IFS='=' read -r name value || [ -n "$name" ]; do   # the last line may have no end
    case "$name" in '' | \#*) continue ;; esac
    case "$name" in *[!A-Za-z0-9_]* | [0-9]*) echo "$file: '$name' is no name of a variable." >&2; exit 1 ;; esac
    [ -n "$(printenv "$name" || true)" ] || export "$name=$value"
  done < "$file"
fi

: "${INSTANTSTART_IMAGE:?Name the image to run, as in INSTANTSTART_IMAGE=REGISTRY/instantstart:0.1.0}"
data=${INSTANTSTART_HOST_DATA:-/var/lib/instantstart}
port=${INSTANTSTART_HOST_PORT:-3099}
engine=${CONTAINER_ENGINE:-docker}
uid=10001
command -v "$engine" > /dev/null || { echo "There is no $engine on this machine. Install it, or set CONTAINER_ENGINE." >&2; exit 1; }

mkdir -p "$data"
chmod 0700 "$data"
[ "$(id -u)" != 0 ] || chown "$uid:$uid" "$data"

set -- run --rm --name instantstart --init --read-only --tmpfs /tmp:rw,noexec,nosuid,size=256m \
  --user "$uid:$uid" --cap-drop ALL --security-opt no-new-privileges \
  --pids-limit 512 --ulimit nofile=16384:16384 --memory "${INSTANTSTART_HOST_MEMORY:-2g}" \
  --volume "$data:/var/lib/instantstart" --publish "127.0.0.1:$port:3099" --stop-timeout 30
# By name, not by value: what is secret never stands in the process list.
for name in $(env | sed -n 's/^\(INSTANTSTART_[A-Z0-9_]*\|AWS_[A-Z0-9_]*\|OTEL_EXPORTER_OTLP_HEADERS\)=.*/\1/p'); do
  case "$name" in
    INSTANTSTART_IMAGE | INSTANTSTART_HOST_* | INSTANTSTART_BACKUP_BUCKET | INSTANTSTART_DATA_DIR | INSTANTSTART_HOST | INSTANTSTART_PORT) ;;
    AWS_CA_BUNDLE | AWS_CONFIG_FILE | AWS_SHARED_CREDENTIALS_FILE | AWS_PROFILE | AWS_DEFAULT_PROFILE) ;;   # files that the container has not
    *) [ -z "$(printenv "$name" || true)" ] || set -- "$@" --env "$name" ;;
  esac
done
exec "$engine" "$@" "$INSTANTSTART_IMAGE"
