"""Audits, after a sweep, the true quality of self-tests and candidates. Nothing of it reaches a prompt."""
