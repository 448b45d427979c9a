#!/bin/bash
set -e
cd /app
cat > word.txt <<'END_OF_FILE'
^[a-z]+$
END_OF_FILE
