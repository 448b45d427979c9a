#!/bin/bash
set -e
cd /app
cat > temperature.py <<'END_OF_FILE'
def to_fahrenheit(celsius):
    return celsius * 9 / 5 + 32
END_OF_FILE
