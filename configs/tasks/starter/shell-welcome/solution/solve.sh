#!/bin/bash
set -e
cd /app
cat > welcome.sh <<'END_OF_FILE'
#!/bin/bash
echo "Welcome, $1"
END_OF_FILE
