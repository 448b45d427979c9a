#!/bin/bash
set -e
cd /app
cat > password.py <<'END_OF_FILE'
def long_enough(password):
    return len(password) >= 8
END_OF_FILE
