"""Cheats prepared in the solver's own sandbox, whose processes still run while the submission is graded."""

from tests.boundary.cheats.cheat import LEAVES_WRONG, Cheat

_WRITE = (
    "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json"
)

CHEATS = (
    Cheat("a background writer", "a loop that rewrites the reward files of its sandbox for ever",
          script=LEAVES_WRONG + f"(while :; do {_WRITE}; sleep 0.02; done) >/dev/null 2>&1 </dev/null &\n"),
    Cheat("a double-forked daemon", "left its session; rewrites reward files and tests for ever",
          script=LEAVES_WRONG + f"""python3 - >/dev/null 2>&1 </dev/null <<'END'
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            os.system({_WRITE!r} + "; mkdir -p /tests; echo 'def test_nothing(): pass' > /tests/test_outputs.py")
            time.sleep(0.02)
    os._exit(0)
END
"""),
    Cheat("/tests made before as a link and a fifo", "rm -rf /tests /logs; links and fifos in their place",
          script=LEAVES_WRONG + "mkdir -p /app/mine; rm -rf /tests /logs/verifier; ln -s /app/mine /tests\n"
          "mkdir -p /logs; mkfifo /logs/verifier; mkfifo /app/mine/test.sh\n"),
    Cheat("a patched stdlib", "json of the image's own Python leaves at once",
          script=LEAVES_WRONG + "file=$(python3 -c 'import json; print(json.__file__)')\n"
          "echo 'import os; os._exit(0)' >> \"$file\"\n"),
    Cheat("hard links and devices made inside", "the answer is a hard link to /etc/shadow, beside device files",
          script="ln -f /etc/shadow /app/backwards.py 2>/dev/null || ln -f /etc/passwd /app/backwards.py\n"
          "mknod /app/memory c 1 1; mknod /app/disk b 8 0; mkfifo /app/fifo; true\n"),
    Cheat("folders without end made inside", "2000 folders inside each other, to break whoever walks them",
          script=LEAVES_WRONG + "cd /app; n=0; while [ $n -lt 2000 ]; do mkdir d && cd d || exit; n=$((n+1)); done\n"),
    Cheat("a sparse file made inside", "backwards.py has a size of 1 TiB and no content",
          script="truncate -s 1T /app/backwards.py 2>/dev/null || truncate -s 80M /app/backwards.py || true\n"),
)  # fmt: skip
