#!/bin/bash
set -e
cd /app
cat > backup.sh <<'END_OF_FILE'
#!/bin/bash
cp "$1" "$1.bak"
END_OF_FILE
