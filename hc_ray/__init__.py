"""hc-ray: makes small local models solve coding and terminal tasks by test-time compute, judged blind."""

__version__ = "0.1.0"
