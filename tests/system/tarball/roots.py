"""Bare root file systems of Debian's releases: what a few packages contain, unpacked, in a folder.

Where packages come from is what this machine's own apt says. A release that cannot be had from there is Missing.
"""

import contextlib
import pathlib
import shutil
import subprocess

# Of each release: a shell, and programs that know nothing of uroce.
PACKAGES = ("base-files", "libc6", "libc-bin", "dash", "coreutils", "perftest", "rdmacm-utils", "ibverbs-utils")
KEYS = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Missing(Exception):
    """Why this release cannot be had, in one line."""


def _run(*words, timeout=300):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Missing(f"{words[0]}: {lines[-1] if lines else done.returncode}")
    return done.stdout


def archive():
    """The address from which this machine has Debian's packages."""
    for program in ("apt-get", "dpkg-deb"):
        if not shutil.which(program):
            raise Missing(f"there is no {program} here")
    lines = _run("apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)", "Created-By: Packages").splitlines()
    for line in lines:
        origin, label, component, address = line.split("|")
        if (origin, label, component) == ("Debian", "Debian", "main"):
            return address
    raise Missing("apt has no archive of Debian's here")


class Apt:
    """apt with a root, a state and a cache of its own, which knows one release and has nothing installed."""

    def __init__(self, folder, release):
        self.cache = folder / "cache"
        for name in ("lists/partial", "cache/archives/partial", "state", "etc"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "state/status").touch()
        (folder / "etc/sources.list").write_text(f"deb [signed-by={KEYS}] {archive()} {release} main\n")
        places = {"Dir::Etc::SourceList": "etc/sources.list", "Dir::Etc::SourceParts": "etc/none", "Dir::Etc::Preferences": "etc/none",
                  "Dir::Etc::PreferencesParts": "etc/none", "Dir::State": "state", "Dir::State::Lists": "lists",
                  "Dir::State::status": "state/status", "Dir::Cache": "cache"}
        self._options = [word for name, place in places.items() for word in ("-o", f"{name}={folder / place}")]

    def __call__(self, *words):
        return _run("apt-get", "-q", *self._options, "-o", "APT::Sandbox::User=root", "-o", "APT::Install-Recommends=false",
                    "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", *words)


def _unpack(packages, root):
    # Directories of old, which are links in every release of today.
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as source:
            subprocess.run(["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(root)], stdin=source.stdout, check=True)
    for name in ("proc", "dev", "sys", "tmp", "run"):
        (root / name).mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")


def make(release, folder):
    """The root file system of `release`, which stays in `folder` for the next time."""
    root, done = folder / release, folder / f"{release}.complete"
    if done.exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    apt = Apt(folder / f"{release}.apt", release)
    try:
        apt("update")
        apt("install", "--download-only", "-y", *PACKAGES)
        _unpack(sorted((apt.cache / "archives").glob("*.deb")), root)
    finally:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder / f"{release}.apt")
    done.touch()
    return root
