#!/bin/bash
set -e
cd /app
cat > sum.sh <<'END_OF_FILE'
#!/bin/bash
total=0
for number in "$@"; do
  total=$((total + number))
done
echo "$total"
END_OF_FILE
