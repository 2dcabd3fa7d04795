# Sourced by smoke.sh: the engine, compose, and the images. The caller sets `built`, `work`, `tools`,
# `image`, `version` and `binary`.
# shellcheck shell=bash disable=SC2154

prefix=lockkeeper-test-$$
engine=
compose_version=v2.40.3

# Ends what was started here, by its own name or process id.
leave() {
  local profile
  for profile in single sentinel cluster; do
    compose "$profile" down --volumes --timeout 1 >/dev/null 2>&1 || true
  done
  docker ps --all --quiet --filter "name=^$prefix" 2>/dev/null |
    xargs --no-run-if-empty docker rm --force --volumes >/dev/null 2>&1 || true
  if [ -n "$engine" ] && kill "$engine" 2>/dev/null; then
    wait "$engine" 2>/dev/null || true
  fi
}

find_engine() {
  command -v docker >/dev/null || scripts/install-test-tools docker.io docker ||
    skip "docker is not installed"
  docker info >/dev/null 2>&1 && return
  [ "$(id -u)" -eq 0 ] || skip "no container engine runs here, and starting one needs root"
  scripts/install-test-tools docker.io dockerd || skip "dockerd cannot be installed"
  export DOCKER_HOST=unix://$work/docker.sock
  dockerd --data-root "$work/engine" --exec-root "$work/exec" --pidfile "$work/docker.pid" \
    --host "$DOCKER_HOST" --bip 172.29.0.1/24 --default-address-pool base=172.28.0.0/16,size=24 \
    >"$work/dockerd.log" 2>&1 &
  engine=$!
  for _ in $(seq 60); do
    docker info >/dev/null 2>&1 && return
    kill -0 "$engine" 2>/dev/null || break
    sleep 0.5
  done
  tail -n 3 "$work/dockerd.log"
  skip "dockerd cannot be started"
}

# The plugin of docker, or compose built from its module.
find_compose() {
  if docker compose version >/dev/null 2>&1; then
    compose_program=(docker compose)
    return
  fi
  compose_program=("$tools/docker-compose")
  [ ! -x "$tools/docker-compose" ] || return 0
  command -v go >/dev/null || skip "docker compose is not installed, nor go to build it"
  rm -rf "$work/compose"
  mkdir "$work/compose"
  (cd "$work/compose" && go mod init compose &&
    GOFLAGS=-modcacherw go get -tool "github.com/docker/compose/v2/cmd@$compose_version" &&
    GOFLAGS=-modcacherw go build -ldflags '-s -w' -o "$tools/docker-compose" \
      github.com/docker/compose/v2/cmd) >"$work/compose.log" 2>&1 ||
    skip "docker compose $compose_version cannot be built"
}

# compose PROFILE ARGUMENT...
compose() {
  local profile=$1
  shift
  "${compose_program[@]}" --project-name "$prefix" --file docker-compose.yml \
    --file "$work/ports.yml" --profile "$profile" "$@"
}

build_image() {
  local commit
  commit=$(git rev-parse --short=12 HEAD)
  if [ -z "$binary" ]; then
    DOCKER_BUILDKIT=1 docker build --file deploy/Dockerfile --tag "$image" \
      --build-arg LOCKKEEPER_COMMIT="$commit" . || skip "the image cannot be built here"
    return
  fi
  rm -rf "$work/context"
  mkdir "$work/context"
  cp "$binary" "$work/context/lockkeeper"
  cp /etc/ssl/certs/ca-certificates.crt "$work/context/"
  sed -n '/^FROM scratch/,$p' deploy/Dockerfile |
    sed 's|--from=build /[^ ]*/\([^ /]*\) |\1 |' >"$work/context/Dockerfile"
  docker build --quiet --tag "$image" --build-arg LOCKKEEPER_COMMIT="$commit" \
    "$work/context" >"$work/build.log" 2>&1 || { cat "$work/build.log"; skip "no image"; }
}

# Pulls the image that the file names, or imports Debian's Redis under its name.
redis_image() {
  local name root=$built/redis-root
  name=$(sed -n 's/^  image: \(redis:.*\)/\1/p' docker-compose.yml | head -n 1)
  docker image inspect "$name" >/dev/null 2>&1 && return
  timeout 120 docker pull --quiet "$name" 2>/dev/null && return
  [ "$(id -u)" -eq 0 ] || skip "$name cannot be pulled, and to make it of packages needs root"
  scripts/install-test-tools debootstrap || skip "$name cannot be pulled, nor made of packages"
  if [ ! -e "$root/complete" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=redis-server,redis-sentinel,redis-tools bookworm \
      "$root" >"$work/debootstrap.log" 2>&1 || skip "debootstrap cannot install Redis"
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* \
      "$root"/usr/share/{doc,locale,man}
    mkdir -p "$root/data"
    chroot "$root" chown redis:redis /data
    touch "$root/complete"
  fi
  tar -C "$root" -c . | docker import --change 'VOLUME /data' --change 'WORKDIR /data' \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    - "$name" >/dev/null
  echo "STAND-IN $name is $(chroot "$root" redis-server --version | cut -d ' ' -f 1-3) of Debian"
}
