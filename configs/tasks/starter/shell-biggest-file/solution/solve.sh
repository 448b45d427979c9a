#!/bin/bash
set -e
cd /app
cat > biggest.sh <<'END_OF_FILE'
#!/bin/bash
best=-1
name=
for path in "$1"/* "$1"/.[!.]*; do
  [ -f "$path" ] || continue
  size=$(stat -c %s "$path")
  if [ "$size" -gt "$best" ]; then
    best=$size
    name=${path##*/}
  fi
done
[ "$best" -lt 0 ] || echo "$name"
END_OF_FILE
