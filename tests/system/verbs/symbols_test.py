"""What leaves the shim: all of libibverbs' public symbols under their versions, the wrappers of libc, nothing else."""

import re
import subprocess
import sys

# Public symbols of rdma-core releases later than the one installed here.
LATER = {
    "IBVERBS_1.15": {"ibv_alloc_dmah", "ibv_dealloc_dmah", "ibv_reg_mr_ex"},
    "IBVERBS_1.16": {"ibv_dm_export_dmabuf_fd", "ibv_query_port_speed"},
    "IBVERBS_1.17": {"ibv_alloc_buf", "ibv_free_buf", "ibv_reg_buf_mr"},
}
TOOLS_PRIVATE = {"ibv_query_gid_type@IBVERBS_PRIVATE_34"}
LIBC_WRAPPERS = set("""
    dlopen dlmopen open open64 openat openat64 __open_2 __open64_2 __openat_2 __openat64_2 fopen fopen64
    stat stat64 lstat lstat64 __xstat __xstat64 __lxstat __lxstat64 fstatat fstatat64 statx
    access euidaccess eaccess faccessat readlink readlinkat realpath __realpath_chk canonicalize_file_name
    opendir scandir scandir64 glob glob64 chdir fchdir getcwd __getcwd_chk get_current_dir_name
    read pread pread64 __read_chk __pread_chk __pread64_chk
    sigaction signal bsd_signal ssignal sysv_signal __sysv_signal pthread_sigmask sigprocmask""".split())


def exported(library):
    """Names with their versions: a default one ("@@") counts as any other."""
    output = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True,
                            capture_output=True, text=True).stdout
    names = {line.split()[-1].replace("@@", "@") for line in output.splitlines()}
    return {name for name in names if not re.fullmatch(r"IBVERBS_[A-Z0-9_.]+(@.*)?", name)}


def main():
    shim = exported(sys.argv[1])
    real_path = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"
    output = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"libibverbs\.so\.1 .*=> (\S+)", output)
    real = {name for name in exported(found.group(1) if found else real_path) if "PRIVATE" not in name}
    later = {f"{name}@{node}" for node, names in LATER.items() for name in names}
    expected = real | later | TOOLS_PRIVATE

    problems = []
    if len(real) < 100:
        problems.append(f"the real library shows only {len(real)} public symbols: this test is looking at the wrong file")
    problems += [f"missing: {name}" for name in sorted(expected - shim)]
    problems += [f"should not leave the library: {name}" for name in sorted(shim - expected - LIBC_WRAPPERS)]
    problems += [f"wrapper is missing: {name}" for name in sorted(LIBC_WRAPPERS - shim)]
    for problem in problems:
        print(problem)
    print(f"{len(real)} public symbols, {len(shim)} exported")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
