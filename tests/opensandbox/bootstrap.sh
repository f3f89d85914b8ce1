#!/bin/sh
# Starts the stand-in daemon beside what the sandbox was made for.
/opt/opensandbox/execd &
exec "$@"
