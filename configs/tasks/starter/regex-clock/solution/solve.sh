#!/bin/bash
set -e
cd /app
cat > clock.txt <<'END_OF_FILE'
^([01][0-9]|2[0-3]):[0-5][0-9]$
END_OF_FILE
