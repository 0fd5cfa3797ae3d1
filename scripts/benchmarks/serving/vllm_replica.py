"""A real replica: vLLM's own server in a process of its own, as `vllm serve --enable-scale-out` runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from scripts.served import free_port

ROUTER_FILE = Path(__file__).parents[3] / "deploy" / "scale-out" / "kubernetes" / "router.cfg"
# What `vllm serve` calls; the command itself needs a package called vllm, which the CPU build is not.
_SERVE = "from vllm.entrypoints.launchers.api_server.entry import main; main()"
_START_S = 400.0
# The cores on which vLLM's CPU build computes, one thread on each.
THREADS = "VLLM_CPU_OMP_THREADS_BIND"


@dataclass(frozen=True, slots=True)
class VllmReplica:
    """A running replica, the leader of its process group."""

    url: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End all its processes at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def vllm_replicas(number: int, model: Path, name: str, options: Sequence[str] = ()) -> Iterator[list[VllmReplica]]:
    """Start some together and wait until they are healthy; ends them at the end of the block."""
    cores = os.cpu_count() or 1
    replicas = [launch(model, name, options, core=place % cores) for place in range(number)]
    try:
        for replica in replicas:
            wait_until_healthy(replica)
        yield replicas
    finally:
        # A test may have put another one in a killed one's place.
        for replica in replicas:
            replica.kill()


def launch(model: Path, name: str, options: Sequence[str] = (), port: int = 0, core: int = 0) -> VllmReplica:
    """Start a replica whose model computes on one core.

    With a thread on each core, two replicas and their client wait for one another at every layer on a small machine.
    """
    arguments = [
        "--served-model-name", name, "--enable-scale-out", "--enable-prompt-tokens-details", "--dtype", "float32",
        "--block-size", "32", "--scheduling-policy", "priority", "--kv-cache-memory-bytes", str(256 * 2**20),
        "--structured-outputs-config", '{"backend": "xgrammar"}', *options,
    ]  # fmt: skip
    return _start(model, arguments, port, core)


@contextmanager
def vllm_pooling(model: Path, dtype: str, key: str) -> Iterator[VllmReplica]:
    """Start vLLM as a server of an encoder's vectors, and end it at the end of the block."""
    arguments = [
        "--runner", "pooling", "--dtype", dtype, "--api-key", key, "--kv-cache-memory-bytes", str(128 * 2**20),
        "--gpu-memory-utilization", "0.2",
    ]  # fmt: skip
    server = _start(model, arguments)
    try:
        wait_until_healthy(server)
        yield server
    finally:
        server.kill()


def _start(model: Path, arguments: Sequence[str], port: int = 0, core: int = 0) -> VllmReplica:
    port = port or free_port()
    command = [
        sys.executable, "-c", _SERVE, "--model", str(model), "--host", "127.0.0.1", "--port", str(port),
        "--enforce-eager", "--disable-uvicorn-access-log", *arguments,
    ]  # fmt: skip
    environment = os.environ | {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_LOOPBACK_IP": "127.0.0.1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "GLOO_SOCKET_IFNAME": "lo",
        "HF_HUB_OFFLINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        THREADS: str(core),
    }
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    return VllmReplica(f"http://127.0.0.1:{port}", process)


@contextmanager
def router(urls: Sequence[str], folder: Path) -> Iterator[str]:
    """HAProxy before replicas, with the shipped file and other addresses; yield its own."""
    port = free_port()
    text = ROUTER_FILE.read_text().replace("bind :8000", f"bind 127.0.0.1:{port}")
    servers = "".join(f"  server replica-{i} {url.removeprefix('http://')}\n" for i, url in enumerate(urls))
    text, found = re.subn(r"^  server-template .*\n", servers, text, flags=re.MULTILINE)
    assert found == 1
    (folder / "router.cfg").write_text(text)
    command = ["haproxy", "-db", "-f", str(folder / "router.cfg")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def wait_until_healthy(replica: VllmReplica) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if replica.process.poll() is not None:
            raise AssertionError(f"the replica ended with {replica.process.returncode}")
        with suppress(OSError), urllib.request.urlopen(f"{replica.url}/health", timeout=5) as reply:
            if reply.status == 200:
                return
        time.sleep(0.5)
    raise AssertionError(f"the replica was not healthy in {_START_S:g} s")
