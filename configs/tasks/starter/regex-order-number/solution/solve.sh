#!/bin/bash
set -e
cd /app
cat > order.txt <<'END_OF_FILE'
^[0-9]{6}$
END_OF_FILE
