"""For tests of programs that are one script: what does not hold ends it, with what the program said."""

import sys

done = 0  # how many checks held


def expect(condition, what, result=None):
    """`result`: of the subprocess.run that is checked."""
    global done
    done += 1
    if condition:
        return
    print(f"not so: {what}")
    if result is not None:
        print(f"exit status {result.returncode}\n{result.stdout}{result.stderr}")
    sys.exit(1)
