#!/bin/bash
set -e
cd /app
cat > settings.json <<'END_OF_FILE'
{"name": "Orion", "port": 8080, "debug": true}
END_OF_FILE
