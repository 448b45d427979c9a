#!/bin/bash
set -e
cd /app
cat > names.py <<'END_OF_FILE'
def full_name(first, last):
    return first + " " + last
END_OF_FILE
