#!/bin/bash
set -e
cd /app
cat > greeting.py <<'END_OF_FILE'
def greet(name):
    return f"Hello, {name}!"
END_OF_FILE
