"""A real Slurm of one node with four GPUs that are none, all of it in one folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.launch.ports import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel")
SEARCHED = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
MISSING = [name for name in PROGRAMS if shutil.which(name, path=SEARCHED) is None]
GPUS = 4
UP_S = 60.0
POLL_S = 0.1

CONF = """\
ClusterName=qualify
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
KillWait=60
ReturnToService=2
NodeName=pro6000 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:pro6000:{gpus} State=UNKNOWN
PartitionName=gpus Nodes=pro6000 Default=YES MaxTime=INFINITE State=UP
"""


@dataclass
class Cluster:
    """It runs; commands of its own talk to it and to no other."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What its programs need."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": SEARCHED}

    def start(self, *argv: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start one of its commands."""
        return subprocess.Popen(
            argv, env={**env, **self.environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def do(self, *argv: str, env: Mapping[str, str] | None = None) -> str:
        """Run one of its commands to its end; what it said."""
        environment = {**(os.environ if env is None else env), **self.environment}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=UP_S)
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def state(self, job: str) -> str:
        """Of a job, as squeue tells it; '' once it is over."""
        return self.do("squeue", "--noheader", "--format=%T", f"--jobs={job}").strip()

    def logs(self) -> str:
        """What the daemons say, for a failing test."""
        return "\n".join(
            f"{log.name}: {log.read_text('utf-8', 'replace')[-2000:]}" for log in self.folder.glob("*.log")
        )


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start it, wait until its node is idle, and end it."""
    for name in ("state", "spool", "dev"):
        (folder / name).mkdir()
    for number in range(GPUS):
        os.mknod(folder / "dev" / f"nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    conf = CONF.format(
        folder=folder, host=socket.gethostname().partition(".")[0], gpus=GPUS, controller=free_port(), node=free_port()
    )
    (folder / "slurm.conf").write_text(conf, "utf-8")
    (folder / "gres.conf").write_text(f"Name=gpu Type=pro6000 File={folder}/dev/nvidia[0-{GPUS - 1}]\n", "utf-8")
    files = [f"--{name}={folder}/munge.{name.split('-')[0]}" for name in ("pid-file", "log-file", "seed-file")]
    munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}", *files]
    made = Cluster(folder)
    with contextlib.ExitStack() as stack:
        _daemon(stack, made, munged)
        _until(made, (folder / "munge.socket").exists)
        _daemon(stack, made, ["slurmctld", "-D"])
        _daemon(stack, made, ["slurmd", "-D", "-N", "pro6000"])
        _until(made, lambda: "idle" in _answer(made, ["sinfo", "--noheader", "--format=%T"]))
        yield made


def _daemon(stack: contextlib.ExitStack, made: Cluster, argv: Sequence[str]) -> None:
    with (made.folder / f"{argv[0]}.out.log").open("wb") as log:
        process = subprocess.Popen(argv, env={**os.environ, **made.environment}, stdout=log, stderr=log)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)


def _answer(made: Cluster, argv: Sequence[str]) -> str:
    done = subprocess.run(argv, env={**os.environ, **made.environment}, capture_output=True, text=True, check=False)
    return done.stdout


def _until(made: Cluster, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + UP_S
    while not holds():
        assert time.monotonic() < deadline, made.logs()
        time.sleep(POLL_S)
