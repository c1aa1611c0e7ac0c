#!/usr/bin/env python3
"""Who may use whose directory: every program that meets others in one, started by root, by another user and by the root of a user
namespace, with directories of each of them.

    owners.py BUILD/apps

A program uses a directory of the user that runs it, as the kernel outside of namespaces sees that user. Everything else it refuses, with
one line that names the directory, and it leaves nothing in there.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

SKIP = 77
NOBODY, STRANGER = 65534, 4711
PATIENCE_S = 60

AS_NOBODY = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
# How a program is started, and whose directories are its own.
RUNNERS = {
    "root": ([], 0),
    "a user": (AS_NOBODY, NOBODY),
    "root of a user's namespace": ([*AS_NOBODY, "unshare", "--user", "--map-root-user"], NOBODY),
}


def programs(apps, folder):
    """Name, command, and whether it also refuses a directory of its user into which others may write."""
    uroce = str(apps / "uroce")
    return (
        ("uroce run", [uroce, "run", "--", "ibv_devinfo"], False),
        ("uroce ls", [uroce, "ls"], False),
        ("uroce qp", [uroce, "qp"], False),
        ("uroce capture", [uroce, "capture", "-w", "/dev/null", "--seconds", "0.1"], False),
        ("uroced", [str(apps / "uroced"), "--port", "net_null0"], False),
        ("uroce-switch", [str(apps / "uroce-switch"), "--ports", "2"], False),
        ("mqnic-card", [str(apps / "mqnic-card"), "--socket", f"{folder}/card", "--wire", "shm:cable"], True),
    )


class Place:
    """What the programs are told to use as their directory. `meant`: what it leads to."""

    def __init__(self, folder, kind, owner, mode):
        self.what = f"{kind} of user {owner}, {mode:o}"
        self.owner, self.mode, self.kind = owner, mode, kind
        self.path = folder / f"{kind}-{owner}-{mode:o}".replace(" ", "-")
        self.meant = self.path
        if kind == "file":
            self.path.write_text("somebody's")
        elif kind == "link":
            self.meant = self.path.with_suffix(".meant")
            self.meant.mkdir()
            self.path.symlink_to(self.meant)
            os.lchown(self.path, owner, owner)
        else:
            self.path.mkdir()
        self.meant.chmod(mode)
        os.chown(self.meant, owner, owner)

    def contents(self):
        return self.meant.read_text(encoding="utf-8") if self.kind == "file" else sorted(os.listdir(self.meant))

    def fits(self, user, strict):
        return self.kind == "directory" and self.owner == user and not (strict and self.mode & 0o022)


def places(folder):
    for owner in (0, NOBODY, STRANGER):
        yield Place(folder, "directory", owner, 0o700)
        yield Place(folder, "directory", owner, 0o777)
        yield Place(folder, "link", owner, 0o700)
        yield Place(folder, "file", owner, 0o666)


def judge(name, command, place, fits):
    """"" or what is wrong."""
    environment = dict(os.environ, UROCE_RUNTIME_DIR=str(place.path))
    before = place.contents()
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        deadline = time.monotonic() + PATIENCE_S
        # Servers stay; what they make in the directory says that they took it.
        while process.poll() is None and place.contents() == before and time.monotonic() < deadline:
            time.sleep(0.02)
        stays = process.poll() is None
        if stays:
            process.terminate()
        try:
            said = process.communicate(timeout=PATIENCE_S)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return f"does not end: {process.communicate()[0]}"
    refusals = [line for line in said.splitlines() if str(place.path) in line]
    if fits:
        return "" if not refusals and (stays or process.returncode == 0) else f"refused: {said}"
    if stays or process.returncode == 0:
        return f"taken: {said}"
    if place.contents() != before:
        return f"something was left in it: {place.contents()}"
    return "" if len(refusals) == 1 else f"{len(refusals)} lines name it: {said}"


def main():
    apps = pathlib.Path(sys.argv[1]).resolve()
    if os.geteuid() != 0 or not all(map(shutil.which, ("setpriv", "unshare", "ibv_devinfo"))):
        print("skipped: only root can become another user, and it takes setpriv, unshare and ibv_devinfo")
        sys.exit(SKIP)
    wrong, tried, missing = [], 0, []
    for runner, (wrapper, user) in RUNNERS.items():
        if subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode != 0:
            missing.append(runner)
            continue
        with tempfile.TemporaryDirectory(prefix="uroce-owners-") as folder:
            os.chmod(folder, 0o777)
            for name, command, strict in programs(apps, folder):
                own = pathlib.Path(folder, name.replace(" ", "-"))
                own.mkdir(mode=0o755)
                for place in places(own):
                    why = judge(name, [*wrapper, *command], place, place.fits(user, strict))
                    tried += 1
                    if why:
                        wrong.append(f"{name} by {runner}, {place.what}: {why.strip()}")
    print("\n".join(wrong))
    print(f"{tried} tried, {len(wrong)} wrong")
    for runner in missing:
        print(f"skipped: {runner} cannot be had on this machine")
    each = 84 * (len(RUNNERS) - len(missing))
    sys.exit(1 if wrong or tried < each else SKIP if missing else 0)


if __name__ == "__main__":
    main()
