"""hc-ray on one machine: paths, owners' labels, cleanup after dead processes, and the guard of sealed paths."""
