#!/bin/bash
set -e
cd /app
sort fruit.txt > sorted.txt
