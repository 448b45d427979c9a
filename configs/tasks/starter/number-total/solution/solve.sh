#!/bin/bash
set -e
cd /app
python3 -c 'print("%.2f" % sum(map(float, open("numbers.txt").read().split())))' > total.txt
