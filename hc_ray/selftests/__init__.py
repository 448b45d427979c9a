"""Self-tests, written by the model or taken from an instruction's examples: inputs, gate, suite, runner, and trust. May
import ``agent`` and ``spec``."""
