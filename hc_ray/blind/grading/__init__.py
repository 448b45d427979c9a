"""Grades a submission to one bit: applies it, protects what the tests trust, runs them, and decides the verdict."""
