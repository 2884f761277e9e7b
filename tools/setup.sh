# Read by ./plimsoll and ./test (POSIX sh): installs what is missing, configures and builds. Messages go to stderr.
# The caller sets `root`. What is built goes below `place`: the checkout or, where that can't be written, the user's cache folder.
place=$root
if [ ! -w "$root" ] && [ ! -w "$root/build" ]; then
  place=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/plimsoll/checkout-$(printf '%s' "$root" | cksum | cut -d ' ' -f 1)
fi

packages_to_run="g++ cmake ninja-build libdnnl-dev ocl-icd-opencl-dev libhwy-dev libcli11-dev libfmt-dev
  nlohmann-json3-dev zlib1g-dev libjpeg62-turbo-dev libpng-dev libpcre2-dev libutf8proc-dev dataset-fashion-mnist"
packages_for_ranks="libopenmpi-dev openmpi-bin"
packages_for_python="python3-dev python3-venv"
packages_to_test="libgtest-dev libgmock-dev clang-format btrfs-progs iproute2 doxygen mkdocs
  $packages_for_ranks"
# Older ones do not know std::source_location.
packages_to_lint="clang-tidy-16 libomp-16-dev"
packages_to_package="debootstrap dpkg-dev file"
packages_to_bench="libbenchmark-dev libgtest-dev"

say() { printf 'plimsoll: %s\n' "$*" >&2; }
stop() {
  say "$*"
  exit 1
}

# Runs a command with its output in a file, shown only when the command fails.
quietly() {
  log=$1
  shift
  "$@" >"$log" 2>&1 </dev/null && return
  cat "$log" >&2
  return 1
}

run_apt() {
  if [ "$(id -u)" = 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get "$@"
  else
    sudo DEBIAN_FRONTEND=noninteractive apt-get "$@"
  fi
}

install_missing() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "no apt-get here; the build needs what Debian calls:" $*
    return
  fi
  installed=" $(dpkg-query -W -f='${Package}:${db:Status-Status} ' "$@" 2>/dev/null || true)"
  missing=
  for package; do
    case $installed in
      *" $package:installed "*) ;;
      *) missing="$missing $package" ;;
    esac
  done
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    stop "missing, and neither root nor sudo to install it: run as root: apt-get install$missing"
  fi
  say "installing with apt-get (log: $place/build/apt.log):$missing"
  mkdir -p "$place/build"
  log=$place/build/apt.log
  # A fresh machine has no package lists; an old one may have lists that no longer fit.
  if apt-cache show ninja-build >/dev/null 2>&1; then
    run_apt install -y --no-install-recommends $missing >"$log" 2>&1 </dev/null && return
  fi
  quietly "$log" run_apt update || stop "apt-get update failed"
  quietly "$log" run_apt install -y --no-install-recommends $missing || stop "apt-get could not install:$missing"
}

# The system's tools, not those that another environment puts first in PATH.
system_tool() {
  if [ -x "/usr/bin/$1" ]; then echo "/usr/bin/$1"; else echo "$1"; fi
}

# Says how far the ninja that writes LOG is: redrawn on a terminal, a line every 20 s elsewhere. Runs until it is killed
# or the script has ended.
show_progress() { # LOG
  began=$(date +%s)
  said=$began
  while sleep 1 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    steps=$(sed -n 's|^\[\([0-9]*/[0-9]*\)\] .*|\1|p' "$1" 2>/dev/null | tail -n 1)
    [ -n "$steps" ] || continue
    now=$(date +%s)
    text=$(printf 'building %s · %d:%02d' "$steps" $(((now - began) / 60)) $(((now - began) % 60)))
    if [ -t 2 ]; then
      printf '\rplimsoll: %s \033[K' "$text" >&2
    elif [ $((now - said)) -ge 20 ]; then
      said=$now
      say "$text"
    fi
  done
}

run_ninja() { # DIRECTORY TARGET...
  log=$1/build.log
  : >"$log"
  # Ninja is in the foreground, so that an interrupt reaches it.
  show_progress "$log" 9>&- &
  reporter=$!
  status=0
  "$(system_tool ninja)" -C "$@" >"$log" 2>&1 </dev/null || status=$?
  kill "$reporter" 2>/dev/null || true
  wait "$reporter" 2>/dev/null || true
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
  [ "$status" = 0 ] || cat "$log" >&2
  return "$status"
}

# build DIRECTORY TARGETS [SETTING...]: configures where a setting is new, builds, one process at a time.
build() {
  directory=$place/$1
  targets=$2
  shift 2
  mkdir -p "$directory"
  (
    flock 9
    wanted="-DCMAKE_BUILD_TYPE=Release $*"
    if [ ! -f "$directory/build.ninja" ] || [ "$wanted" != "$(cat "$directory/.settings" 2>/dev/null)" ]; then
      quietly "$directory/configure.log" "$(system_tool cmake)" -S "$root" -B "$directory" -G Ninja \
        -DCMAKE_MAKE_PROGRAM="$(system_tool ninja)" -DCMAKE_BUILD_TYPE=Release "$@" || stop "configuring failed"
      echo "$wanted" >"$directory/.settings"
    fi
    run_ninja "$directory" $targets || stop "the build failed"
  ) 9>"$directory/.lock"
}
