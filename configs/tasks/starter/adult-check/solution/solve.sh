#!/bin/bash
set -e
cd /app
cat > age.py <<'END_OF_FILE'
def is_adult(age):
    return age >= 18
END_OF_FILE
