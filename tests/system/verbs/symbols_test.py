"""What leaves the shim: all of libibverbs' public symbols under their versions, the wrappers of libc, nothing else."""

import re
import subprocess
import sys

# Of rdma-core 25, 33 and 34, which the releases since then have kept.
TOOLS_PRIVATE = {f"ibv_query_gid_type@IBVERBS_PRIVATE_{number}" for number in (25, 33, 34)}
LIBC_WRAPPERS = set("""
    dlopen dlmopen open open64 openat openat64 __open_2 __open64_2 __openat_2 __openat64_2 fopen fopen64
    stat stat64 lstat lstat64 __xstat __xstat64 __lxstat __lxstat64 __fxstatat __fxstatat64 fstatat fstatat64 statx
    access euidaccess eaccess faccessat readlink readlinkat realpath __realpath_chk canonicalize_file_name
    getxattr lgetxattr listxattr llistxattr
    opendir scandir scandir64 glob glob64 chdir fchdir getcwd __getcwd_chk get_current_dir_name
    write writev close close_range closefrom dup dup2 dup3 fcntl fcntl64 fstat fstat64 __fxstat __fxstat64
    read pread pread64 __read_chk __pread_chk __pread64_chk
    socket send sendto sendmsg
    sigaction signal bsd_signal ssignal sysv_signal __sysv_signal pthread_sigmask sigprocmask""".split())


def exported(library):
    """Names with their versions: a default one ("@@") counts like any other."""
    output = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True,
                            capture_output=True, text=True).stdout
    names = {line.split()[-1].replace("@@", "@") for line in output.splitlines()}
    return {name for name in names if not re.fullmatch(r"IBVERBS_[A-Z0-9_.]+(@.*)?", name)}


def listed(path):
    """The names in public_symbols.txt: they do not depend on the release that is installed here."""
    names, node = set(), None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("  "):
                names.add(f"{line.strip()}@{node}")
            elif not line.startswith("#"):
                node = line.strip()
    return names


def main():
    shim = exported(sys.argv[1])
    public = listed(sys.argv[2])
    real_path = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"
    output = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"libibverbs\.so\.1 .*=> (\S+)", output)
    real = {name for name in exported(found.group(1) if found else real_path) if "PRIVATE" not in name}
    expected = public | TOOLS_PRIVATE

    problems = []
    if len(real) < 100:
        problems.append(f"the real library shows only {len(real)} public symbols: this test is looking at the wrong file")
    problems += [f"the installed library has it, public_symbols.txt has not: {name}" for name in sorted(real - public)]
    problems += [f"missing: {name}" for name in sorted(expected - shim)]
    problems += [f"should not leave the library: {name}" for name in sorted(shim - expected - LIBC_WRAPPERS)]
    problems += [f"wrapper is missing: {name}" for name in sorted(LIBC_WRAPPERS - shim)]
    for problem in problems:
        print(problem)
    print(f"{len(public)} public symbols, {len(real)} of them installed here, {len(shim)} exported")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
