#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles the project and runs what came out.
set -eu
javac -d /tmp/classes project/*.java
java -cp /tmp/classes project.Main
