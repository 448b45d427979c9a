#!/bin/bash
set -e
cd /app
cat > password.txt <<'END_OF_FILE'
^(?=.*[0-9])(?=.*[A-Z])(?!.*(.)\1\1)\S{8,20}$
END_OF_FILE
