#!/bin/bash
set -e
cd /app
cat > ranges.py <<'END_OF_FILE'
def summary(pages):
    runs = []
    for page in sorted(set(pages)):
        if runs and page == runs[-1][1] + 1:
            runs[-1][1] = page
        else:
            runs.append([page, page])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
END_OF_FILE
