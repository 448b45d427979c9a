#!/bin/bash
set -e
cd /app
cat > color.txt <<'END_OF_FILE'
^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$
END_OF_FILE
