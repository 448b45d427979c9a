#!/bin/bash
set -e
cd /app
cat > duration.py <<'END_OF_FILE'
import re


def seconds(text):
    if not re.fullmatch(r"(\d+[hms])+", text):
        raise ValueError(text)
    return sum(int(n) * {"h": 3600, "m": 60, "s": 1}[u] for n, u in re.findall(r"(\d+)([hms])", text))
END_OF_FILE
