import json
import subprocess
import sys

HEAVY = ("ray", "mlflow", "docker", "pyarrow", "scipy", "numpy", "httpx", "rich", "xllamacpp")
PROGRAM = f"""
import contextlib, io, json, sys
from hc_ray.cli.app import main
sys.argv = ["hc-ray", "--help"]
shown = io.StringIO()
with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
    main()
print(json.dumps([[name for name in {HEAVY!r} if name in sys.modules], shown.getvalue()]))
"""


def test_help_imports_no_heavy_library() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    imported, shown = json.loads(done.stdout)
    assert "sweep" in shown and imported == []
