#!/bin/bash
set -e
cd /app
cat > anames.py <<'END_OF_FILE'
def starting_with_a(names):
    return [name for name in names if name.startswith("A")]
END_OF_FILE
