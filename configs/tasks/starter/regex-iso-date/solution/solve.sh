#!/bin/bash
set -e
cd /app
cat > date.txt <<'END_OF_FILE'
^\d{4}-(02-(0[1-9]|[12]\d)|(0[13-9]|1[0-2])-(0[1-9]|[12]\d|3[01]))$
END_OF_FILE
