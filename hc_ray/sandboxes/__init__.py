"""WALL. Isolated places to run commands: ``docker`` and ``bwrap`` behind the port ``SandboxPlace``, ``inside`` (code
that runs within them) and the runner, an interpreter that both mount. May import ``tasks``, ``machine`` and
``domain``."""
