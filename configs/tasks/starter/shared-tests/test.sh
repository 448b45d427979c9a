#!/bin/bash
# Runs the hidden tests and writes the reward (1 or 0) where Harbor reads it.
mkdir -p /logs/verifier
reward=0
cd /tests || exit 1
export PYTHONDONTWRITEBYTECODE=1
if python3 -m pytest /tests/test_outputs.py -q -rA -p no:cacheprovider -c /dev/null --rootdir=/tests; then
  reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
