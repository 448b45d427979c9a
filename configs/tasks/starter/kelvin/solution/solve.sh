#!/bin/bash
set -e
cd /app
cat > kelvin.py <<'END_OF_FILE'
def to_kelvin(celsius):
    return celsius + 273.15
END_OF_FILE
