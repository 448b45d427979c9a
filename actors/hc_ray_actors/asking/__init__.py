"""Between the trials of a process and the engines: queues, choice of a replica, reuse of answers. Knows no sandbox and
no verifier."""
