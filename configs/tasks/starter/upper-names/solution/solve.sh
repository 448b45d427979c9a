#!/bin/bash
set -e
cd /app
cat > upper.py <<'END_OF_FILE'
def upper_names(names):
    return [name.upper() for name in names]
END_OF_FILE
